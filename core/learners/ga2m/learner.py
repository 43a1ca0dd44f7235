"""The learner behind GA2M; kernels.py has its equations for classes, numbers.py for numbers."""

from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

import numpy as np

from core.contract import Floats, Header, Ints, Spec, unlike
from core.features.label_range import HIGH, LOW, ROWS
from core.learners.ga2m.kernels import WEIGHT_MAX, learn_rows
from core.learners.ga2m.numbers import (
    MEAN,
    NOISE,
    NUMBER_MAX,
    SQUARE_MAX,
    VARIANCE,
    VARIANCE_FIRST,
    WEIGHT,
    number_rows,
)
from core.learners.learner import RowLearner
from core.learners.linear import column_count, linear_model, with_class
from core.learners.posterior import View
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout

_FIRST_TWO = (-0.5, 0.5)

_SINGLE = ((32, 32), (256, 8))  # (most columns, bins per column); with more columns, WIDE
_PAIR = ((12, 8), (32, 4), (64, 2))  # (most columns, bins per column in a pair); with more columns there are no pairs
_WIDE = 4
EDGE_MAX = 1e300  # edges of bins are capped here: a huge spread could make them overflow


def column_bins(d: int) -> int:
    """Bins of a column."""
    return next((bins for most, bins in _SINGLE if d <= most), _WIDE)


def pair_bins(spec: Spec) -> int:
    """Bins of a column in a pair, 0 if there are no pairs."""
    d = spec.dimension
    return next((bins for most, bins in _PAIR if spec.params["pairs"] and 1 < d <= most), 0)


def cells(spec: Spec) -> int:
    """Number of cells, including the constant's."""
    d, bins = spec.dimension, pair_bins(spec)
    return d * column_bins(d) + d * (d - 1) // 2 * bins * bins + 1


def active(spec: Spec) -> int:
    """Number of cells that a row is in."""
    d = spec.dimension
    return d + (d * (d - 1) // 2 if pair_bins(spec) else 0) + 1


class Ga2m(RowLearner):
    """The learner behind ``ga2m``.

    State, for m columns (one for numbers and up to two classes, else one per class):
        W (cells, m)  weights
        G (cells, m)  sums of squared gradients; for numbers (cells, 2): the variances P, and the rows in each cell
        labels (7,)   for numbers: range, rows, mean, variance and noise of the labels, mean weight of the rows
        rows (1,)     rows learned
    """

    layout: ClassVar = Layout(
        weights=Array("cells", "columns", within=NUMBER_MAX, at="W"),
        gradients=Array("cells", "sums", within=NOT_NEGATIVE, at="G"),
        labels=Array(
            7,
            within=SQUARE_MAX,
            places={ROWS: WHOLE, VARIANCE: NOT_NEGATIVE, NOISE: NOT_NEGATIVE, WEIGHT: NOT_NEGATIVE},
            ordered=[(LOW, HIGH)],
        ),
        rows=Array(1, within=WHOLE),
    )
    object_bytes: ClassVar = 500
    deviates: ClassVar = True
    pairwise: ClassVar = True
    """Scores are sums over columns and pairs of columns."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._shape = column_bins(spec.dimension), pair_bins(spec), active(spec)
        self.rate = float(spec.params["learning_rate"])
        self.W, self.G = np.zeros((cells(spec), 1)), np.zeros((cells(spec), 2 if self.regression else 1))
        self.labels, self.rows = np.zeros(7), np.zeros(1)
        self.forget()

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        columns = column_count(classes)
        return {"cells": cells(spec), "columns": columns, "sums": 2 if spec.task == "regression" else columns}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """About twenty per cell that a row is in and per class column."""
        return 20.0 * active(spec) * column_count(classes) + 20.0 * max(classes, 1)

    def add_class(self) -> None:
        """A new class starts at zero."""
        self.classes += 1
        fresh = np.zeros((1, len(self.W)))
        self.W = np.ascontiguousarray(with_class(self.W.T, self.classes, fresh, _FIRST_TWO).T)
        self.G = np.ascontiguousarray(with_class(self.G.T, self.classes, fresh, (1.0, 1.0)).T)

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """See ``RowLearner``. Takes no discounts."""
        del discounts
        if self.regression:
            number_rows(X, y, weights, *self._shape, self.W, self.G, self.labels, out)
        else:
            learn_rows(X, y, weights, *self._shape, self.rate, self.W, self.G, out, value)
        if len(y):
            self.rows += len(y)

    def forget(self) -> None:
        """Make the steps as long as at the start; the weights stay."""
        self.G[:, : self.W.shape[1]] = VARIANCE_FIRST if self.regression else 0.0

    def posterior(self, view: View) -> Header:
        """The curves: for each column and each pair, the edges between its bins and the number of each bin."""
        (B, C, _), d = self._shape, self.spec.dimension
        classes = None if self.regression else self.classes
        W = linear_model(self.W.T, len(self.W), classes, _FIRST_TWO).coefficients  # (K, cells)
        wanted, curves, begin = {*view.wanted.tolist()}, dict[str, Header](), d * B
        for j in view.wanted.tolist():
            curves[view.names[j]] = self._curve(view, [j], B, W[:, j * B : (j + 1) * B])
        for a, b in combinations(range(d), 2) if C else ():
            if {a, b} <= wanted:
                name = unlike(f"{view.names[a]} x {view.names[b]}", {*view.names, *curves})
                curves[name] = self._curve(view, [a, b], C, W[:, begin : begin + C * C].reshape(-1, C, C))
            begin += C * C
        return {"curves": curves, "bias": dict(zip(view.outputs, W[:, -1] + self.labels[MEAN], strict=True))}

    def _curve(self, view: View, columns: list[int], bins: int, values: Floats) -> Header:
        centre, spread = view.affine or (np.zeros(self.spec.dimension), np.ones(self.spec.dimension))
        t = 2.0 * np.arange(1, bins) / bins - 1.0
        z = t * np.sqrt(2.0 / (1.0 - t * t))  # where u_j of kernels.py passes from one bin to the next
        with np.errstate(over="ignore"):
            edges = [np.clip(centre[j] + spread[j] * z, -EDGE_MAX, EDGE_MAX) for j in columns]
        return {"edges": edges if edges[1:] else edges[0], "values": dict(zip(view.outputs, values, strict=True))}

    def info(self) -> Header:
        """Rows learned, and the number of cells."""
        return {"rows": int(self.rows[0]), "cells": len(self.W)}

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        if self.regression and (held["G"][:, 0] > VARIANCE_FIRST).any():
            raise ValueError("gradients: a variance above its initial value")
        if not self.regression and (np.abs(held["W"]) > WEIGHT_MAX).any():
            raise ValueError("weights: larger than those of a classifier can be")
