"""States of format 3, in which an alarm was an event and rows were taken to be independent, as those of format 4.

    watch     no steps from row to row yet: those of independent rows are assumed, so that the cuts are as they were
    outbox    every alarm is an event without later ones
    episodes  none is open

Numbers that are too large to be squared have steps of 0, as in the tests themselves.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header

_FIRST, _OLD_CLASS, _RECENT, _COUNT, _WRONG, _OLD_SUMS = 3, 4, 1, 2, 4, 5
_CELLS = 8


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """Arrays and header of a whole state with the drift tests, events and episodes of format 4."""
    state = dict(header["state"])
    outbox = state["outbox"]
    more = {"held_back": False, "joined": 0, "alarms": []}
    state["outbox"] = {**outbox, "kept": [{**drift, **more} for drift in outbox["kept"]]}
    if "watch" in state:
        state["episodes"] = {"opened": 0, "acted": 0}
        means, tallies = arrays["watch.means"], arrays["watch.tallies"]
        watch = header["config"].get("watch") or {}
        batch = (watch.get("error_rate") or {"batch_size": 1})["batch_size"]
        arrays = {
            **arrays,
            "watch.means": _with_steps(means, tallies[:, _RECENT]),
            "watch.tallies": _with_cell_steps(tallies, batch // min(_CELLS, batch)),
        }
    return arrays, {**header, "state": state}


def _with_steps(means: Floats, recent: Floats) -> Floats:
    """Rows of each class: past means of values, squares, squared steps; recent sums of the same; the last value."""
    classes = means[_FIRST:].reshape(len(recent), _OLD_CLASS, means.shape[1])
    mean, square, total, squares = (classes[:, row] for row in range(_OLD_CLASS))
    rows = np.maximum(recent, 1.0)[:, None]
    with np.errstate(over="ignore"):
        past_steps = 2.0 * np.maximum(square - mean * mean, 0.0)
        recent_steps = 2.0 * np.maximum(squares - total / rows * total, 0.0)
    last = np.where(recent[:, None] > 0.0, total / rows, mean)
    made = np.stack([mean, square, past_steps, total, squares, recent_steps, last], axis=1)
    return np.concatenate([means[:_FIRST], made.reshape(made.shape[0] * made.shape[1], means.shape[1])])


def _with_cell_steps(tallies: Floats, cell: int) -> Floats:
    """The sum of squared steps from cell to cell, as of independent rows, before the sums of the last cells."""
    count, wrong = tallies[:, _COUNT], tallies[:, _WRONG]
    share = np.minimum(wrong / np.maximum(count, 1.0), 1.0)
    steps = 2.0 * np.maximum(count / cell - 1.0, 0.0) * cell * share * (1.0 - share)
    return np.concatenate([tallies[:, :_OLD_SUMS], steps[:, None], tallies[:, _OLD_SUMS:]], axis=1)
