r"""Online scaling of encoded columns: a stage before the learner, part of the model's state.

    encoded rows (n, D)  ->  z (n, D),   z_j = clip((x_j - m_j) / s_j, +-limit)

A row is absorbed first and then scaled by the new state. A prediction scales each row by the state *as it would be
after that row* without changing it, so it equals the prediction that learning the row returns. Per column, with t the
rows absorbed, this one included:

**standard**  mean and deviation of all rows so far, limit 10

    r = 1/t            d = x - m      m <- m + r d      v <- (1 - r)(v + r d^2)      s = sqrt v        (Welford)

**robust**  the same with exponential forgetting and winsorised values, limit 5: follows drift and resists outliers

    t < 20    m = median, s = 1.4826 MAD of the rows so far (where that is 0: their standard deviation)
    t = 20    m, v = mean and variance of the 20 rows, clipped to median +- 5 s
    t > 20    r = max(1/t, 1 - 2^(-1/2000)): a half-life of 2000 rows
              d = clip(x - m, +-5 s), unclipped where s = 0; then as above

**minmax**  m = the least and s = the largest value minus it, of all rows so far; z is clipped to [0, 1]. A column with
declared ends keeps these; values outside do not move them.

A column that has had only one value has s = 0 and z = 0; its mean is exactly that value (with minmax its least value).

**Any finite input.** The state holds the deviation s, since its square would overflow beyond 1e154 and underflow below
1e-162; for rows with such numbers sqrt(a^2 + b^2) is computed by ``hypot``. Values are clipped to +-1e307, so that no
difference overflows.

Source: Welford, Technometrics 4(3), 1962; Huber, Robust Statistics, 1981 (winsorised residuals, MAD start).
"""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import ROWS_IN, TABLE, Floats, Header, Ints, direct
from core.numerics.rows import put, within
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, Array, Layout, counts

START_ROWS = 20  # rows whose medians start the robust scaling
HALF_LIFE = 2000.0
VALUE_MAX = 1e307
_LIMIT, _LIMIT_ROBUST = 10.0, 5.0  # largest |z|

_RATE_MIN = -math.expm1(-math.log(2.0) / HALF_LIFE)  # 1 - 2^(-1/2000)
_WINSOR = 5.0
_MAD = 1.4826
_LARGE, _SMALL = 1e140, 1e-140

_STATE_MAX = 4.0 * VALUE_MAX
_ROBUST = Layout(
    moments=Array(2, "D", within=_STATE_MAX, places={1: NOT_NEGATIVE}, axis=0),
    buffer=Array("held", "D", within=_STATE_MAX, at="_buffered"),
)
_STANDARD = _ROBUST.without("buffer")
LAYOUTS = {"none": Layout(), "standard": _STANDARD, "robust": _ROBUST, "minmax": _STANDARD}
_KINDS = {"standard": 0, "robust": 1, "minmax": 2}
_IS_ROBUST, _IS_MINMAX = 1, 2


