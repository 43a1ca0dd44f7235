"""A storm: clients with mixed traffic on several services, while services and stores are killed at random."""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.config import Config
from core.model import save
from service.store.log.entries import RawEntry
from tests.faults.clients import Clients
from tests.faults.load import Row, by_column, rows
from tests.faults.processes import BROKEN, Answer, Service, Store, eventually
from tests.faults.rebuild import config_of, learnt, oldest_snapshot, rebuild, stamp

BATCH = 5
PAUSE_S = 0.03
WEIGHTS = (None, None, 1e-6, 7.0, 1e3)
CHALLENGERS = ({"algorithm": "dynamic_odm", "promote": "auto"}, {"algorithm": "fesl_c"})
LOST = re.compile(r"model (\S+): the entries of versions (\d+) to (\d+) are lost")


class Storm(Clients):
    """Clients that go on until told to finish, and then until all their rows are acknowledged.

    ``choose``: they also create, promote and delete challengers; ``told``, ``batches``: acknowledgements by id or ids.
    """

    def __init__(
        self,
        services: Sequence[Service],
        models: Sequence[str],
        clients: int = 8,
        seed: int = 0,
        *,
        choose: bool = False,
    ) -> None:
        super().__init__(services, clients, seed)
        self.models, self._shares = models, (70, 8, 10, 7, 5, 10 if choose else 0)
        self.told: dict[str, dict[str, Any]] = {model: {} for model in models}
        self.batches: dict[str, dict[tuple[str, ...], Any]] = {model: {} for model in models}
        self._lock = threading.Lock()

    def _client(self, number: int, draw: random.Random) -> None:
        count = 0
        while not self._over.is_set():
            model = draw.choice(self.models)
            kind = draw.choices(("row", "batch", "predict", "follow", "strong", "choose"), self._shares)[0]
            table = rows(BATCH if kind == "batch" else 1, number, f"c{number}-{count}-")
            count += 1
            if kind == "row":
                self._until_acknowledged(draw, model, table[:1])
            elif kind == "batch":
                self._until_acknowledged(draw, model, table)
            elif kind == "choose":
                self._choose(draw, model)
            else:
                self._look(draw, model, kind, table[0])

    def _until_acknowledged(self, draw: random.Random, model: str, table: Sequence[Row]) -> None:
        path, weight = f"/models/{model}/feedback", draw.choice(WEIGHTS)
        body = table[0]._asdict() | ({} if weight is None else {"weight": weight})
        if len(table) > 1:
            path, body = f"{path}/batch", by_column(table) | {"ids": [row.id for row in table]}
            body |= {} if weight is None else {"weights": [weight] * len(table)}
        while (answer := self._ask(draw, "POST", path, body)) is None:
            time.sleep(PAUSE_S)
        with self._lock:
            self.counts["rows acknowledged"] += len(table)
            self.counts["duplicates told"] += bool(answer.json["duplicate"])
            if len(table) == 1:
                self.told[model][table[0].id] = answer.json
            else:
                self.batches[model][tuple(row.id for row in table)] = answer.json

    def _look(self, draw: random.Random, model: str, kind: str, row: Row) -> None:
        known = next(reversed(self.told[model].values()), None)
        least = known["version"] if known is not None and kind == "follow" else 0
        query = "?consistency=strong" if kind == "strong" else f"?min_version={least}"
        if kind == "predict":
            self._ask(draw, "POST", f"/models/{model}/predict", {"features": row.features})
            return
        answer = self._ask(draw, "GET", f"/models/{model}{query}")
        if answer is not None and answer.status == 200:
            assert answer.json["version"] >= least, "a read that is not fresh"

    def _choose(self, draw: random.Random, model: str) -> None:
        """Try once to create a challenger, to promote one by force, or to delete one."""
        which = draw.randrange(len(CHALLENGERS))
        path = f"/models/{model}/challengers/other{which}"
        method, more, body = draw.choice(
            [("PUT", "", CHALLENGERS[which]), ("POST", "/promote", {"force": True}), ("DELETE", "", None)]
        )
        self._ask(draw, method, f"{path}{more}", body)

    def _ask(self, draw: random.Random, method: str, path: str, body: object = None) -> Answer | None:
        """Try once at any service; None: try again."""
        try:
            answer = draw.choice(self.services).request(method, path, body)
        except BROKEN:
            self._count("connections broken")
            return None
        choice = "/challengers/" in path
        if answer.status in ((200, 201, 204) if choice else (200,)):
            self._count(f"challengers: {method}" if choice else "requests answered")
            return answer
        if answer.status not in ((404, 409, 503, 504) if choice else (409, 503, 504)):
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body!r}")
        self._count(f"{answer.status} {answer.problem}")
        # a prediction before the first row fixes the features, or a challenger that another client has changed
        assert answer.status != 409 or choice or path.endswith("predict")
        return None

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def rage(
    seconds: float, seed: int, strikes: Sequence[tuple[str, Callable[[random.Random], None]]], counts: Counter[str]
) -> None:
    """Strike at random until the time is over."""
    draw, end = random.Random(f"rage {seed}"), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(draw.uniform(0.3, 2.0))
        what, strike = draw.choice(strikes)
        strike(draw)
        counts[what] += 1


