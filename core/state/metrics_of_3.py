"""The metrics of a state of format 3 as format 4 has them.

What both formats hold goes on. What format 3 did not keep of each row begins with the rows of its window: the tallies
of classes and the bias of a regression; what the window did not keep either (Brier score, reliability, scores of the
second class) begins with the next row. Rows without a prediction counted as misses then, and are unscored now.

Layouts stand here as they were when the formats were fixed; the code of today may have others.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints

WINDOW, FADING = 1000, 0.999
PLACES, SCORE_BINS, SUMS = 50, 384, 39
PER_OCTAVE, LOWEST, OCTAVES = 16, -64, 128
ERROR_MAX = 1e150


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state with its metrics in the new form."""
    own = {name.removeprefix("metrics."): array for name, array in arrays.items() if name.startswith("metrics.")}
    new = _of_classes(own) if "counts" in own else _of_numbers(own)
    others = {name: array for name, array in arrays.items() if not name.startswith("metrics.")}
    marks = {**header["state"]["metrics"], "marks_thinned": 0}
    state = {**header["state"], "metrics": marks}
    return {**others, **{f"metrics.{name}": array for name, array in new.items()}}, {**header, "state": state}


def _ring(own: dict[str, NDArray[Any]]) -> tuple[Floats, Floats]:
    """The rows of the window, and the fading weight of each."""
    rows = int(own["scalars"][0])
    ring = own["ring"][: min(rows, WINDOW)]
    ages: Floats = ((rows - 1 - np.arange(len(ring))) % WINDOW).astype(np.float64)
    return ring, FADING**ages


def _of_classes(own: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Scalars (19,), counts (6, K) and ring (n, 4) of format 3."""
    s, counts = own["scalars"], own["counts"]
    ring, weights = _ring(own)
    K = counts.shape[1]
    if not ((ring[:, :2] >= [-1.0, 0.0]) & (ring[:, :2] < K)).all():
        raise ValueError("ring: a class that is not there")
    places = np.minimum(np.arange(K), PLACES)
    size = min(K, PLACES + 1)
    classes, confusion = np.zeros((8, K)), np.zeros((2, size, size))
    classes[0], classes[1] = counts[0], places
    said = ring[:, 0] >= 0
    guesses, labels = ring[said, 0].astype(np.int64), ring[said, 1].astype(np.int64)
    for at, weight in enumerate((np.ones(len(labels)), weights[said])):
        classes[2 + 3 * at : 5 + 3 * at] = _tallies(labels, guesses, weight, K)
        np.add.at(confusion[at], (places[labels], places[guesses]), weight)
    sums = np.zeros((2, SUMS))
    sums[0, :7] = _sums(s[0], counts[1].sum(), s[[1, 2, 3]], s[4], s[5] * s[4])
    sums[1, :7] = _sums(s[11], counts[5].sum(), s[[12, 13, 14]], s[15], s[16])
    wider = np.zeros((len(own["ring"]), 7))
    wider[: len(ring), [0, 1, 2, 3]] = ring[:, [0, 1, 3, 2]]
    wider[: len(ring), 4:] = np.nan
    return {
        "scalars": np.array([s[0], s[6], s[7], 1.0, s[17], s[18]]),
        "sums": sums,
        "classes": classes,
        "confusion": confusion,
        "scores": np.zeros((2, 2, SCORE_BINS if 0 < K <= 2 else 0)),
        "ring": wider,
        "history": own["history"],
    }


def _tallies(labels: Ints, guesses: Ints, weights: Floats, K: int) -> Floats:
    """Labels, guesses and right guesses of each class, (3, K)."""
    right = labels == guesses
    given = (labels, weights), (guesses, weights), (labels[right], weights[right])
    return np.array([np.bincount(some, weight, minlength=K) for some, weight in given])


def _sums(rows: float, said: float, right: Floats, loss_rows: float, loss: float) -> list[float]:
    """Rows scored and not; right ones of the model, of no_change and of majority; rows with a loss, and its sum."""
    scored = min(said, rows)
    return [scored, rows - scored, *np.minimum(right, scored), min(loss_rows, scored), loss]


def _of_numbers(own: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Scalars (18,) and ring (n, 3) of format 3."""
    s = own["scalars"]
    ring, weights = _ring(own)
    error = ring[:, 0]
    if not np.isfinite(error).all():
        raise ValueError("ring: an error that is not finite")
    bias = error.mean() if len(ring) else 0.0
    errors, octave = _bins(error, weights)
    more = [max(s[0] - 1.0, 0.0), len(ring), bias, weights.sum(), weights @ error, 1.0, octave]
    return {
        "scalars": np.array([*s[:16], *more, *s[16:]]),
        "errors": errors,
        "ring": own["ring"],
        "history": own["history"],
    }


def _bins(error: Floats, weights: Floats) -> tuple[Floats, int]:
    """Counts (2, 1 + 16 k) of the errors by size, overall and fading, and the first octave."""
    mantissa, exponent = np.frexp(np.abs(error))
    octave = np.minimum(exponent - 1 - LOWEST, OCTAVES - 1)
    part = np.where(exponent - 1 - LOWEST < OCTAVES, ((2.0 * mantissa - 1.0) * PER_OCTAVE).astype(int), PER_OCTAVE - 1)
    some = (mantissa > 0.0) & (octave >= 0)
    first = int(octave[some].min(initial=OCTAVES - 1)) if some.any() else 0
    octaves = int(octave[some].max()) - first + 1 if some.any() else 0
    place = np.where(some, 1 + (octave - first) * PER_OCTAVE + part, 0)
    size = 1 + octaves * PER_OCTAVE
    counted = [np.bincount(place, weight, minlength=size) for weight in (np.ones(len(error)), weights)]
    return np.array(counted, dtype=np.float64), first  # of no errors at all NumPy counts in integers
