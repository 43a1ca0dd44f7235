"""The streams of drift events and their consumer groups, against real servers."""

import asyncio
import json

import pytest

from core.drift.outbox import Drift, Joined
from service.errors import StoreFull
from service.store import deliveries
from service.store.catalog import Catalog
from service.store.deliveries import Deliveries
from service.store.drift import BEFORE_FIRST, NOTHING, Batch, DriftStreams
from service.store.events import START, Later, Reached, StreamPosition, event
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_GONE, DRIFT_MARKS, ModelKeys
from tests.service.store_fixtures import INCARNATION


def alarm(version, index=0, joined=0):
    """An event with so many later alarms."""
    later = tuple(Joined("class_mean", None, version + row, ()) for row in range(joined))
    time_ms = 1_700_000_000_000 + version
    tests = ("error_rate", None, (), 0.1, 0.3, 0.1, 9, 9, "report")
    return Drift(version, index, version, time_ms, *tests, False, joined, later)


def batch(*places, after=NOTHING, name="m", incarnation=INCARNATION):
    return Batch(name, incarnation, after, tuple(event(name, incarnation, alarm(*place)) for place in places))


@pytest.fixture
def streams(connection):
    """Streams that keep many events, on the test's one connection."""
    return DriftStreams(connection, connection, model_max=100, service_max=100, wait_s=0.01)


async def both(streams, sent):
    """A batch into both streams, as a publisher sends it."""
    return await streams.to_model(sent), await streams.to_service(sent)


async def places(streams, name="m"):
    """What the model's stream holds, and what the service's holds of it."""
    own = await streams.of_model(name, INCARNATION, BEFORE_FIRST, 1000)
    everything = await streams.of_service(START, 1000)
    return [known.position for known in own], [known.id for known in everything if known.model == name]


async def test_every_event_is_added_once_however_many_replicas_send_it(streams, model):
    """Repeats, overlaps and late ones add nothing; order is kept; who was first is told."""
    assert ((2, 0, 0), ((2, 0, 0), 2)) == await both(streams, batch((1, 0), (2, 0)))
    assert ((2, 0, 0), ((2, 0, 0), 0)) == await both(streams, batch((1, 0), (2, 0)))
    assert ((2, 1, 0), ((2, 1, 0), 1)) == await both(streams, batch((2, 0), (2, 1), after=Reached(1, 0, 0)))
    assert ((2, 1, 0), ((2, 1, 0), 0)) == await both(streams, batch((1, 0)))
    assert ((10, 0, 0), ((10, 0, 0), 2)) == await both(streams, batch((9, 3), (10, 0), after=Reached(2, 1, 0)))
    own, everything = await places(streams)
    assert [(1, 0), (2, 0), (2, 1), (9, 3), (10, 0)] == own
    assert [f"{INCARNATION}-{place}" for place in own] == everything


async def test_a_stream_that_has_lost_events_is_sent_them_first(streams, connection, model):
    """Where it lacks what the sender believes to be there it takes nothing, and says how far it is."""
    await both(streams, batch((1, 0), (2, 0), (3, 0)))
    await connection.ask(("DEL", model.keys.drift), ("DEL", DRIFT, DRIFT_MARKS))
    assert (NOTHING, (NOTHING, 0)) == await both(streams, batch((4, 0), after=Reached(3, 0, 0)))
    assert ((4, 0, 0), ((4, 0, 0), 4)) == await both(streams, batch((1, 0), (2, 0), (3, 0), (4, 0)))


async def later(streams):
    """What has joined each event, as each of the streams has it."""
    own = await streams.of_model("m", INCARNATION, BEFORE_FIRST, 1000)
    everything = await streams.of_service(START, 1000)
    return await streams.later_of_model("m", INCARNATION, own), await streams.later_of_service(everything)


async def test_later_alarms_join_their_event_once_and_in_order(streams, model):
    """More replace fewer, never the other way round, whoever sends them; the event itself is not added again."""
    assert ((1, 0, 1), ((1, 0, 1), 1)) == await both(streams, batch((1, 0, 1)))
    assert ((1, 0, 3), ((1, 0, 3), 0)) == await both(streams, batch((1, 0, 3), after=Reached(1, 0, 1)))
    assert ((1, 0, 3), ((1, 0, 3), 0)) == await both(streams, batch((1, 0, 2)))
    of_model, of_service = await later(streams)
    assert of_model == of_service
    assert [(3, 3)] == [(kept.joined, len(json.loads(kept.alarms))) for kept in of_model]
    assert ((2, 0, 0), ((2, 0, 0), 1)) == await both(streams, batch((1, 0, 4), (2, 0), after=Reached(1, 0, 3)))
    assert ([4, 0], [4, 0]) == tuple([kept.joined for kept in side] for side in await later(streams))
    assert [(1, 0), (2, 0)] == (await places(streams))[0]


