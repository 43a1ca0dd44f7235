r"""Lag columns: the last rows learned, their features and labels, as further columns of the next row.

    X_t = [x_t,  x_(t-1) ... x_(t-m),  y_(t-1) ... y_(t-k)]         t counts rows learned

x are encoded rows. In a regression, y is the label itself. A class is C columns of 0 and 1: class c < C has column c,
later classes have none. Labels enter when they arrive: y_(t-1) is the last one *known* when a row is predicted. Every
row of a call of ``lag`` is predicted as the next one.

While there are fewer rows than lags, the first one stands in for those before it. Before the first row each row stands
in for itself, and labels are 0.

A row that was predicted earlier and is learned now brings the lag columns it was predicted with; it joins the history
like any other.

Source: ARX(m, k): Box, Jenkins: Time Series Analysis, 1970; Ljung: System Identification, 1987.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints
from core.numerics.rows import put
from core.state.layout import Array, Counts, Holder, Layout, Range

NOT_RETURNED, BEFORE_ALL = np.nan, np.inf
"""First lag column of a row that was not returned with any, and of one predicted before the first row was learned."""

_NONE_RETURNED, _NO_LABELS = np.empty((0, 0)), np.empty(0)


@njit(cache=True, nogil=True)
def _write(X: Floats, i: int, known: bool, features: Floats, labels: Floats, Z: Floats) -> None:
    """Row i of Z: that of X, then the features and the labels of the rows before it."""
    D = X.shape[1]
    put(X[i], Z[i])
    for row in range(features.shape[0]):
        put(features[row] if known else X[i], Z[i, D * (row + 1) :])
    put(labels.ravel(), Z[i, D + features.size :])


@njit(cache=True, nogil=True)
def _join(X: Floats, i: int, y: float, classes: bool, known: bool, features: Floats, labels: Floats) -> None:
    """Add row i of X with its label to the history; the first one fills it."""
    for row in range(features.shape[0] - 1, -1, -1):
        put(features[row - 1] if known and row > 0 else X[i], features[row])
    for row in range(labels.shape[0] - 1, -1, -1):
        for j in range(labels.shape[1]):
            own = (1.0 if y == j else 0.0) if classes else y
            labels[row, j] = labels[row - 1, j] if known and row > 0 else own


@njit(f"void({ROWS_IN}, {NUMBERS_IN}, {ROWS_IN}, b1, {VECTOR}, {TABLE}, {TABLE}, {TABLE})", cache=True, nogil=True)
def _lag(
    X: Floats, y: Floats, returned: Floats, classes: bool, known: Floats, features: Floats, labels: Floats, Z: Floats
) -> None:
    """Write rows (n, D) with lag columns to Z; those they bring are ``returned`` (n, L), or (0, 0) if none brings any.

    Each then joins the history with its label y (n,); without labels, (0,), each is written as the next row.
    """
    D, nothing = X.shape[1], np.zeros(labels.shape)
    for i in range(X.shape[0]):
        if returned.shape[0] == 0 or np.isnan(returned[i, 0]):
            _write(X, i, known[0] > 0.0, features, labels, Z)
        elif np.isinf(returned[i, 0]):
            _write(X, i, False, features, nothing, Z)
        else:
            put(X[i], Z[i])
            put(returned[i], Z[i, D:])
        if y.shape[0]:
            _join(X, i, y[i], classes, known[0] > 0.0, features, labels)
            known[0] = 1.0


class LagColumns(Holder):
    """The history of one feature space, a state machine over its encoded rows and their labels.

    ``classes``: C, classes that have a column; None: labels are numbers.
    """

    layout = Layout(
        known=Array(1, within=Range(0.0, 1.0, whole=True)),
        features=Array("features", "D"),
        labels=Array("labels", "C"),
    )
    object_bytes = 400

    def __init__(self, dimension: int, features: int, labels: int, classes: int | None = None) -> None:
        self._classes = classes is not None
        self.known = np.zeros(1)  # 1 from the first row on
        self.features = np.zeros((features, dimension))  # of the last rows, newest first
        self.labels = np.zeros((labels, 1 if classes is None else classes))
        self.width = self.features.size + self.labels.size

    def empty(self) -> "LagColumns":
        """A history of the same columns without any row."""
        (m, D), (k, C) = self.features.shape, self.labels.shape
        return LagColumns(D, m, k, C if self._classes else None)

    def lag(self, X: Floats, truth: NDArray[Any] | None = None, returned: Floats | None = None) -> Floats:
        """Encoded rows (n, D) with their lag columns, (n, D + L), each as the next row. Changes nothing without truth.

        With ``truth`` (n,), class indices or numbers, rows are about to be learned and join the history; a block leaves
        the same bits as its rows one by one. ``returned`` (n, L) has the lag columns that rows bring, ``NOT_RETURNED``
        or ``BEFORE_ALL`` in the first; None: no row brings any.
        """
        Z, given = np.empty((X.shape[0], X.shape[1] + self.width)), _NONE_RETURNED if returned is None else returned
        y = _NO_LABELS if truth is None else np.ascontiguousarray(truth, dtype=np.float64)
        _lag(X, y, given, self._classes, self.known, self.features, self.labels, Z)
        return Z

    def now(self) -> tuple[float, ...]:
        """The lag columns of the next row; () before the first one."""
        if not self.known[0]:
            return ()
        return (*self.features.ravel().tolist(), *self.labels.ravel().tolist())

    def as_returned(self, brought: Sequence[tuple[float, ...] | None]) -> Floats:
        """The ``returned`` of ``lag``, from the lag columns that each row brings, as ``now`` gave them. For None, or
        another number of columns than the model's, the row brings none.
        """
        returned = np.full((len(brought), self.width), NOT_RETURNED)
        for row, own in enumerate(brought):
            if own == ():
                returned[row, 0] = BEFORE_ALL
            elif own is not None and len(own) == self.width:
                returned[row] = own
        return returned

    def extend(self, other: "LagColumns", places: Ints) -> None:
        """Take over a history of fewer columns, those at ``places``; the others have been 0 in every row."""
        self.layout.extend(self, other, places)

    def _sizes(self, _found: Counts) -> Counts:
        (m, D), (k, C) = self.features.shape, self.labels.shape
        return {"features": m, "D": D, "labels": k, "C": C}

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        if not held["known"][0] and (held["features"].any() or held["labels"].any()):
            raise ValueError("no row has been learned")


def lagged_names(columns: Sequence[str], features: int, labels: int, classes: int | None = None) -> tuple[str, ...]:
    """Names of the lag columns of encoded columns, in their order: ``x (t-1)``, ``label (t-1)``, ``label (t-1) #0``."""
    kinds = [""] if classes is None else [f" #{c}" for c in range(classes)]
    own = [f"{column} (t-{lag})" for lag in range(1, features + 1) for column in columns]
    return (*own, *(f"label (t-{lag}){kind}" for lag in range(1, labels + 1) for kind in kinds))
