"""The metrics of a regression in a state of format 5, which did not score it on the rows of ``last_value`` alone.

Of up to 1000 rows the window has them all, and the scores are what they would have been. Of more, the rows before the
first point of the history, at most one in 100, are left out of the model's overall scores, which are then of the rows
after it, as far as sums of then and now tell them apart; the mean absolute error of then is known where the window had
all rows, else it is that of all. Fading scores begin with the window. Past points of the history lack both.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header

WINDOW, FADING, ERROR_MAX = 1000, 0.999, 1e150
ROWS, MSE, MAE, F_ROWS, F_SE, F_AE, FB_ROWS, B_ROWS, STRIDE = 0, 1, 2, 8, 9, 10, 13, 16, 23
"""Places in the scalars of format 5."""
POINT_OVERALL, POINT_MAE = 2, 3
"""Columns of a point of the history."""
_SCALARS = ".scalars"


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state, challengers included; that of a classification as it was."""
    if header["config"]["task"] != "regression":
        return arrays, header
    found = [name.removesuffix(_SCALARS) for name in arrays if f".{name}".endswith(f".metrics{_SCALARS}")]
    made = dict(arrays)
    for part in found:
        s, ring, history = (arrays[f"{part}.{name}"] for name in ("scalars", "ring", "history"))
        made[f"{part}{_SCALARS}"] = np.concatenate([s[:STRIDE], _paired(s, ring, history), s[STRIDE:]])
        made[f"{part}.history"] = _wider(history, int(s[-1]))
    return made, header


def _paired(s: Floats, ring: Floats, history: Floats) -> Floats:
    """Means of e^2 and |e| on the rows of the baseline, and fading sums of the same, (4,)."""
    if s[ROWS] <= WINDOW:
        return _recomputed(ring[: int(s[ROWS])])
    return np.array([*_overall(s, history[0]), *_fading(s, ring)])


def _recomputed(ring: Floats) -> Floats:
    """From all rows, in their order, by the recursions of format 6."""
    mse = mae = squares = sizes = 0.0
    for n, error in enumerate(ring[~np.isnan(ring[:, 2]), 0].tolist(), 1):
        square, size = error * error, abs(error)
        mse += (square - mse) / n
        mae += (size - mae) / n
        squares, sizes = FADING * squares + square, FADING * sizes + size
    return np.array([mse, mae, squares, sizes])


def _overall(s: Floats, point: Floats) -> tuple[float, float]:
    """Squared and absolute error of the rows after a point of the history; 0 where the baseline has no rows."""
    if not s[B_ROWS]:
        return 0.0, 0.0
    mse, mae = s[[MSE, MAE]].tolist()
    before = point.tolist()
    share = before[0] / (float(s[ROWS]) - before[0])
    after = mse + share * (mse - before[POINT_OVERALL])
    size = mae + share * (mae - before[POINT_MAE]) if before[0] <= WINDOW else mae
    return max(after, 0.0), max(size, 0.0)


def _fading(s: Floats, ring: Floats) -> tuple[float, float]:
    """Fading sums as if all rows had erred like those of the window."""
    rows = int(s[ROWS])
    weights = FADING ** ((rows - 1 - np.arange(WINDOW)) % WINDOW)
    scored = ~np.isnan(ring[:, 2])
    total, errors = float(weights[scored].sum()), np.clip(ring[scored, 0], -ERROR_MAX, ERROR_MAX)
    if not total:
        share = float(s[FB_ROWS]) / float(s[F_ROWS])
        return share * float(s[F_SE]), share * float(s[F_AE])
    means = weights[scored] @ errors**2 / total, weights[scored] @ np.abs(errors) / total
    return float(s[FB_ROWS] * means[0]), float(s[FB_ROWS] * means[1])


def _wider(history: Floats, points: int) -> Floats:
    """The history with two scores more, undefined in its points."""
    more = np.zeros((len(history), 2))
    more[:points] = np.nan
    return np.hstack([history, more])
