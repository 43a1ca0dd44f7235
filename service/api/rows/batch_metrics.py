"""The metrics of the rows of one request."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.contract import Floats, Header, Ints
from core.metrics import classification_batch, regression_batch

OutsidePredictions = Sequence[Any] | Floats | None
"""What a model outside Onepass predicted for n rows, None or NaN for no prediction; None: it predicted none of them."""


def metrics_of(predicted: Sequence[Any], truth: Any, p_true: Sequence[float] | Floats) -> Header:
    """The metrics of n rows: of labels (None for no prediction), or of numbers if ``truth`` is an array.

    ``p_true`` is the probability of each true label, NaN if unknown; it is ignored for numbers.
    """
    if isinstance(truth, np.ndarray):
        return regression_batch(np.array(predicted, dtype=np.float64), truth)
    said, true = _codes(predicted, truth)
    return classification_batch(said, true, np.asarray(p_true, np.float64))


def metrics_of_outside(outside: Sequence[Any] | Floats, truth: Any) -> Header:
    """The metrics of a model outside, which predicts numbers, or labels without probabilities, on the rows that it
    predicted.
    """
    if isinstance(truth, np.ndarray):
        predicted = np.asarray(outside, np.float64)
        known = ~np.isnan(predicted)
        return regression_batch(predicted[known], truth[known])
    return metrics_of([*outside], truth, np.full(len(truth), np.nan))


def _codes(predicted: Sequence[Any], truth: Sequence[Any]) -> tuple[Ints, Ints]:
    """Codes of n predictions and n labels, numbered in the order of first appearance; -1 for no prediction."""
    nothing: Any = None
    if len({*map(type, truth), *map(type, predicted)} - {type(None)}) > 1:  # several types: 0 is not False
        predicted, truth = ([*zip(map(type, values), values, strict=True)] for values in (predicted, truth))
        nothing = type(None), None
    first = dict.fromkeys([nothing, *truth, *predicted])
    codes = dict(zip(first, range(-1, len(first)), strict=False))
    said, true = (np.fromiter(map(codes.__getitem__, values), np.int64, len(values)) for values in (predicted, truth))
    return said, true
