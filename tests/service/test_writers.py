"""The writers a model remembers: by age, so that a retry is recognised however many others have appended meanwhile."""

import time

from service.errors import WritersFull
from service.store.log.scripts import WRITER_LIFE_MS, WRITERS_MAX
from tests.service.store_fixtures import Model, by_name, one


async def _others(model: Model, count: int) -> None:
    """As many other writers append once each."""
    version, uid = 1, "w1-1"
    for k in range(count):
        answer = await Model(model.connection, f"v{k}").append(version=version, uid=uid)
        version, uid = answer.head, answer.head_uid


async def _writers(model: Model) -> dict[str, list[int]]:
    (flat,) = await model.connection.ask(("HGETALL", model.keys.meta))
    found = by_name(flat).items()
    return {key.decode()[2:]: [*map(int, value.split(b":"))] for key, value in found if key.startswith(b"w:")}


async def _set(model: Model, **writers: str) -> None:
    await model.connection.ask(*[("HSET", model.keys.meta, f"w:{name}", value) for name, value in writers.items()])


async def test_a_retry_after_a_hundred_other_writers_is_still_one(model):
    """Its reply was lost, many others have appended: without an id, only the sequence number can tell."""
    first = await model.append()
    await _others(model, 100)
    again = await model.again()
    assert (1, 101) == (first.made, again.head)
    assert 1 == again.made


async def test_a_writer_is_remembered_with_its_last_append_and_the_time_of_it(model):
    """By the server's clock."""
    await model.append()
    answer = await model.append()
    assert {"w1": [2, 2, answer.time_ms]} == await _writers(model)


async def test_writers_that_have_been_silent_for_long_are_forgotten(model):
    """When a new one comes; the young ones stay, whatever their number."""
    await model.append()
    now = int(1000 * time.time())
    await _set(model, old=f"7:1:{now - WRITER_LIFE_MS - 60_000}", young=f"7:1:{now - WRITER_LIFE_MS + 60_000}")
    await model.append()
    assert {"w1", "old", "young"} == (await _writers(model)).keys()
    await Model(model.connection, "w2").append(version=2, uid="w1-2")
    assert {"w1", "young", "w2"} == (await _writers(model)).keys()


async def test_a_writer_with_a_time_ahead_is_given_the_present_one(model):
    """A server whose clock was ahead has left it: still a retry's, and forgotten in the end."""
    await model.log.append([model.asks()])
    await _set(model, w1="1:1:9999999999999")
    assert 1 == (await model.again()).made
    answer = await Model(model.connection, "w2").append(version=1, uid="w1-1")
    assert {"w1": [1, 1, answer.time_ms], "w2": [1, 2, answer.time_ms]} == await _writers(model)
    assert 1 == (await model.again()).made
    assert "fenced" == (await model.log.append([model.asks(sequence=0)]))[0].code


async def test_too_many_young_writers_refuse_a_new_one_and_forget_nobody(model):
    """Loudly, with nothing written; those that are remembered go on, and so does the new one when others are old."""
    await model.append()
    now = int(1000 * time.time())
    await _set(model, **{f"v{k}": f"1:1:{now}" for k in range(WRITERS_MAX - 1)})
    before = await model.contents()
    new = Model(model.connection, "w2")
    refused = await new.append(one("a"), version=1, uid="w1-1")
    assert (WritersFull, True) == (type(refused), str(WRITERS_MAX) in refused.detail)
    assert before == await model.contents()
    assert 2 == (await model.append()).made
    await _set(model, v0=f"1:1:{now - WRITER_LIFE_MS - 60_000}")
    assert 3 == (await new.append(one("a"), version=2, uid="w1-2")).made
