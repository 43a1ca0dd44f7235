"""The stream of drift events and the turns of webhooks, against real servers."""

import asyncio
import json

import pytest
from redis.asyncio import Redis

from core.drift.outbox import NO_ALARM, Drift, Joined
from service.errors import StoreFull
from service.store.catalog import Catalog
from service.store.drift import deliveries, drift
from service.store.drift.deliveries import Deliveries
from service.store.drift.drift import DriftStream
from service.store.drift.events import NONE_LATER, START, StreamPosition, items
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_PUBLISHED, DRIFT_WEBHOOKS, TOMBSTONES
from tests.service.store_fixtures import INCARNATION


def alarm(version, index=0, joined=0, listed=20):
    """An event with so many later alarms in the same entry, of which some are listed."""
    positions = [(version, index + count) for count in range(joined + 1)]
    later = tuple(
        Joined("class_mean", None, version + count, (), place) for count, place in enumerate(positions[1 : listed + 1])
    )
    time_ms = 1_700_000_000_000 + version
    tests = ("error_rate", None, (), 0.1, 0.3, 0.1, 9, 9, "report", positions[-1])
    return Drift(version, index, version, time_ms, *tests, False, joined, later)


async def publish(stream, *drifts, after=NO_ALARM, name="m", incarnation=INCARNATION):
    """Send some events as a publisher does that knows the alarms up to ``after`` to be published."""
    sent = [each for each in items(name, incarnation, drifts) if each.alarm > after]
    return await stream.publish(name, incarnation, after, sent)


@pytest.fixture
def stream(connection):
    """A stream that keeps many events, on the test's one connection."""
    return DriftStream(connection, connection, kept=100, wait_s=0.01)


async def entries(stream, name="m"):
    """What the stream holds of a model: ids of events; and those that later alarms have joined."""
    found = [known for known in await stream.after(START, 1000) if known.model == name]
    return [known.id for known in found if not known.joined], [known.id for known in found if known.joined]


def ids(*places, incarnation=INCARNATION):
    return [f"{incarnation}-{version}-{index}" for version, index in places]


async def test_every_event_is_added_once_however_many_replicas_send_it(stream, model):
    """Repeats, overlaps and late ones add nothing; order is kept; who was first is told."""
    assert (NO_ALARM, 0) == await stream.publish("m", INCARNATION, NO_ALARM, [])
    assert ((2, 0), 2) == await publish(stream, alarm(1), alarm(2))
    assert ((2, 0), 0) == await publish(stream, alarm(1), alarm(2))
    assert ((2, 1), 1) == await publish(stream, alarm(2), alarm(2, 1), after=(1, 0))
    assert ((2, 1), 0) == await publish(stream, alarm(1))
    assert ((10, 0), 2) == await publish(stream, alarm(9, 3), alarm(10), after=(2, 1))
    assert ((10, 0), 0) == await stream.publish("m", INCARNATION, NO_ALARM, [])
    assert (ids((1, 0), (2, 0), (2, 1), (9, 3), (10, 0)), []) == await entries(stream)


async def test_a_stream_that_has_lost_events_is_sent_them_first(stream, connection, model):
    """Where it lacks what the sender believes to be there it takes nothing, and says how far it is."""
    await publish(stream, alarm(1), alarm(2), alarm(3))
    await connection.ask(("DEL", DRIFT, DRIFT_PUBLISHED))
    assert (NO_ALARM, 0) == await publish(stream, alarm(4), after=(3, 0))
    assert ((4, 0), 4) == await publish(stream, alarm(1), alarm(2), alarm(3), alarm(4))


async def test_no_key_vanishes_while_a_script_runs(connection, model, server):
    """A node of a cluster that is handing over a slot refuses to create a key again: half the script would be done."""
    turns = Deliveries(connection, "hook", "us")
    await turns.next()
    await connection.ask(("ZADD", TOMBSTONES, 0, "old inc"), ("CONFIG", "SET", "notify-keyspace-events", "Eg"))
    try:
        async with Redis(unix_socket_path=str(server.socket)) as other, other.pubsub() as heard:
            await heard.subscribe("__keyevent@0__:del")
            await heard.get_message(timeout=5)
            await turns.next()
            await Catalog(connection).delete("m")
            await connection.ask(("SET", "last", 1), ("DEL", "last"))
            gone = []
            while b"last" not in gone:
                gone.append((await heard.get_message(timeout=5))["data"])
    finally:
        await connection.ask(("CONFIG", "SET", "notify-keyspace-events", ""))
    assert set() == {DRIFT_WEBHOOKS.encode(), TOMBSTONES.encode()} & {*gone}
    assert [model.keys.member().encode()] == (await connection.ask(("ZRANGE", TOMBSTONES, 0, -1)))[0]


