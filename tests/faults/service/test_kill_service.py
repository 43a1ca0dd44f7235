"""Kill -9 of the service while it learns."""

import random

from tests.faults.load import Load, rows
from tests.faults.rebuild import history, judge, settle

COUNT, KILLS = 2000, 3


def test_recovery_goes_through_a_snapshot_and_the_tail(serve):
    """Killed while snapshots are taken and the log is trimmed, the state is that of all entries ever appended."""
    settings = {"SNAPSHOT_MIN_KB": 1, "SNAPSHOTS_KEPT": 1, "DURABILITY": "everysec"}
    service, table = serve(**settings).start(), rows(COUNT, 2)
    service.create()
    load = Load([service], table).start()
    for moment in sorted(random.Random(2).sample(range(100, COUNT - 200), KILLS)):
        load.acknowledged(moment)
        assert 201 == service.request("POST", "/models/m/snapshots").status
        service.restart()
    load.finish()
    assert load.broken >= KILLS
    judge(service, table, load, entries=history(service.data, service.store_url))
    assert 1 == len(service.get("/models/m/snapshots")["snapshots"])
    service.restart()
    settle(service, table, load, entries=history(service.data, service.store_url))
