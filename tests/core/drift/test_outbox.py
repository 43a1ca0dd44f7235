"""The outbox keeps the last events in order; episodes group alarms into drifts and decide which trigger the action."""

import pytest

from core.drift.outbox import KEPT, LISTED_KEPT, LISTED_MAX, NO_ALARM, Change, Drift, Episodes, Joined, Outbox


def drift(version, index=0, challenger=None):
    """An alarm at a position of the log."""
    changes, place = (Change("load", 0.25, 0.75),), (version, index)
    means = ("class_mean", "UP", changes, None, None, 0.1, 400, 200)
    return Drift(*place, 10 * version, 1000, *means, "report", place, challenger=challenger)


def later(version, index):
    return Joined("class_mean", "DOWN", 10 * version + index, (Change("load", 0.5, 1.5),), (version, index))


def filled(count, joined=0):
    """An outbox with events at versions 1 to count, each with ``joined`` later alarms."""
    box = Outbox()
    for version in range(1, count + 1):
        box.put(drift(version))
        for index in range(1, joined + 1):
            box.join(later(version, index), None)
    return box


def test_a_reader_gets_the_alarms_after_its_position():
    """Positions order the alarms, also within one entry."""
    box = Outbox()
    for place in ((1, 0), (3, 0), (3, 1), (7, 0)):
        assert place == box.next_position(place[0])
        box.put(drift(*place))
    assert [(3, 1), (7, 0)] == [alarm.place for alarm in box.after((3, 0))]
    assert [] == box.after((7, 0))
    assert (7, 0) == box.last


def test_old_alarms_fall_out_and_are_counted():
    """The outbox is bounded, but it still counts all alarms; none comes twice or late."""
    box = filled(KEPT + 5)
    with pytest.raises(ValueError, match="order"):
        box.put(drift(KEPT + 5))
    assert KEPT == len(box.after(NO_ALARM))
    assert KEPT + 5 == box.total
    assert (6, 0) == box.after(NO_ALARM)[0].place


@pytest.mark.parametrize(("first", "then"), [(None, "other"), ("other", None)])
def test_neither_the_model_nor_its_challengers_push_out_half_of_the_others_events(first, then):
    """A flood of one side's events leaves the newest of the other; without others a side has all the room."""
    box, half = Outbox(), KEPT // 2
    for version in range(1, KEPT + 1):
        box.put(drift(version, challenger=first))
    assert KEPT == len(box.after(NO_ALARM))
    for version in range(KEPT + 1, 3 * KEPT + 1):
        box.put(drift(version, challenger=then))
    kept = [event.version for event in box.after(NO_ALARM)]
    assert [*range(half + 1, KEPT + 1), *range(3 * KEPT - half + 1, 3 * KEPT + 1)] == kept
    loaded = Outbox()
    loaded.load_arrays(*box.to_arrays())
    assert (box.last, box.after(NO_ALARM)) == (loaded.last, loaded.after(NO_ALARM))


def test_later_alarms_join_the_newest_event():
    """A reader gets the event again until it has seen all its alarms; earlier events are complete."""
    box = filled(2, joined=1)
    assert (2, 1) == box.last
    assert [] == box.after((2, 1))
    box.join(later(3, 0), None)
    (known,) = box.after((2, 1))
    assert ((3, 0), (later(2, 1), later(3, 0))) == (known.last_alarm, known.alarms)
    assert [(1, 1), (3, 0)] == [event.last_alarm for event in box.after((1, 0))]
    assert (2, (3, 1)) == (box.total, box.next_position(3))
    with pytest.raises(ValueError, match="order"):
        box.join(later(3, 0), None)


def test_later_alarms_join_the_newest_event_of_their_own_learner():
    """Whatever other learners have had since; where that event is no longer kept, there is nothing to join."""
    box = filled(1)
    box.put(drift(2, challenger="other"))
    box.join(later(3, 0), "other")
    box.join(later(3, 1), None)
    box.join(later(4, 0), "gone")
    assert [(later(3, 1),), (later(3, 0),)] == [event.alarms for event in box.after((2, 0))]
    assert [(1, 0)] == [event.place for event in box.after((3, 0))]
    assert (3, 1) == box.last
    loaded = Outbox()
    loaded.load_arrays(*box.to_arrays())
    assert (box.last, box.after(NO_ALARM)) == (loaded.last, loaded.after(NO_ALARM))