async def later(stream):
    """What has joined each event."""
    found = [known for known in await stream.after(START, 1000) if not known.joined]
    return await stream.later_alarms(found)


async def test_later_alarms_join_their_event_once_and_in_order(stream, model):
    """Each is an entry of its own and one of its event's list, whoever sends how many of them."""
    assert ((1, 1), 2) == await publish(stream, alarm(1, joined=1))
    assert ((1, 3), 2) == await publish(stream, alarm(1, joined=3), after=(1, 1))
    assert ((1, 3), 0) == await publish(stream, alarm(1, joined=2))
    assert ((2, 0), 2) == await publish(stream, alarm(1, joined=4), alarm(2), after=(1, 3))
    assert (ids((1, 0), (2, 0)), 4 * ids((1, 0))) == await entries(stream)
    first, second = await later(stream)
    number, _, listed = first.partition(b" ")
    listed = json.loads(b"[%b]" % listed)
    assert (b"4", [1, 2, 3, 4], NONE_LATER) == (number, [one["row"] for one in listed], second)
    shown = [json.loads(known.shown()) for known in await stream.after(START, 1000) if known.joined]
    assert [{"id": f"{INCARNATION}-1-0", "model": "m", "kind": "joined", "alarms": [one]} for one in listed] == shown


async def test_alarms_that_the_outbox_does_not_list_are_counted(stream, connection, model):
    """They are no entries of the stream; where the list of their event is gone nothing is kept of them."""
    await publish(stream, alarm(1, joined=3, listed=2))
    assert ((1, 9), 1) == await publish(stream, alarm(1, joined=9, listed=2), after=(1, 3))
    assert (ids((1, 0)), 2 * ids((1, 0))) == await entries(stream)
    assert [b"9"] == [one.partition(b" ")[0] for one in await later(stream)]
    await publish(stream, alarm(2))
    assert ((2, 5), 1) == await publish(stream, alarm(2, joined=5, listed=0), after=(2, 0))
    assert [f"{INCARNATION}-1-0".encode()] == (await connection.ask(("HKEYS", DRIFT_ALARMS)))[0]


async def test_an_event_that_leaves_the_stream_takes_its_later_alarms_with_it(connection, model):
    """Those of events that are gone leave as well, with their own entries."""
    stream = DriftStream(connection, connection, kept=4, wait_s=0.01)
    await publish(stream, *(alarm(version, joined=1) for version in range(1, 4)))
    assert (ids((2, 0), (3, 0)), ids((2, 0), (3, 0))) == await entries(stream)
    await Catalog(connection).create("n", "i2", b"{}")
    await publish(stream, alarm(1), alarm(2), name="n", incarnation="i2")
    await publish(stream, alarm(3, joined=3), after=(3, 1))
    assert ([], 2 * ids((3, 0))) == await entries(stream)
    await publish(stream, alarm(3), alarm(4), alarm(5), alarm(6), name="n", incarnation="i2")
    assert [[]] == await connection.ask(("HGETALL", DRIFT_ALARMS))


async def test_events_of_a_model_that_is_gone_are_refused(stream, connection, model):
    """What comes late from a publisher that does not know yet; those that are there stay."""
    await publish(stream, alarm(1))
    await stream.add_unlabelled("m", INCARNATION, 1, 5, b'{"kind":"unlabelled"}')
    await Catalog(connection).delete("m")
    assert (None, 0) == await publish(stream, alarm(1), alarm(2))
    assert not await stream.add_unlabelled("m", INCARNATION, 1, 5, b'{"kind":"unlabelled"}')
    assert 2 == len((await entries(stream))[0])
    assert {DRIFT.encode(), TOMBSTONES.encode(), model.keys.deleted.encode()} == {*await model.contents()}
    await Catalog(connection).create("m", "i2", b"{}")
    assert ((1, 0), 1) == await publish(stream, alarm(1), incarnation="i2")