@njit(cache=True, nogil=True)
def _median(values: Floats, count: int) -> float:
    """Median of the first ``count`` >= 1 values, which are sorted in place."""
    values[:count].sort()
    return float(0.5 * (values[(count - 1) // 2] + values[count // 2]))


@njit(cache=True, nogil=True, error_model="numpy")
def _mean_and_deviation(values: Floats, count: int) -> tuple[float, float]:
    """Mean and standard deviation of the first ``count`` values, divided by the largest: nothing overflows."""
    largest = 0.0
    for i in range(count):
        largest = max(largest, abs(values[i]))
    if largest == 0.0:
        return 0.0, 0.0
    mean = square = 0.0
    for i in range(count):
        mean += values[i] / largest
    mean /= count
    for i in range(count):
        square += (values[i] / largest - mean) ** 2
    return mean * largest, math.sqrt(square / count) * largest


@njit(cache=True, nogil=True)
def _start(column: Floats, count: int, work: Floats) -> tuple[float, float]:
    """Centre and spread of a column's first ``count`` <= 20 values; at 20, those that start the recursion."""
    put(column[:count], work)
    centre = _median(work, count)
    for i in range(count):
        work[i] = abs(column[i] - centre)
    spread = _MAD * _median(work, count)
    for i in range(count):
        work[i] = column[i] - centre
    if spread == 0.0:
        spread = _mean_and_deviation(work, count)[1]
    if count == START_ROWS:
        for i in range(count):
            work[i] = within(work[i], _WINSOR * spread)
        shift, spread = _mean_and_deviation(work, count)
        centre += shift
    return centre, spread


@njit(cache=True, nogil=True)
def _start_row(X: Floats, i: int, count: int, buffer: Floats, moments: Floats) -> None:
    """Moments with row i as the ``count``-th; the rows before it are in the buffer, which is not changed."""
    column, work = np.empty(START_ROWS), np.empty(START_ROWS)
    for j in range(X.shape[1]):
        for row in range(count - 1):
            column[row] = buffer[row, j]
        column[count - 1] = within(X[i, j], VALUE_MAX)
        moments[0, j], moments[1, j] = _start(column, count, work)


@njit(cache=True, nogil=True)
def _ordinary(X: Floats, i: int, moments: Floats) -> bool:
    """Whether squares of this row's differences and spreads neither overflow nor underflow."""
    wild = False
    for j in range(X.shape[1]):
        d = within(X[i, j], VALUE_MAX) - moments[0, j]
        s = moments[1, j]
        wild |= (abs(d) > _LARGE) | (s > _LARGE) | ((s < _SMALL) & (d != 0.0))
    return not wild


@njit(cache=True, nogil=True, error_model="numpy")
def _next_row(X: Floats, i: int, rate: float, winsor: float, moments: Floats, newer: Floats) -> None:
    """Moments with row i, by the recursion, into ``newer``, which may be ``moments`` itself."""
    ordinary = _ordinary(X, i, moments)
    root, kept = math.sqrt(rate), math.sqrt(1.0 - rate)
    for j in range(X.shape[1]):
        m, s = moments[0, j], moments[1, j]
        d = within(X[i, j], VALUE_MAX) - m
        d = within(d, winsor * s if s > 0.0 else np.inf)
        newer[0, j] = m + rate * d
        if ordinary:
            newer[1, j] = math.sqrt((1.0 - rate) * (s * s + rate * (d * d)))
        else:
            newer[1, j] = kept * math.hypot(s, root * d)


@njit(cache=True, nogil=True, error_model="numpy")
def _standardise(X: Floats, i: int, moments: Floats, low: float, high: float, Z: Floats) -> None:
    """Z_i = clip((x - m) / s), 0 where s = 0."""
    for j in range(X.shape[1]):
        m, s = moments[0, j], moments[1, j]
        z = (within(X[i, j], VALUE_MAX) - m) / s
        Z[i, j] = min(max(z, low), high) if s > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _wider_row(X: Floats, i: int, t: int, declared: Floats, moments: Floats, newer: Floats) -> None:
    """Ends with row i as the t-th into ``newer``, which may be ``moments`` itself; ``declared`` (D,): 1 keeps them."""
    for j in range(X.shape[1]):
        low, span, x = moments[0, j], moments[1, j], within(X[i, j], VALUE_MAX)
        if declared[j] == 0.0:
            if t == 1:
                low = x
            elif x < low:
                span += low - x
                low = x
            elif x - low > span:
                span = x - low
        newer[0, j], newer[1, j] = low, span


@njit(cache=True, nogil=True)
def _newer(X: Floats, i: int, t: int, kind: int, moments: Floats, buffer: Floats, newer: Floats) -> None:
    """The moments with row i as the t-th."""
    if kind == _IS_MINMAX:
        _wider_row(X, i, t, buffer[0], moments, newer)
    elif kind == _IS_ROBUST and t <= START_ROWS:
        _start_row(X, i, t, buffer, newer)
    elif kind == _IS_ROBUST:
        _next_row(X, i, max(1.0 / t, _RATE_MIN), _WINSOR, moments, newer)
    else:
        _next_row(X, i, 1.0 / t, np.inf, moments, newer)


@direct(f"void({ROWS_IN}, i8, i8, b1, {TABLE}, {TABLE}, {TABLE})")
def _scale_rows(X: Floats, rows: int, kind: int, absorb: bool, moments: Floats, buffer: Floats, Z: Floats) -> None:
    """Absorb each row, then scale it; without ``absorb``, scale each as if it were the only next row."""
    robust = kind == _IS_ROBUST
    high = 1.0 if kind == _IS_MINMAX else _LIMIT_ROBUST if robust else _LIMIT
    low = 0.0 if kind == _IS_MINMAX else -high
    newer = moments if absorb else np.empty(moments.shape)
    for i in range(X.shape[0]):
        t = rows + (i if absorb else 0) + 1
        _newer(X, i, t, kind, moments, buffer, newer)
        _standardise(X, i, newer, low, high, Z)
        if absorb and robust and t < START_ROWS:
            for j in range(X.shape[1]):
                buffer[t - 1, j] = within(X[i, j], VALUE_MAX)


class Scaler:
    """The scaling of one feature space of D columns, a state machine over its encoded rows.

    ``ranges`` (2, D) has the columns' declared ends for minmax, NaN where there are none; None: no column has any.
    """

    def __init__(
        self, kind: Literal["standard", "robust", "minmax"], dimension: int, ranges: Floats | None = None
    ) -> None:
        self.kind = kind
        self.dimension = dimension
        self.rows = 0  # t, rows absorbed
        self.layout: Final = LAYOUTS[kind]
        self._robust, self._kind = kind == "robust", _KINDS[kind]
        self.moments = np.zeros((2, dimension))  # centres and spreads
        # The first rows of "robust", until the 20th; of "minmax" (1, D), 1 where ends are declared; else (0, D).
        self.buffer = np.zeros((START_ROWS - 1 if self._robust else int(kind == "minmax"), dimension))
        if kind == "minmax" and ranges is not None:
            declared = ~np.isnan(ranges).any(axis=0)
            low, high = np.clip(ranges[:, declared], -VALUE_MAX, VALUE_MAX)
            self.buffer[0, declared], self.moments[:, declared] = 1.0, (low, high - low)

    def scale(self, X: Floats, absorb: bool = False) -> Floats:
        """Scale rows X (n, D), C-contiguous and finite, each as if it were the only next row. Changes nothing.

        With ``absorb``, each row is absorbed before it is scaled; a block leaves the same bits as its rows one by one.
        """
        Z = np.empty(X.shape)
        _scale_rows(X, self.rows, self._kind, absorb, self.moments, self.buffer, Z)
        if absorb:
            self.rows += X.shape[0]
            if self._robust and self.rows >= START_ROWS and self.buffer.shape[0]:
                self.buffer = np.zeros((0, self.dimension))
        return Z

    def extend(self, other: "Scaler", places: Ints) -> None:
        """Take over from a scaler of fewer columns, those at ``places``; the others have been 0 in every row."""
        self.rows = other.rows
        if self._robust:
            self.buffer = np.zeros((len(other.buffer), self.dimension))
            self.buffer[:, places] = other.buffer
        self.moments[:, places] = other.moments

    def affine(self) -> tuple[Floats, Floats]:
        """Centres (D,) and spreads (D,) with z = (x - centre) / spread, for a linear model's weights on raw columns.

        The spread is 1 where a column has had only one value: z was always 0, and nothing has been learned from it. An
        approximation: it omits the limits, which are not linear, and the effect of the row itself on the moments.
        """
        centre, spread = self.moments.copy()
        return centre, np.where(spread > 0.0, spread, 1.0)

    @property
    def _buffered(self) -> Floats:
        """The rows in the buffer (held, D)."""
        return self.buffer[: self.rows]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The moments and, before the 20th row of "robust", the rows so far; copies."""
        return self.layout.to_arrays(self), {"kind": self.kind, "rows": self.rows}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``Holder``."""
        if set(header) != {"kind", "rows"} or header["kind"] != self.kind:
            raise ValueError("not the state of this scaler")
        (rows,) = counts({"rows": header["rows"]}, rows=ROWS_MAX)
        starting = self._robust and rows < START_ROWS
        read = self.layout.read(arrays, D=self.dimension, held=rows if starting else 0)
        fixed = self.buffer[0] == 1.0 if self._kind == _IS_MINMAX else np.zeros(self.dimension, bool)
        if rows == 0 and (read["moments"][:, ~fixed].any() or (starting and read["_buffered"].any())):
            raise ValueError("moments: no row has been absorbed")
        if (read["moments"][:, fixed] != self.moments[:, fixed]).any():
            raise ValueError("moments: the declared ends differ")
        self.rows, self.moments = rows, read["moments"]
        if self._robust:
            self.buffer = np.zeros((START_ROWS - 1 if starting else 0, self.dimension))
        if starting:
            self.buffer[:rows] = read["_buffered"]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.moments.nbytes + self.buffer.nbytes


def scaler_bytes(kind: str, dimension: int) -> int:
    """Bytes that the state of a scaler of this kind takes at most."""
    return LAYOUTS[kind].bytes(D=dimension, held=START_ROWS - 1) + (8 * dimension if kind == "minmax" else 0)
