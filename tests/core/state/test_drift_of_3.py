"""Drift tests and events of format 3: the tests go on with the cuts they had, every alarm is an event by itself."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.drift.config import Watch
from core.drift.episodes import Episodes
from core.drift.kernels import FIRST, LAST, MEAN, PAST, PER_CLASS, SQUARE, STEP, STEPS, TO_RECENT, error_inflation
from core.drift.outbox import Outbox
from core.state import drift_of_3
from tests.core.drift.test_detector import absorbed, stream, watch

BATCH = 40
OLD_ROWS = (MEAN, SQUARE, TO_RECENT + MEAN, TO_RECENT + SQUARE)
EVENT = {
    "version": 3, "index": 0, "row": 50, "time_ms": 9, "kind": "error_rate", "label": "UP", "features": [],
    "before": 0.1, "after": 0.3, "epsilon_cut": 0.1, "rows_before": 90, "rows_after": 30, "action": "reset",
}  # fmt: skip


def of_format_3(detector):
    """Arrays and header of a state as format 3 has them, for what the detector holds."""
    arrays, header = detector.to_arrays()
    means, tallies = arrays["means"], arrays["tallies"]
    classes = means[FIRST:].reshape(len(tallies), PER_CLASS, -1)[:, OLD_ROWS]
    old = {
        "watch.means": np.concatenate([means[:FIRST], classes.reshape(4 * len(tallies), -1)]),
        "watch.tallies": np.delete(tallies, STEPS, axis=1),
        "watch.reference": arrays["reference"],
    }
    config = {"watch": {"class_mean": {"batch_size": BATCH}, "error_rate": {"batch_size": BATCH}}}
    return old, {"config": config, "state": {"watch": header, "outbox": {"total": 1, "kept": [EVENT]}}}


def upgraded(detector):
    """A detector of the same kind, loaded from the state of format 3; and the header of the whole state."""
    arrays, header = drift_of_3.upgraded(*of_format_3(detector))
    fresh = watch(detector.regression, BATCH)
    fresh.load_arrays({name.removeprefix("watch."): one for name, one in arrays.items()}, header["state"]["watch"])
    return fresh, header["state"]


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 15, 390, 777])
def test_the_tests_go_on_as_of_independent_rows(regression, rows):
    """What format 3 had is there, and nothing raises a threshold; a drift that comes is found where it was."""
    X, y, loss = stream(regression, 1200, seed=4)
    kept = watch(regression, BATCH)
    kept.absorb(X[:rows], y[:rows], loss[:rows])
    loaded, _ = upgraded(kept)
    (ours, _), (theirs, _) = loaded.to_arrays(), kept.to_arrays()
    for name in ("means", "tallies"):
        same = [*range(FIRST), *(FIRST + PER_CLASS * k + row for k in range(kept.classes) for row in OLD_ROWS)]
        part = (same,) if name == "means" else (slice(None), [at for at in range(theirs[name].shape[1]) if at != STEPS])
        assert np.array_equal(ours[name][part], theirs[name][part])
    for k in range(kept.classes):
        own = ours["means"][FIRST + PER_CLASS * k :][:PER_CLASS]
        assert_allclose(own[STEP], 2 * np.maximum(own[SQUARE] - own[MEAN] ** 2, 0), rtol=1e-6, atol=1e-12)
        assert np.isfinite(own[LAST]).all()
        if ours["tallies"][k, PAST]:
            assert 1.0 == error_inflation(ours["tallies"], k, BATCH // 8) or not ours["tallies"][k, 2]
    assert {a.kind for a in absorbed(loaded, X[rows:], y[rows:], loss[rows:])} >= {"class_mean"}


def test_an_alarm_is_an_event_without_later_ones():
    """The outbox and the episodes load; the next alarm opens another event."""
    kept = watch(batch=BATCH)
    _, state = upgraded(kept)
    outbox, episodes = Outbox(), Episodes(Watch())
    outbox.load_arrays({}, state["outbox"])
    episodes.load_arrays({}, state["episodes"])
    (event,) = outbox.after((0, 0, 0))
    assert ((3, 0, 0), (), False) == (event.reach, event.alarms, event.held_back)
    assert (False, False) == episodes.place(51)


def test_values_too_large_to_be_squared_are_upgraded():
    """Without a warning, to finite numbers."""
    kept = watch(batch=BATCH)
    X, y, loss = stream(rows=200)
    kept.absorb(np.where(np.arange(200)[:, None] % 9 == 0, 1e300, X), y, loss)
    loaded, _ = upgraded(kept)
    assert all(np.isfinite(array).all() for array in loaded.to_arrays()[0].values())