async def test_an_event_that_leaves_a_stream_takes_its_later_alarms_with_it(connection, model):
    """Of those that are gone nothing is kept, and what joins them late is counted and dropped."""
    streams = DriftStreams(connection, connection, model_max=2, service_max=2, wait_s=0.01)
    await both(streams, batch(*((version, 0, 2) for version in range(1, 6))))
    await Catalog(connection).create("n", "i2", b"{}")
    await both(streams, batch((1, 0, 1), (2, 0, 1), name="n", incarnation="i2"))
    for key, left in ((model.keys.alarms, [b"4-0", b"5-0"]), (DRIFT_ALARMS, None)):
        (fields,) = await connection.ask(("HKEYS", key))
        assert 2 == len(fields)
        assert left is None or left == sorted(fields)
    assert ((5, 0, 3), ((5, 0, 3), 0)) == await both(streams, batch((5, 0, 3), after=Reached(5, 0, 2)))
    assert [1, 1] == [kept.joined for kept in (await later(streams))[1]]
    assert [2, 3] == [kept.joined for kept in (await later(streams))[0]]


async def test_what_older_code_stored_is_read_and_gone_on_with(streams, connection, model):
    """Events and marks without later alarms: they have none, and get those that come."""
    await both(streams, batch((1, 0)))
    await connection.ask(("HDEL", DRIFT_MARKS, ModelKeys("m", INCARNATION).member() + " joined"))
    assert ([Later()], [Later()]) == await later(streams)
    assert ((1, 0, 1), ((1, 0, 1), 0)) == await both(streams, batch((1, 0, 1)))
    assert ((2, 0, 1), ((2, 0, 1), 1)) == await both(streams, batch((1, 0, 2), (2, 0, 1), after=Reached(1, 0, 1)))
    assert [0, 1] == [kept.joined for kept in (await later(streams))[1]]


async def test_events_of_a_model_that_is_gone_are_refused(streams, connection, model):
    """Another incarnation's, and what comes late from a publisher that does not know yet; its mark is swept later."""
    await both(streams, batch((1, 0)))
    assert (None, (None, 0)) != await both(streams, batch((2, 0), incarnation="other"))
    await Catalog(connection).delete("m")
    assert (None, (None, 0)) == await both(streams, batch((1, 0), (2, 0)))
    assert [] == (await places(streams))[0]
    assert [f"{INCARNATION}-1-0"] == [i for i in (await places(streams))[1] if i.startswith(INCARNATION)]
    await connection.ask(("ZADD", DRIFT_GONE, 1, ModelKeys("m", INCARNATION).member()))
    await Catalog(connection).create("x", "i2", b"{}")
    await Catalog(connection).delete("x")
    marks = (await connection.ask(("HKEYS", DRIFT_MARKS)))[0]
    assert [b"m other", b"m other joined"] == sorted(marks)


async def test_a_model_with_events_is_deleted_whole_in_a_full_store(streams, connection, model):
    """To delete models is what makes room: the list of models and the marks follow, without any."""
    await both(streams, batch((1, 0)))
    await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    catalog = Catalog(connection)
    assert await catalog.delete("m")
    assert 0 == await catalog.count()
    assert [[b"gone"]] == await connection.ask(("HMGET", DRIFT_MARKS, model.keys.member()))


async def test_both_streams_are_capped_and_numbered_without_holes(connection, model):
    """The newest are kept; positions count on by one."""
    streams = DriftStreams(connection, connection, model_max=3, service_max=5, wait_s=0.01)
    for version in range(1, 9):
        await both(streams, batch((version, 0)))
    assert [(6, 0), (7, 0), (8, 0)] == (await places(streams))[0]
    kept = await streams.of_service(START, 1000)
    assert [4, 5, 6, 7, 8] == [known.position.number for known in kept]
    assert kept[-1].position == await streams.newest()
    assert kept[1:3] == await streams.of_service(kept[0].position, 10, kept[2].position)
    assert kept[3] == await streams.last(lambda known: known.id == kept[3].id)
    assert None is await streams.last(lambda known: known.id == f"{INCARNATION}-1-0")
    assert kept[2] == await streams.last(lambda _: True, str(kept[2].position))


