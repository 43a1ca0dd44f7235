"""The last row and the last two labels of a series as further columns: what an autoregressive expert reads.

    x(t), x(t-1), y(t-1), y(t-2)        in the order in which they were learned; zeros before the first

A row that is predicted is predicted as the next one. Where labels come late, the last ones are those known by then.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints
from core.learners.auto.experts import LAGGED_LABELS
from core.state.layout import Array, Layout, counts

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"


@njit(f"void({_ROWS_IN}, {_VECTOR_IN}, f8[::1], f8[::1], f8[:,::1])", cache=True, nogil=True)
def _lag_rows(X: Floats, y: Floats, row: Floats, labels: Floats, out: Floats) -> None:
    """Rows X (n, d) with their lags into out (n, 2 d + 2); with labels y (n,), else (0,), each joins the history."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        for j in range(d):
            out[i, j], out[i, d + j] = X[i, j], row[j]
        for lag in range(LAGGED_LABELS):
            out[i, 2 * d + lag] = labels[lag]
        if y.shape[0]:
            for j in range(d):
                row[j] = X[i, j]
            for lag in range(LAGGED_LABELS - 1, 0, -1):
                labels[lag] = labels[lag - 1]
            labels[0] = y[i]


class History:
    """What the lagged columns of the next row are.

    State:
        row (d,)     the row learned last
        labels (2,)  the labels learned last, the newest first
    """

    layout: ClassVar = Layout({"row": Array("d"), "labels": Array(LAGGED_LABELS)})
    object_bytes: ClassVar = 300

    def __init__(self, dimension: int) -> None:
        self.row, self.labels = np.zeros(dimension), np.zeros(LAGGED_LABELS)

    def lagged(self, X: Floats, y: Floats | None = None) -> Floats:
        """Rows X (n, d) with their lags (n, 2 d + 2): all as the next one, or with their labels y (n,) one by one."""
        out = np.empty((X.shape[0], 2 * X.shape[1] + LAGGED_LABELS))
        _lag_rows(X, _NONE if y is None else y, self.row, self.labels, out)
        return out

    def extend(self, other: "History", places: Ints) -> None:
        """Go on for a history of fewer columns, those at ``places``."""
        self.row[places], self.labels = other.row, other.labels.copy()

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.layout.held_bytes(self) + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        return self.layout.to_arrays(self), {}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of so many columns can be; nothing has changed.
        """
        counts(header)
        self.layout.load(self, arrays, d=len(self.row))


_NONE = np.empty(0)
