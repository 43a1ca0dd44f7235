"""A replica that loads and one that follows: ``python -m tests.benchmarks.replicas``.

The time to load a model over the length of its log (from the first version on: no snapshot helps), and how far a
service that is sent nothing lags behind one that learns: the time from an acknowledgement at the one until the other,
asked every half a millisecond and never for freshness, has that version. Load generator, services and store share the
machine's cores.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator

from tests.benchmarks import rows
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Load, Service

CONNECTIONS = 16
LOGS = (1_000, 10_000, 50_000)
LAGS = 400


def _feed(load: Load, service: Service, seconds: float) -> None:
    load.run(Job(service.port, "feedback", "/models/hot/feedback", CONNECTIONS, seconds, 0.3))


def recovery(load: Load) -> Iterator[tuple[int, int, float]]:
    """Entries, rows and seconds until a model that is in no memory answers."""
    with Service(snapshot_min_kb="1000000", snapshots_kept="1") as service:
        service.create("hot", rows.model({}))
        for entries in LOGS:
            while (shown := _shown(service))["version"] < entries:
                _feed(load, service, 1.0)
            service.kill()  # a stop would write a snapshot
            time.sleep(0.5)
            service.start()
            begun = time.monotonic()
            shown = _shown(service)
            yield shown["version"], shown["rows"], time.monotonic() - begun


def _shown(service: Service) -> dict[str, int]:
    return json.loads(service.call("GET", "/models/hot")[1])


def lags(load: Load) -> list[float]:
    """Milliseconds that the follower was behind, one per acknowledgement looked at, while others learn as well."""
    with Service() as first:
        url = f"unix://{first.socket}"
        with Service(redis_url=url) as learning, Service(redis_url=url) as following:
            learning.create("hot", rows.model({}))
            _shown(following)
            noise = threading.Thread(target=_feed, args=(load, learning, LAGS * 0.03))
            noise.start()
            found = []
            body = json.loads(rows.single(1, 5)[0])
            while len(found) < LAGS and noise.is_alive():
                status, answer = learning.call("POST", "/models/hot/feedback", body)
                begun = time.monotonic()
                assert status == 200
                version = json.loads(answer)["version"]
                while _shown(following)["version"] < version:
                    time.sleep(0.0005)
                found.append(1000 * (time.monotonic() - begun))
            noise.join()
            return sorted(found)


def main() -> int:
    """Print the tables."""
    with Load() as load:
        print(f"{'recovery, entries':>20}{'rows':>10}{'seconds':>10}")
        for entries, learned, seconds in recovery(load):
            print(f"{entries:20}{learned:10}{seconds:10.2f}")
        behind = lags(load)
    shares = (0.5, 0.9, 0.99)
    print("\nfollower behind, ms: " + ", ".join(f"p{s * 100:g} {behind[int(len(behind) * s)]:.1f}" for s in shares))
    return 0


if __name__ == "__main__":
    sys.exit(main())
