"""Episodes: which alarms are one drift, which of them is acted upon."""

import json

import pytest

from core.drift.outbox import Episodes


def places(rows, episode_rows, cooldown_rows=0):
    """What becomes of alarms at these rows: "new", "quiet" for one that is held back, "joins"."""
    episodes = Episodes()
    found = [episodes.place(row, episode_rows, cooldown_rows) for row in rows]
    return ["joins" if joins else "quiet" if held_back else "new" for joins, held_back in found]


def test_alarms_after_the_first_one_join_it():
    """As long as they come within the rows after the first alarm, not after the latest."""
    assert ["new", "joins", "joins", "new", "joins"] == places([10, 60, 110, 111, 211], episode_rows=100)


def test_alarms_of_one_row_are_one_episode():
    """Even where episodes have no length."""
    assert ["new", "joins", "new"] == places([5, 5, 6], episode_rows=0)


def test_the_cool_down_begins_at_an_episode_that_was_acted_upon():
    """One that is held back does not prolong it; alarms that join are of no account."""
    expected = ["new", "joins", "quiet", "quiet", "new", "quiet"]
    assert expected == places([10, 15, 100, 300, 511, 512 + 50], episode_rows=10, cooldown_rows=500)


def test_other_lengths_go_on_with_the_episode():
    """A configuration that changes ends nothing."""
    episodes = Episodes()
    episodes.place(100, 10, 0)
    assert (True, False) == episodes.place(150, 50, 90)
    assert (False, True) == episodes.place(190, 50, 90)
    assert (False, False) == episodes.place(260, 50, 90)


def test_the_state_comes_back_through_json():
    """At every stage it goes on as if never saved."""
    rows = [3, 10, 80, 120, 400]
    for stop in range(len(rows)):
        kept, loaded = Episodes(), Episodes()
        for row in rows[:stop]:
            kept.place(row, 50, 100)
        arrays, header = kept.to_arrays()
        loaded.load_arrays(arrays, json.loads(json.dumps(header)))
        assert [kept.place(row, 50, 100) for row in rows[stop:]] == [loaded.place(row, 50, 100) for row in rows[stop:]]


@pytest.mark.parametrize(
    "forged", [{"opened": -1}, {"opened": 1.0}, {"acted": 200}, {"acted": 0}, {"opened": 0}, {"more": 1}]
)
def test_a_state_that_cannot_be_is_refused(forged):
    """Rows out of order or of another type."""
    episodes = Episodes()
    with pytest.raises(ValueError, match="episodes|opened|acted|header"):
        episodes.load_arrays({}, {"opened": 100, "acted": 100, **forged})
    assert 0 == episodes.opened
