r"""The unit in which experts of `auto` read the labels of earlier rows as columns (core.learners.auto.experts).

    z = (y - c) / s                c = y_1
    s = |y - c|                    of the first label that differs from y_1; z = 0 before it
    s <- max(s, |y - c| / 30)      by the 19 labels after it that differ from y_1

The ridge of least squares forbids the large weights that labels in a small unit need. Columns that are too large do
little harm, so two labels are enough to choose the unit. Nearly all rows are then in the same unit: a few first rows in
other units would harm experts that never forget for long. The unit moves only if the first two labels are nearly equal,
as after an idle start: with z in the thousands, the next predictions would be far off.
"""

from typing import ClassVar

import numpy as np

from core.contract import NUMBERS_IN, VECTOR, Floats, direct
from core.numerics.rows import within
from core.state.layout import NOT_NEGATIVE, Array, Holder, Layout, Range

CENTRE, SPREAD, SEEN = range(3)  # c, s, and how many labels: the first one, and up to 20 that differ from it
SEEN_MAX = 21
_LARGEST = 30.0
_VALUE_MAX = 1e307


@direct(f"void({NUMBERS_IN}, {VECTOR}, {VECTOR})", error_model="numpy")
def _scale(y: Floats, unit: Floats, z: Floats) -> None:
    """Write labels y (n,) as z (n,); each moves the unit (3,) before that."""
    for i in range(y.shape[0]):
        label = within(y[i], _VALUE_MAX)
        if unit[SEEN] == 0.0:
            unit[CENTRE], unit[SEEN] = label, 1.0
        apart = label - unit[CENTRE]
        if apart != 0.0 and unit[SEEN] < SEEN_MAX:
            unit[SPREAD] = max(unit[SPREAD], abs(apart) / (_LARGEST if unit[SPREAD] > 0.0 else 1.0))
            unit[SEEN] += 1.0
        z[i] = within(apart / unit[SPREAD], _VALUE_MAX) if unit[SPREAD] > 0.0 else 0.0


class LabelUnit(Holder):
    """The unit of one model's labels."""

    layout: ClassVar = Layout(
        unit=Array(3, within=2.0 * _VALUE_MAX, places={SPREAD: NOT_NEGATIVE, SEEN: Range(0.0, SEEN_MAX, whole=True)})
    )

    def __init__(self) -> None:
        self.unit = np.zeros(3)

    def scale(self, y: Floats) -> Floats:
        """Labels (n,) that are about to be learned, as z (n,); a block gives the same bits as its labels one by one."""
        z = np.empty(y.shape)
        _scale(y, self.unit, z)
        return z
