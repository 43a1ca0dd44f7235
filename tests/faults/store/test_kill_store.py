"""Kill -9 of the store while the service learns; every answer has waited for the disk."""

import random

from tests.faults.load import Load, rows
from tests.faults.processes import PATIENCE_S, eventually
from tests.faults.rebuild import settle

COUNT = 2000


def test_the_service_starts_its_store_again_and_nothing_acknowledged_is_lost(serve):
    """The private store is killed three times under load; the service goes on, and every row is in exactly once."""
    service, table = serve(SNAPSHOT_MIN_KB=10**6, DURABILITY="always").start(), rows(COUNT, 3)
    service.create()
    load = Load([service], table).start()
    for moment in sorted(random.Random(3).sample(range(100, COUNT - 200), 3)):
        load.acknowledged(moment)
        server = service.store_process()
        server.kill()
        server.wait(PATIENCE_S)
    load.finish()
    assert service.running
    assert {"always"} == {answer["durability"] for answer in load.answers.values()}
    settle(service, table, load)
    assert (3, 1) == (service.metric("store_restarts"), service.log.count("the private store has died"))
    assert (200, 0) == (eventually(200, service.ready), service.metric("queued"))
