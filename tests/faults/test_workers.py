"""Several workers behind one port: they are replicas of each other, and none of them is missed."""

import psutil
import pytest

from tests.faults.load import Load, rows
from tests.faults.metrics import by_worker
from tests.faults.processes import eventually
from tests.faults.replay import history, judge, meta, repeat, whole_log

pytestmark = pytest.mark.faults
WHOLE_LOG = {"SNAPSHOT_MIN_KB": 10**6}


def _pids(service):
    return {process.pid for process in service.worker_processes()}


def _gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_two_workers_are_one_service(serve):
    """Connections go to both; every row is learned once, a strong read of either sees it, and a stop ends all."""
    service, table = serve(WORKERS=2, **WHOLE_LOG).start(), rows(600, 70)
    service.create()
    load = Load([service], table, clients=16).run()
    states = {service.state() for _ in range(20)}  # each over a connection of its own
    assert 1 == len(states)
    judge(service, whole_log(service.store_url), table, load)
    repeat(service, table, load, clients=16)
    assert eventually(
        [True, True], lambda: [n > 0 for n in by_worker(service, "entries_total").values()]
    )  # each its share
    processes = service.worker_processes()
    assert 2 == service.log.count("with its own store in ")
    assert 0 == service.stop()
    assert [True, True] == [_gone(process) for process in processes]


def test_a_worker_that_is_killed_is_replaced(serve):
    """Under load, twice: the rows it had under way are sent again, the others go on, and nothing is in twice."""
    service, table = serve(WORKERS=2, **WHOLE_LOG).start(), rows(1500, 71)
    service.create()
    load = Load([service], table, clients=8).start()
    for moment in (300, 700):
        load.acknowledged(moment)
        before = _pids(service)
        killed = service.worker_processes()[0]
        killed.kill()
        assert eventually(True, lambda before=before: len(_pids(service)) == 2 and _pids(service) != before)
    load.finish()
    judge(service, whole_log(service.store_url), table, load)
    repeat(service, table, load)
    assert 2 == service.log.count("it is started again")
    assert 0 == service.stop()


def test_the_private_store_is_started_again_for_all_workers(serve):
    """The parent looks after it; what was acknowledged is in."""
    service, table = serve(WORKERS=2, DURABILITY="always", **WHOLE_LOG).start(), rows(600, 72)
    service.create()
    load = Load([service], table).start()
    load.acknowledged(200)
    service.store_process().kill()
    load.finish()
    judge(service, whole_log(service.store_url), table, load)
    assert "the private store died" in service.log
    assert 0 == service.stop()


def test_workers_end_with_their_parent(serve):
    """Killed -9 the parent can stop nobody: workers and store end by themselves, and the next start finds all rows."""
    service, table = serve(WORKERS=2, DURABILITY="always").start(), rows(600, 73)
    service.create()
    load = Load([service], table).start()
    load.acknowledged(200)
    processes = service.worker_processes()
    service.kill()
    assert [True, True] == [eventually(True, lambda process=process: _gone(process)) for process in processes]
    service.start()
    load.finish()
    judge(service, history(service.data, "m", meta(service.store_url).incarnation), table, load)
    repeat(service, table, load)


def test_workers_that_cannot_start_end_the_service(serve):
    """With settings that no worker can use the parent says so and gives up, rather than trying for ever."""
    service = serve(WORKERS=2, API_KEYS="nonsense").start()
    assert 2 == service.died()
    assert "workers cannot be started" in service.log


def test_a_stop_under_load_ends_well(serve):
    """SIGTERM to the parent: queued rows are answered or hung up on, snapshots are written, status 0."""
    service, table = serve(WORKERS=2).start(), rows(900, 74)
    service.create()
    load = Load([service], table).start()
    load.acknowledged(300)
    assert 0 == service.stop()
    service.start()
    assert 1 <= len(service.get("/models/m/snapshots")["snapshots"])
    load.finish()
    judge(service, history(service.data, "m", meta(service.store_url).incarnation), table, load)
    assert "ERROR" not in service.log