def kill_service(services: Sequence[Service]) -> Callable[[random.Random], None]:
    """Kill -9 one of the services and restart it on its port."""

    def strike(draw: random.Random) -> None:
        service = draw.choice(services)
        service.kill()
        time.sleep(draw.uniform(0, 0.5))
        service.start(PORT=service.port)

    return strike


def kill_store(store: Store, longest_s: float) -> Callable[[random.Random], None]:
    """Kill -9 a store and start it again within some time."""

    def strike(draw: random.Random) -> None:
        store.kill()
        time.sleep(draw.uniform(0, longest_s))
        store.start()

    return strike


def services_on(
    serve: Callable[..., Service], url: str, count: int, models: Mapping[str, Mapping[str, Any]], **settings: object
) -> list[Service]:
    """Start impatient services on a store, and create the models."""
    made = [serve(REDIS_URL=url, STORE_TIMEOUT_S=1, WAIT_TIMEOUT_S=2, **settings).start() for _ in range(count)]
    for name, config in models.items():
        made[0].create(name, **config)
    return made


def verdict(storm: Storm, url: str, log_of: Callable[[str], list[RawEntry]]) -> Counter[str]:
    """Replicas are equal, every bit is the serial replay's, nothing is in twice; lost acknowledged rows are counted."""
    found: Counter[str] = Counter()
    reported = [_reported(service) for service in storm.services]
    for model in storm.models:
        states = {service.state(model) for service in storm.services}
        assert 1 == len(states), "states at the same version differ"
        state = states.pop()
        entries = log_of(model)
        config = config_of(url, model)
        serial = rebuild(config, entries)
        assert save.to_bytes(serial.model, stamp(state)) == state, "the state differs from the serial replay"
        _from_snapshot(config, url, model, entries, state)
        assert {1} >= set(serial.learned.values()), "a row is in twice"
        found["log entries"] += len(entries)
        lost = [(i, told) for i, told in storm.told[model].items() if serial.answers.get(i) != learnt(told)]
        lost += [(i, told) for ids, told in storm.batches[model].items() for i in ids if i not in serial.learned]
        found["acknowledged rows lost"] += len(lost)
        versions = {told["version"] for _, told in lost}
        by = [version for version in versions if any((model, version) in each for each in reported)]
        found["their entries"] += len(versions)
        found["their entries, reported"] += len(by)
    found["lost tails reported"] = sum(service.log.count("the log lost its tail") for service in storm.services)
    return found


def _from_snapshot(config: Config, url: str, model: str, entries: Sequence[RawEntry], state: bytes) -> None:
    """Replaying from the oldest kept snapshot gives the same bits."""
    first = oldest_snapshot(url, model)
    assert first is not None
    begun, taken = save.from_bytes(first)
    rest = [entry for entry in entries if entry.version > taken["version"]]
    assert save.to_bytes(rebuild(config, rest, begun).model, stamp(state)) == state


def _reported(service: Service) -> set[tuple[str, int]]:
    found = LOST.findall(service.log)
    return {(model, at) for model, first, last in found for at in range(int(first), int(last) + 1)}


def calm(services: Sequence[Service]) -> None:
    """Wait until all services are ready."""
    for service in services:
        assert 200 == eventually(200, service.ready)


def table(title: str, counts: Counter[str]) -> str:
    """The counts as a Markdown table."""
    lines = [f"| {what} | {count} |" for what, count in sorted(counts.items())]
    return "\n".join(["", f"| {title} | |", "|---|---:|", *lines, ""])