async def test_news_waits_for_an_event(streams, model):
    """Nothing comes where there is nothing, and what comes is what is new."""
    assert START == await streams.newest()
    assert [] == await streams.news(START, 10)
    await both(streams, batch((1, 0), (2, 0)))
    found = await streams.news(START, 1)
    assert [f"{INCARNATION}-1-0"] == [known.id for known in found]
    assert 1 == len(await streams.news(found[0].position, 10))


async def test_a_store_without_memory_refuses_events_whole(streams, connection, model):
    """StoreFull, nothing half done, and everything once there is room again."""
    sent = batch(*((version, 0) for version in range(1, 50)))
    await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    for send in (streams.to_model, streams.to_service):
        with pytest.raises(StoreFull):
            await send(sent)
    await connection.ask(("CONFIG", "SET", "maxmemory", "0"))
    assert ([], []) == await places(streams)
    assert ((49, 0, 0), ((49, 0, 0), 49)) == await both(streams, sent)


async def test_positions_grow_where_the_clock_goes_back(streams, connection, model):
    """A server that took over with a slower clock goes on behind what it has."""
    future = StreamPosition(2**42, 7)
    await connection.ask(("XADD", DRIFT, str(future), "m", "x", "i", "x", "t", 1, "e", "{}"))
    await both(streams, batch((1, 0)))
    assert StreamPosition(2**42, 8) == await streams.newest()


# ------------------------------------------------------------------------------------------------ consumer groups


@pytest.fixture
def group(connection):
    """Makes consumers of one group."""
    return lambda consumer: Deliveries(connection, "g", consumer)


async def test_each_event_goes_to_one_consumer(streams, group, model):
    """From the moment the group exists; settled ones do not come again."""
    await both(streams, batch((1, 0)))
    first, second = group("one"), group("two")
    assert ((), 0) == ((await first.claim(1)).events, (await second.claim(1)).missed)
    await both(streams, batch((2, 0), (3, 0)))
    taken = [(await consumer.claim(1)).events[0] for consumer in (first, second)]
    assert [f"{INCARNATION}-2-0", f"{INCARNATION}-3-0"] == [known.id for known in taken]
    assert (True, False) == (await first.acknowledge(taken[0]), await first.acknowledge(taken[0]))
    assert () == (await first.claim(5)).events


async def test_what_a_dead_consumer_owed_is_claimed(streams, group, model, monkeypatch):
    """After a silence; one that says it is still at it keeps it, and one that has lost it is told so."""
    dead, heir = group("dead"), group("heir")
    await dead.claim(1)
    await both(streams, batch((1, 0)))
    (known,) = (await dead.claim(1)).events
    assert () == (await heir.claim(5)).events
    assert await dead.touch(known)
    monkeypatch.setattr(deliveries, "IDLE_MS", 1)
    await asyncio.sleep(0.01)
    assert (known,) == (await heir.claim(5)).events
    assert (False, True) == (await dead.touch(known), await heir.touch(known))
    assert await heir.acknowledge(known)


async def test_what_left_the_stream_is_counted_as_missed(connection, group, model, monkeypatch):
    """Whether it was owed by a dead consumer, or nobody had got to it."""
    streams = DriftStreams(connection, connection, model_max=9, service_max=2, wait_s=0.01)
    dead, heir = group("dead"), group("heir")
    await dead.claim(1)
    await both(streams, batch((1, 0)))
    await dead.claim(1)
    await both(streams, batch(*((version, 0) for version in range(2, 7))))
    monkeypatch.setattr(deliveries, "IDLE_MS", 1)
    await asyncio.sleep(0.01)
    taken = await heir.claim(5)
    assert [f"{INCARNATION}-5-0", f"{INCARNATION}-6-0"] == [known.id for known in taken.events]
    again = await heir.claim(5)
    assert 4 == taken.missed + again.missed  # 1, which was owed, and 2 to 4, which nobody got to


async def test_consumers_that_owe_nothing_are_forgotten(connection, streams, group, model, monkeypatch):
    """A process that restarts often leaves no trail of names."""
    monkeypatch.setattr(deliveries, "FORGOTTEN_MS", 1)
    await group("first").claim(1)
    await both(streams, batch((1, 0)))
    (known,) = (await group("first").claim(1)).events
    await group("first").acknowledge(known)
    await asyncio.sleep(0.01)
    await both(streams, batch((2, 0)))
    await group("second").claim(1)
    (consumers,) = await connection.ask(("XINFO", "CONSUMERS", DRIFT, "g"))
    assert [b"second"] == [consumer[1] for consumer in consumers]