async def test_a_model_with_events_is_deleted_whole_in_a_full_store(stream, connection, model):
    """To delete models is what makes room: what is kept beside the stream goes, and the tombstone is set."""
    await publish(stream, alarm(1))
    await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    catalog = Catalog(connection)
    assert await catalog.delete("m")
    assert 0 == await catalog.count()
    assert [[None]] == await connection.ask(("HMGET", DRIFT_PUBLISHED, model.keys.member()))
    assert float((await connection.ask(("ZSCORE", TOMBSTONES, model.keys.member())))[0]) > 0


async def test_the_stream_is_capped_and_numbered_without_holes(connection, model):
    """The newest are kept; numbers count on by one, and no two entries have the same time."""
    stream = DriftStream(connection, connection, kept=5, wait_s=0.01)
    for version in range(1, 9, 2):
        await publish(stream, alarm(version), alarm(version + 1))
    kept = await stream.after(START, 1000)
    assert [4, 5, 6, 7, 8] == [known.position.number for known in kept]
    assert 5 == len({known.position.time_ms for known in kept})
    assert kept[-1].position == await stream.newest()
    assert kept[1:3] == await stream.after(kept[0].position, 10, kept[2].position)
    assert kept[3] == await stream.last(lambda known: known.id == kept[3].id)
    assert None is await stream.last(lambda known: known.id == f"{INCARNATION}-1-0")
    assert kept[2] == await stream.last(lambda _: True, str(kept[2].position))


async def test_a_store_without_memory_refuses_events_whole(stream, connection, model):
    """StoreFull, nothing half done, and everything once there is room again."""
    sent = [alarm(version) for version in range(1, 50)]
    await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    with pytest.raises(StoreFull):
        await publish(stream, *sent)
    with pytest.raises(StoreFull):
        await stream.add_unlabelled("m", INCARNATION, 1, 5, b'{"kind":"unlabelled"}')
    await connection.ask(("CONFIG", "SET", "maxmemory", "0"))
    assert ([], []) == await entries(stream)
    assert ((49, 0), 49) == await publish(stream, *sent)


async def test_positions_grow_where_the_clock_goes_back(stream, connection, model):
    """A server that took over with a slower clock goes on behind what it has."""
    future = StreamPosition(2**42, 7)
    await connection.ask(("XADD", DRIFT, str(future), "m", "x", "i", "x", "t", 1, "k", "", "e", "{}"))
    await publish(stream, alarm(1))
    assert StreamPosition(2**42 + 1, 8) == await stream.newest()


async def test_events_of_unlabelled_rows_are_rare_and_follow_each_other(stream, connection, model, monkeypatch):
    """One in a while, from whichever replica; each has a place behind the alarms of its version and the one before."""
    assert await stream.add_unlabelled("m", INCARNATION, 4, 5, b'{"kind":"unlabelled"}')
    assert not await stream.add_unlabelled("m", INCARNATION, 9, 5, b'{"kind":"unlabelled"}')
    monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", 0)
    monkeypatch.setattr(drift, "UNLABELLED_KEPT", 2)
    for version in (3, 6):
        assert await stream.add_unlabelled("m", INCARNATION, version, 5, b'{"kind":"unlabelled"}')
    first = drift.FIRST_UNLABELLED
    assert ids((4, first), (4, first + 1), (6, first)) == (await entries(stream))[0]
    kept = await stream.unlabelled("m", INCARNATION)
    assert [(4, first + 1), (6, first)] == [known.position for known in kept]
    assert {"id": kept[0].id, "kind": "unlabelled"} == json.loads(kept[0].body)


async def test_an_event_of_unlabelled_rows_from_the_future_is_not_waited_for(stream, connection, model):
    """The store's clock was set back."""
    fields = ("n", 9 * 10**14, "m", "m", "i", "x", "t", 5, "k", "", "e", "{}")
    await connection.ask(("XADD", model.keys.unlabelled, "1-0", *fields))
    assert await stream.add_unlabelled("m", INCARNATION, 4, 5, b'{"kind":"unlabelled"}')


# ------------------------------------------------------------------------------------------------ turns of webhooks


@pytest.fixture
def hook(connection):
    """Makes consumers of one webhook."""
    return lambda consumer: Deliveries(connection, "hook", consumer)


