"""Kill -9 of the service while it learns."""

import random

import pytest

from tests.faults.load import Load, rows
from tests.faults.rebuild import history, judge, settle

COUNT = 2000


def _killed_under_load(service, table, kills, seed, before_kill=lambda: None):
    service.start()
    service.create()
    load = Load([service], table).start()
    for moment in sorted(random.Random(seed).sample(range(100, COUNT - 200), kills)):
        load.acknowledged(moment)
        before_kill()
        service.restart()
    load.finish()
    assert load.broken >= kills
    return load


def test_rows_acknowledged_before_a_kill_are_in_exactly_once(serve):
    """After three kills under load every row is learned once, and the state equals the serial replay of the log."""
    service, table = serve(SNAPSHOT_MIN_KB=10**6, DURABILITY="everysec"), rows(COUNT, 1)
    load = _killed_under_load(service, table, 3, seed=1)
    settle(service, table, load)


@pytest.mark.slow
def test_recovery_goes_through_a_snapshot_and_the_tail(serve):
    """Killed while snapshots are taken and the log is trimmed, the state is that of all entries ever appended."""
    service, table = serve(SNAPSHOT_MIN_KB=1, SNAPSHOTS_KEPT=1), rows(COUNT, 2)

    def snapshot():
        assert 201 == service.request("POST", "/models/m/snapshots").status

    load = _killed_under_load(service, table, 2, seed=2, before_kill=snapshot)
    judge(service, table, load, entries=history(service.data, service.store_url))
    assert 1 == len(service.get("/models/m/snapshots")["snapshots"])
    service.restart()
    settle(service, table, load, entries=history(service.data, service.store_url))
