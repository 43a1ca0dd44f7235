"""One event per detection, whatever dies: a real drift, real processes, a separate store."""

import contextlib
import threading

import pytest

from core.drift.outbox import NO_ALARM
from core.model import save
from service.store.keys import DRIFT
from tests.faults.drifts import Stream, calm, events, learn, moved, table
from tests.faults.processes import BROKEN, eventually


def _alarms(service, name="m"):
    """Ids of the alarms in the state itself: the events that the log requires."""
    model, stamp = save.from_bytes(service.state(name))
    return [f"{stamp['incarnation']}-{drift.version}-{drift.index}" for drift in model.outbox.after(NO_ALARM)]


def _joined(service, name="m"):
    """The number of later alarms of each event, from the state."""
    model, _ = save.from_bytes(service.state(name))
    return [drift.joined for drift in model.outbox.after(NO_ALARM)]


def _ids(found):
    return [event["id"] for event in found]


def _everything(store):
    """Ids of the events in the store's stream, without the entries of later alarms."""
    with store.client() as client:
        return [fields[b"i"].decode() for _, fields in client.xrange(DRIFT) if not fields[b"k"]]


@pytest.mark.slow_but("appended")
@pytest.mark.parametrize("point", ["appended", "applied", "alarmed", "published"])
def test_a_crash_loses_no_event_and_repeats_none(serve, store, point):
    """The service dies between two steps of an alarm, from entry to stream: after a restart it is published once.

    No request asks for the model: the index knows the models that the dead service appended to.
    """
    service = serve(REDIS_URL=store.url).start()
    calm(service)
    service.restart(FAILPOINT=f"{point}:1")
    with contextlib.suppress(*BROKEN):  # it may die before it answers
        learn(service, moved(), key="moved")
    assert -9 == service.died()
    service.start()
    assert 1 <= eventually(True, lambda: len(events(service)) > 0)
    assert _alarms(service) == eventually(_alarms(service), lambda: _ids(events(service)))
    told = eventually(_joined(service), lambda: [event["alarm_count"] for event in events(service)])
    assert _joined(service) == told
    assert sum(told) > 0
    learn(service, moved(), key="moved")
    learn(service, table(50, 3.0, 2))
    assert 201 == service.request("POST", "/models/m/snapshots").status
    service.restart()
    expected = _alarms(service)
    assert expected == _ids(service.get("/models/m/drift")["events"])
    assert expected == _everything(store)


def test_two_services_publish_each_event_once(pair, store):
    """Both hold the model and find the alarms, in turn and after a kill; their streams agree."""
    names = ["m", "n"]
    for name in names:
        calm(pair[0], name)
    with Stream(pair[0]) as first, Stream(pair[1]) as second:
        for at, name in enumerate(names):
            learn(pair[at], moved(), name)
            for service in pair:
                service.get(f"/models/{name}?consistency=strong")
        expected = [identity for name in names for identity in _alarms(pair[0], name)]
        assert sorted(expected) == sorted(
            eventually(len(expected), lambda: len(_everything(store))) and _everything(store)
        )
        streams = [stream.drifts(len(expected)) for stream in (first, second)]
    assert streams[0] == streams[1]
    assert sorted(expected) == sorted(frame["data"]["id"] for frame in streams[0])
    pair[0].kill()
    with Stream(pair[1], last=streams[0][0]["id"]) as resumed:
        assert streams[0][1:] == resumed.drifts(len(expected) - 1)
        learn(pair[1], table(800, -3.0, 3))
        new = _alarms(pair[1])[len(_alarms(pair[1])) - 1]
        while (frame := resumed.next())["data"]["id"] != new:
            assert "drift" == frame["event"]
    pair[0].start()
    assert len(set(_everything(store))) == len(_everything(store))


@pytest.mark.slow
def test_a_store_that_is_away_delays_events_and_loses_none(serve, store):
    """Alarms wait in the outbox while the streams cannot be written; afterwards none is published twice."""
    service = serve(REDIS_URL=store.url, STORE_TIMEOUT_S=1).start()
    calm(service)
    with Stream(service) as stream:
        store.freeze()
        sent = threading.Thread(target=lambda: service.request("POST", *_batch(), idempotency_key="moved"))
        sent.start()
        assert eventually(True, lambda: service.metric("store_up") == 0.0)
        store.thaw()
        sent.join()
        assert 200 == eventually(200, lambda: service.request("POST", *_batch(), idempotency_key="moved").status)
        expected = _alarms(service)
        assert expected == [frame["data"]["id"] for frame in stream.drifts(len(expected))]
    assert expected == _everything(store)


def _batch():
    return "/models/m/feedback/batch", moved()
