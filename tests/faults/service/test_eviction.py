"""More models than memory: they are evicted and reloaded while they learn."""

from tests.faults.load import Load, rows
from tests.faults.rebuild import judge, repeat

NAMES = [f"m{number}" for number in range(12)]


def test_models_that_are_evicted_while_they_learn_lose_nothing(serve, store):
    """Twelve models of 2 MiB share 16 MiB under load: every row is in once, every state equals the serial replay."""
    settings = {"MEMORY_BUDGET_MB": 16, "SNAPSHOT_MIN_KB": 10**6}
    service, table = serve(REDIS_URL=store.url, **settings).start(), rows(12, 50, columns=350)
    for name in NAMES:
        service.create(name)
    loads = {name: Load([service], table, clients=2, model=name).start() for name in NAMES}
    for name, load in loads.items():
        load.finish()
        judge(service, table, load, name=name)
        repeat(service, table, load, clients=2, name=name)
    assert 8 <= service.metric("evictions")
    assert (0, 0) == (service.metric("models_down"), service.metric("queued"))
