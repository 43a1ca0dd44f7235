"""Streams of rows, and what happens to the service and its store in the middle of them."""

import pytest

from tests.faults.load import rows
from tests.faults.processes import eventually
from tests.faults.rebuild import learnt
from tests.faults.streams import Stream

pytestmark = pytest.mark.faults


def settled(answers):
    """What a row was answered, but for the version: that is one for all rows that were committed together."""
    return [{name: value for name, value in learnt(answer).items() if name != "version"} for answer in answers]


def twin(clean, service, table):
    """The answers and the state of a service that nothing happens to."""
    answers, _ = clean(table)
    return settled(answers), service.get("/models/m")["rows"]


@pytest.mark.parametrize("point", ["appended", "applied", None])
def test_a_kill_in_mid_stream_loses_nothing(serve, clean, point):
    """Sent again behind the last answer, with their ids, all rows are learned once and answered as the first time."""
    table = rows(1500, 50)
    service = serve().start(**({} if point is None else {"FAILPOINT": f"{point}:4"}))
    service.create()
    stream = Stream(service, table).start()
    for _ in range(1 if point else 3):
        if point is None:
            stream.answered(len(stream.answers) + 200)
            service.kill()
        else:
            service.died()
        service.start()
    stream.finish()
    assert (settled(stream.answers), len(table)) == twin(clean, service, table)
    assert 1 <= stream.broken
    again = Stream(service, table).start().finish()
    assert {True} == {answer["duplicate"] for answer in again.answers}
    assert [learnt(answer) for answer in stream.answers] == [learnt(answer) for answer in again.answers]
    assert len(table) == service.get("/models/m")["rows"]


def test_a_stop_in_mid_stream_says_how_far_it_came(serve, clean):
    """Promptly, with status 0: everything that was committed is answered before the last line."""
    table, service = rows(20_000, 51), serve().start()
    service.create()
    stream = Stream(service, table).start()
    stream.answered(500)
    assert 0 == service.stop()
    assert ["stop"] == [end["reason"] for end in stream.ends]
    assert [stream.ends[0]["answered"]] == [len(stream.answers)]
    service.start()
    assert len(stream.answers) <= service.get("/models/m")["rows"]
    stream.finish()
    assert len(table) == service.get("/models/m")["rows"]
    assert False is any(answer["duplicate"] for answer in stream.answers)
    assert "ERROR" not in service.log


def test_a_store_that_is_down_ends_streams_until_it_is_back(serve, store):
    """Rows that could not be committed are refused with 503; sent again, each is learned once."""
    table = rows(30_000, 52)
    service = serve(REDIS_URL=store.url, STORE_TIMEOUT_S=0.5).start()
    service.create()
    stream = Stream(service, table).start()
    stream.answered(300)
    store.freeze()
    assert eventually(True, lambda: len(stream.ends) > 0)
    store.thaw()
    stream.finish()
    assert len(table) == service.get("/models/m")["rows"]
    assert {"store-down"} == {end["reason"] for end in stream.ends}
