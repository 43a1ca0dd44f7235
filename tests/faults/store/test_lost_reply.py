"""A network between service and store: replies get lost or come late, requests never arrive."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import bare, judge, learnt, settle


@pytest.mark.parametrize("fate", ["drop", "cut"])
def test_an_append_whose_reply_is_lost_is_sent_again_and_learned_once(serve, store, proxy, clean, fate):
    """Whether or not the store received it, the client gets 200 and the row is in once."""
    table = rows(30, 6)
    service = serve(REDIS_URL=proxy.url, STORE_TIMEOUT_S=30).start()
    service.create()
    client, answers = Client(service), []
    for number, row in enumerate(table):
        if number % 10 == 5:
            proxy.arm(fate)
        answers.append(client.learn(row))
        assert number % 10 != 5 or proxy.hit.is_set()
    assert {False} == {answer["duplicate"] for answer in answers}
    assert 3 <= service.metric("store_errors")
    judge(service, table)
    assert clean(table) == ([learnt(answer) for answer in answers], bare(service.state()))


@pytest.mark.parametrize("fate", ["delay", "swallow"])
def test_a_reply_later_than_the_timeout_is_503_and_the_retry_learns_once(serve, store, proxy, clean, fate):
    """The fate of the row is unknown; the client gets 503, and its retry the answer of the first try."""
    table = rows(12, 7)
    service = serve(REDIS_URL=proxy.url, STORE_TIMEOUT_S=0.5).start()
    service.create()
    client, answers = Client(service), []
    for row in table[:6]:
        answers.append(client.learn(row))
    proxy.arm(fate)
    refused = client.send(table[6])
    assert (503, "store-down", True) == (refused.status, refused.problem, "retry-after" in refused.headers)
    assert proxy.hit.is_set()
    proxy.release.set()
    assert eventually(200, service.ready) == 200
    again = client.learn(table[6])
    assert (fate == "delay") == again["duplicate"]
    answers += [again, *(client.learn(row) for row in table[7:])]
    judge(service, table)
    assert clean(table) == ([learnt(answer) for answer in answers], bare(service.state()))


def test_a_garbled_reply_harms_no_request(serve, store, proxy):
    """A reply that cannot be parsed counts as lost, also for the requests in the queue."""
    table = rows(300, 8)
    service = serve(REDIS_URL=proxy.url, segments=1).start()
    service.create()
    load = Load([service], table).start()
    for moment in (50, 150):
        load.acknowledged(moment)
        proxy.arm("garble")
        assert proxy.hit.wait(30)
    load.finish()
    settle(service, table, load)
    assert 200 == eventually(200, service.ready)


@pytest.mark.slow
def test_a_reply_lost_while_another_trims_the_log_learns_no_row_twice(serve, store, proxy):
    """A row without an id that was committed but not answered is not committed again, even if its entry is trimmed."""
    service = serve(REDIS_URL=proxy.url, STORE_TIMEOUT_S=30).start()
    other = serve(REDIS_URL=store.url, SNAPSHOTS_KEPT=1).start()
    service.create()
    client = Client(service)
    for row in rows(5, 10):
        client.learn(row)
    assert 5 == other.get("/models/m?consistency=strong")["rows"]

    anonymous, named = rows(2, 10, "x")
    proxy.arm("drop")
    load = Load([service], [named]).start()
    assert proxy.hit.wait(30)
    load.finish()

    body = {"features": anonymous.features, "label": anonymous.label}
    answer = _while_trimmed(service, other, proxy, lambda: service.request("POST", "/models/m/feedback", body))
    assert 7 == service.get("/models/m?consistency=strong")["rows"]
    assert answer.status in {200, 503}
    assert 1 < service.metric("loads"), "the log was not trimmed"

    late = rows(1, 11, "late")[0]
    answer = _while_trimmed(service, other, proxy, lambda: client.send(late))
    assert (200, 8) == (answer.status, answer.json["rows"])
    assert 8 == service.get("/models/m?consistency=strong")["rows"]
    assert service.state() == other.state()


def _while_trimmed(service, other, proxy, send):
    """Lose the reply to a request; before the service can ask again, the other one trims the log."""
    with ThreadPoolExecutor(1) as pool:
        proxy.arm("drop")
        waiting = pool.submit(send)
        proxy.open.set()
        assert proxy.hit.wait(30)
        proxy.open.clear()
        assert other.get("/models/m?consistency=strong")["rows"]
        assert 201 == other.request("POST", "/models/m/snapshots").status
        proxy.open.set()
        return waiting.result(60)