async def test_each_event_goes_to_whose_turn_it_is(stream, hook, model):
    """From the first turn on; settled ones do not come again."""
    await publish(stream, alarm(1))
    first, second = hook("one"), hook("two")
    assert (0, None) == await first.next()
    await publish(stream, alarm(2), alarm(3))
    assert (0, None) == await second.next()
    due = await first.next()
    assert (0, ids((2, 0))) == (due.missed, [due.event.id])
    assert due == await first.next()
    following = await first.next(due.event)
    assert ids((3, 0)) == [following.event.id]
    assert (0, None) == await first.next(following.event)
    assert (0, None) == await second.next(due.event)


async def test_what_a_dead_consumer_owed_is_delivered_by_another(stream, hook, model, monkeypatch):
    """After a silence; who has lost its turn settles nothing any more."""
    dead, heir = hook("dead"), hook("heir")
    await dead.next()
    await publish(stream, alarm(1), alarm(2))
    (_, event) = await dead.next()
    assert (0, None) == await heir.next()
    monkeypatch.setattr(deliveries, "TURN_MS", 1)
    await dead.next()
    await asyncio.sleep(0.01)
    monkeypatch.undo()
    assert (0, event) == await heir.next()
    assert (0, None) == await dead.next(event)
    assert (0, event) == await heir.next()
    assert ids((2, 0)) == [(await heir.next(event)).event.id]


async def test_a_turn_that_is_given_back_is_free_at_once(stream, hook, model):
    """With what was settled in it; nobody gives back the turn of another one."""
    one, heir = hook("one"), hook("heir")
    await one.next()
    await publish(stream, alarm(1), alarm(2))
    (_, event) = await one.next()
    assert 0 == await heir.leave()
    assert (0, None) == await heir.next()
    assert 0 == await one.leave(event)
    assert ids((2, 0)) == [(await heir.next()).event.id]
    assert 0 == await one.leave(event)
    assert (0, None) == await one.next()


async def test_a_turn_that_ends_far_in_the_future_is_over(stream, hook, model, monkeypatch):
    """It was taken before the store's clock was set back, by a process that may have died since."""
    monkeypatch.setattr(deliveries, "TURN_MS", 3_600_000)
    await hook("dead").next()
    monkeypatch.undo()
    await publish(stream, alarm(1))
    assert ids((1, 0)) == [(await hook("heir").next()).event.id]


async def test_a_reply_that_got_lost_settles_nothing_else(stream, hook, model):
    """The same word again: the same event is next."""
    one = hook("one")
    await one.next()
    await publish(stream, alarm(1), alarm(2))
    event = (await one.next()).event
    following = (await one.next(event)).event
    assert (0, following) == await one.next(event)


async def test_what_left_the_stream_is_counted_as_missed_once(connection, hook, model):
    """Whether it was owed, or nobody had got to it."""
    stream = DriftStream(connection, connection, kept=2, wait_s=0.01)
    one = hook("one")
    await one.next()
    await publish(stream, alarm(1))
    assert ids((1, 0)) == [(await one.next()).event.id]
    await publish(stream, *(alarm(version) for version in range(2, 7)))
    missed, event = await one.next()
    assert (4, ids((5, 0))) == (missed, [event.id])
    assert (0, event) == await one.next()
    missed, event = await one.next(event)
    assert (0, ids((6, 0))) == (missed, [event.id])


async def test_a_stream_that_has_begun_anew_is_gone_on_with(stream, connection, hook, model):
    """Where the store has lost its events the next one is delivered, and none is missed that nobody knows of."""
    one = hook("one")
    await one.next()
    await publish(stream, *(alarm(version) for version in range(1, 4)))
    due = await one.next()
    while due.event is not None:
        due = await one.next(due.event)
    await connection.ask(("DEL", DRIFT))
    await asyncio.sleep(0.005)
    await publish(stream, alarm(4), after=(3, 0))
    missed, event = await one.next()
    assert (0, ids((4, 0))) == (missed, [event.id])


async def test_a_full_store_lets_webhooks_go_on(stream, connection, hook, model):
    """What the stream has is delivered, though nothing new is taken."""
    one = hook("one")
    await one.next()
    await publish(stream, alarm(1), alarm(2))
    await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    event = (await one.next()).event
    assert ids((2, 0)) == [(await one.next(event)).event.id]
    assert [[b"hook"]] == await connection.ask(("HKEYS", DRIFT_WEBHOOKS))
