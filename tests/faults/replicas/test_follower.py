"""Replicas without any requests know what the others learn."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.load import Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge, repeat

TABLE = rows(120, 60)
WHOLE_LOG = {"SNAPSHOT_MIN_KB": 10**6}


@pytest.fixture
def pair(serve, store):
    """Two services that both hold the model m."""
    made = [serve(REDIS_URL=store.url, WAIT_TIMEOUT_S=20, **WHOLE_LOG).start() for _ in range(2)]
    made[0].create()
    assert [0, 0] == [service.rows() for service in made]
    return made


def test_a_replica_follows_without_requests(pair, store):
    """No request asks it for freshness and no feedback reaches it; in the end both are the same, bit by bit."""
    learning, following = pair
    load = Load([learning], TABLE).run()
    assert 120 == eventually(120, following.rows)
    assert 1 == following.metric("hints")
    assert (0, 0) == (following.metric("models_lagging"), following.get("/readyz")["lag"])
    judge(following, TABLE, load)
    assert (0, 1) == (following.metric("entries"), following.metric("loads"))


@pytest.mark.slow
def test_a_waiting_read_ends_when_the_model_is_deleted(pair):
    """Deleted at the other service or at the same one: 404 at once instead of 504 after the wait."""
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(service.request, "GET", "/models/m?min_version=1000") for service in pair]
        assert 204 == pair[0].request("DELETE", "/models/m").status
        assert [404, 404] == [read.result(15).status for read in waiting]


@pytest.mark.slow
def test_a_name_that_was_deleted_and_reused_is_noticed(pair, store):
    """A replica without requests drops the old model; reads, predictions and feedback reach the new one."""
    one, other = pair
    Load([one], TABLE[:30]).run()
    assert 30 == eventually(30, other.rows)
    before = other.get("/models/m")["incarnation"]
    assert 204 == one.request("DELETE", "/models/m").status
    assert 404 == eventually(404, other.rows)
    one.create()
    load = Load([one], TABLE[:50]).run()
    assert 50 == eventually(50, other.rows)
    assert before != other.get("/models/m")["incarnation"]
    second = Load([other], TABLE[50:]).run()
    judge(other, TABLE, load, second)
    assert one.state() == other.state()


def test_a_user_who_may_not_publish_or_listen_is_served(serve, store):
    """Without notices appends work as usual, and the sweep alone keeps the replicas current."""
    with store.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "resetchannels")
    url = f"unix://app:secret@{store.socket}"
    pair = [serve(REDIS_URL=url, **WHOLE_LOG).start() for _ in range(2)]
    pair[0].create()
    assert [0, 0] == [service.rows() for service in pair]
    load = Load(pair[:1], TABLE).run()
    assert 120 == eventually(120, pair[1].rows)
    assert ({}, 0) == (dict(load.refused), load.broken)
    assert [(200, False)] * 2 == [
        ((ready := service.request("GET", "/readyz")).status, ready.json["checks"]["hints"]) for service in pair
    ]
    repeat(pair[1], TABLE, load)
