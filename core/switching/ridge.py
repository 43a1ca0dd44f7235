r"""The ridge of a mapping between feature spaces: .03, unless leave-one-out asks for a smaller one.

Of B rows with a kernel matrix K (B, B) of the new space and centred old columns Y (B, d1), ridge regression with
l = r trace(K) / B recovers S y of an old column y, with A = (K + l I)^{-1},

    I - S = l A (I - 11'/B),    leave-one-out error of row i:  (I - S) y / (I - S)_ii,    e(r) = sum e_ij^2 / sum y_ij^2

the mean over the columns j that vary. The intercept is fitted without the row, too; the deviations by which rows are
standardised are not. Exact for centred K (linear_mapping.py); otherwise a row's part in the mean is kept.

r is the best of 1e-5, 1e-4, .001 and .01 if its e(r) is less than half of e(.03), else .03. So a smaller one is used
if old columns are an image of the new ones, but not for the gain that the best of several shows by chance. Larger ones
are not tried: if they halve e, it is because of a few outlying rows.

Source: Hastie, Tibshirani, Friedman: The Elements of Statistical Learning, 2nd edition, 2009: (5.26), (7.64).
"""

import numpy as np

from core.contract import Floats
from core.numerics.linalg import spd_inverse
from core.state.layout import Array, Range

RIDGE = 0.03  # the default ridge of a mapping
CHOICE_ROWS_MAX = 128  # rows up to which a mapping chooses its ridge; a linear one keeps at least this many
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)  # alternatives to .03
RIDGE_ARRAY = Array(1, within=Range(min(RIDGES), RIDGE))  # a mapping's ridge in its state
_GAIN = 0.5
_REST_MIN = 1e-12


def inverse_with(K: Floats, ridge: float) -> Floats:
    """(K + l I)^{-1} of a positive semidefinite K (d, d), for l = ridge trace(K) / d, or 1 if nothing varies."""
    A = K.copy()
    A.ravel()[:: len(A) + 1] += _absolute(K, ridge)
    return spd_inverse(A)


def chosen(K: Floats, Y: Floats) -> float:
    """The ridge for rows of a kernel matrix K (B, B) with centred old columns Y (B, d1)."""
    squares = (Y * Y).sum(axis=0)
    scale = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
    scaled = Y * scale
    errors = [_left_out(K, scaled, ridge) for ridge in RIDGES]
    best = int(np.argmin(errors))
    return RIDGES[best] if errors[best] < _GAIN * _left_out(K, scaled, RIDGE) else RIDGE


def flops_to_choose(count: int, rows: int, targets: int) -> float:
    """Floating-point operations of choosing once while a mapping of ``count`` rows learns more of them (coarse)."""
    if count >= CHOICE_ROWS_MAX:
        return 0.0
    B = min(count + rows, CHOICE_ROWS_MAX)
    return (len(RIDGES) + 1.0) * B * B * (B + 2.0 * targets)


def _left_out(K: Floats, Y: Floats, ridge: float) -> float:
    """The sum of squared leave-one-out errors of old columns Y (B, d1) with means of 0."""
    rest = _absolute(K, ridge) * inverse_with(K, ridge)  # I - H
    own = rest.diagonal() - rest.mean(axis=1)
    errors = (rest @ Y) / np.maximum(own, _REST_MIN)[:, None]
    return float((errors * errors).sum())


def _absolute(K: Floats, ridge: float) -> float:
    """l, positive even if nothing varies."""
    return ridge * float(np.trace(K)) / len(K) or 1.0
