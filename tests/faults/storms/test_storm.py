"""Everything at once: three services, eight clients with mixed traffic, kill -9 at random.

Each takes seven seconds in ``make test-all``; ``make test-faults`` runs each for two minutes and prints its tables.
Those of one run are in deploy/README.md.
"""

import os
import random
import time

import pytest

from tests.faults.rebuild import history, whole_log
from tests.faults.servers import Cluster
from tests.faults.storm import Storm, calm, kill_service, kill_store, rage, services_on, table, verdict

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = float(os.environ.get("STORM_S", "7"))
SEED = int(os.environ.get("STORM_SEED", "1"))
COSTS = {"class_costs": {"up": 40}}
MODELS = {"a": {"algorithm": "auto", **COSTS}, "b": {"algorithm": "dynamic_odm"}, "c": {}, "d": COSTS}


def _first_snapshots(services):
    for model in MODELS:
        assert 201 == services[0].request("POST", f"/models/{model}/snapshots").status


def test_one_store_that_writes_always(serve, store):
    """Services and store are killed again and again: every acknowledged id is in exactly once, as acknowledged."""
    services = services_on(serve, store.url, 3, MODELS, SNAPSHOT_MIN_KB=64)
    _first_snapshots(services)
    with Storm(services, [*MODELS], seed=SEED, choose=True) as storm:
        strikes = [("kill -9 of a service", kill_service(services)), ("kill -9 of the store", kill_store(store, 1.0))]
        rage(SECONDS, SEED, strikes, storm.counts)
        calm(services)
    found = verdict(storm, store.url, lambda model: history(store.data, store.url, model))
    print(table(f"One Redis, appendfsync always, {SECONDS:g} s", storm.counts + found))
    assert 0 == found["acknowledged rows lost"] + found["lost tails reported"]


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_cluster_with_failovers(serve, replicas):
    """Rows that an asynchronous failover loses are counted and reported; nothing is in twice, nothing else is lost."""
    cluster = Cluster(appendfsync="everysec")
    try:
        cluster.start()
        services = services_on(serve, cluster.url, 3, MODELS, SNAPSHOT_MIN_KB=10**6, MIN_REPLICAS=replicas)
        with Storm(services, [*MODELS], seed=SEED) as storm:
            time.sleep(1)
            _first_snapshots(services)

            def fail_over(draw: random.Random, *, cut: bool = False) -> None:
                primary = cluster.primary(draw.choice([*MODELS]))
                if cut:
                    primary.cut_off()
                    time.sleep(0.5)
                primary.kill()
                time.sleep(draw.uniform(3, 5))
                primary.start()
                deadline = time.monotonic() + 30
                while not cluster.whole() and time.monotonic() < deadline:
                    time.sleep(0.1)

            strikes = [
                ("kill -9 of a service", kill_service(services)),
                ("kill -9 of a primary", fail_over),
                ("kill -9 of a primary that its replica had lost", lambda draw: fail_over(draw, cut=True)),
            ]
            rage(SECONDS, SEED + replicas, strikes, storm.counts)
            calm(services)
        found = verdict(storm, cluster.url, lambda model: whole_log(cluster.url, model))
        print(table(f"Six nodes, ONEPASS_MIN_REPLICAS={replicas}, {SECONDS:g} s", storm.counts + found))
        assert found["their entries"] == found["their entries, reported"]
        assert not replicas or found["acknowledged rows lost"] == 0
    finally:
        cluster.end()