def test_the_lists_of_later_alarms_are_bounded():
    """Each event lists some and counts all; when the total is too large, the oldest events lose their lists first."""
    events = filled(KEPT, joined=LISTED_MAX + 5).after(NO_ALARM)
    assert {LISTED_MAX + 5} == {event.joined for event in events}
    assert LISTED_KEPT >= sum(len(event.alarms) for event in events) > LISTED_KEPT - LISTED_MAX
    assert ((), LISTED_MAX) == (events[0].alarms, len(events[-1].alarms))


def test_an_event_that_has_lost_its_list_only_counts_what_joins_it():
    """A list holds the first alarms: its length numbers the alarms of the stream."""
    box, others = filled(1, joined=5), range(2, 3 + LISTED_KEPT // LISTED_MAX)
    for version in others:
        box.put(drift(version, challenger="other"))
        for index in range(1, LISTED_MAX + 1):
            box.join(later(version, index), "other")
    box.join(later(others.stop, 0), None)
    (known,) = box.after((others.stop - 1, LISTED_MAX))
    assert (6, (), (others.stop, 0)) == (known.joined, known.alarms, known.last_alarm)


@pytest.mark.parametrize(
    "forge",
    [
        lambda header: header.update(total=1),
        lambda header: header.update(total=3.0),
        lambda header: header["kept"].reverse(),
        lambda header: header["kept"][1].update(version=1),
        lambda header: header["kept"][0].update(version=-1),
        lambda header: header["kept"][0].update(epsilon_cut=float("nan")),
        lambda header: header["kept"][0].pop("row"),
        lambda header: header["kept"][0].pop("alarms"),
        lambda header: header["kept"][0].update(joined=0),
        lambda header: header["kept"][0].update(joined=0, alarms=[]),
        lambda header: header["kept"][0].update(last_alarm=[1, 0]),
        lambda header: header["kept"][0].update(last_alarm=[1, 2]),
        lambda header: header["kept"][0]["alarms"][0].update(position=[1, 0]),
        lambda header: header["kept"][0].update(held_back=1),
        lambda header: header["kept"][0]["alarms"][0].update(row=-1),
        lambda header: header["kept"][0]["alarms"][0]["features"][0].update(before=float("inf")),
        lambda header: header.pop("kept"),
    ],
)
def test_an_invalid_state_is_refused(forge):
    """Counts, order, positions and numbers are checked before anything changes."""
    _, header = filled(3, joined=1).to_arrays()
    forge(header)
    box = filled(1)
    with pytest.raises(ValueError, match=r"outbox|alarm"):
        box.load_arrays({}, header)
    assert 1 == box.total


@pytest.mark.parametrize(
    ("rows", "lengths", "expected"),
    [
        ([10, 60, 110, 111, 211], (100, 0), "new joins joins new joins"),
        ([5, 5, 6], (0, 0), "new joins new"),
        ([10, 15, 100, 300, 511, 562], (10, 500), "new joins quiet quiet new quiet"),
    ],
)
def test_alarms_join_the_first_one_of_their_episode(rows, lengths, expected):
    """Not the latest; only an episode that triggers the action begins a cool-down, in which others are held back."""
    episodes = Episodes()
    found = [episodes.place(row, *lengths) for row in rows]
    assert expected.split() == ["joins" if joins else "quiet" if held_back else "new" for joins, held_back in found]


def test_an_episode_continues_with_changed_lengths():
    """A change of the configuration does not end the episode."""
    episodes = Episodes()
    episodes.place(100, 10, 0)
    assert (True, False) == episodes.place(150, 50, 90)
    assert (False, True) == episodes.place(190, 50, 90)
    assert (False, False) == episodes.place(260, 50, 90)


@pytest.mark.parametrize(
    "forged", [{"opened": -1}, {"opened": 1.0}, {"acted": 200}, {"acted": 0}, {"opened": 0}, {"more": 1}]
)
def test_invalid_episodes_are_refused(forged):
    """Rows out of order or of the wrong type."""
    episodes = Episodes()
    with pytest.raises(ValueError, match="episodes|opened|acted|header"):
        episodes.load_arrays({}, {"opened": 100, "acted": 100, **forged})
    assert 0 == episodes.opened
