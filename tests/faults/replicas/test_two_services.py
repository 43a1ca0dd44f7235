"""Two services on one store, with clients at both."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.store.log.log import READ_AFTER
from tests.faults.load import Client, Load, rows
from tests.faults.rebuild import repeat


@pytest.mark.slow_but("before-the-tail")
@pytest.mark.parametrize("moment", ["before-the-first", "before-a-piece", "before-the-tail"])
def test_a_snapshot_by_one_while_the_other_loads(serve, store, proxy, moment):
    """The data is trimmed and replaced while it is read: the reader starts again and reports no corruption."""
    table = rows(90, 35)
    loading = serve(REDIS_URL=proxy.url, SNAPSHOT_MIN_KB=10**6).start()
    other = serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6, SNAPSHOTS_KEPT=1).start()
    other.create()
    load = Load([other], table).run()
    if moment != "before-the-first":
        assert 201 == other.request("POST", "/models/m/snapshots").status
    proxy.pause_before("HGET" if moment == "before-a-piece" else READ_AFTER.sha)
    with ThreadPoolExecutor(1) as pool:
        state = pool.submit(loading.state)
        assert proxy.paused.wait(60)
        if moment != "before-the-first":
            Client(other).learn(rows(1, 36, "late")[0])
        assert 201 == other.request("POST", "/models/m/snapshots").status
        proxy.open.set()
        assert other.state() == state.result(60)
    assert (0, 0) == (loading.metric("corrupt_snapshots"), loading.metric("down_models"))
    repeat(loading, table, load)
