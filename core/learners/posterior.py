"""What a learner has learned, by column name, for people to read: ``GET /models/{name}/posterior``.

Every learner has ``posterior(view)``; it returns a document whose numbers may be arrays, and changes nothing. Numbers
are in the learner's own terms, with ``scaling`` those of the scaled columns; only edges of bins are in columns' units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from core.contract import Floats, Header, Ints, Weights, unlike

LANCZOS_COLUMNS_MIN, NORM_ERROR = 64, 1e-6


class View(NamedTuple):
    """What to show of a learner of d columns."""

    names: tuple[str, ...]  # of the d columns
    wanted: Ints  # positions of the requested ones
    outputs: tuple[str, ...]  # one per class seen, or "value"
    diagonal: bool  # whether only the diagonals of matrices are shown
    affine: tuple[Floats, Floats] | None = None  # centre and spread (d,) of the columns; None: they are not scaled

    @property
    def chosen(self) -> list[str]:
        """The names of the requested columns."""
        return [self.names[at] for at in self.wanted]

    def first(self, d: int) -> "View":
        """The view of a learner of the first d columns."""
        return self._replace(names=self.names[:d], wanted=self.wanted[self.wanted < d])

    def widened(self, further: Sequence[str]) -> "View":
        """The view of a learner with further columns after these: shows them only if all of these are requested."""
        whole = len(self.wanted) == len(self.names)
        more = np.arange(len(self.names), len(self.names) + len(further)) if whole else self.wanted[:0]
        names = dict.fromkeys(self.names)
        for name in further:
            names[unlike(name, names)] = None
        return self._replace(names=tuple(names), wanted=np.concatenate([self.wanted, more]), affine=None)

    def by_name(self, values: Floats) -> Header:
        """Values (d,) of the requested columns, by name."""
        return {self.names[at]: values[at] for at in self.wanted.tolist()}

    def matrix(self, values: Floats, at: Ints | None = None) -> Floats:
        """Rows and columns ``at`` (default: the requested ones) of a symmetric matrix (d, d), or its diagonal alone."""
        at = self.wanted if at is None else at
        return values.diagonal()[at] if self.diagonal else values[np.ix_(at, at)]

    def linear(self, weights: Weights) -> Header:
        """A linear model: ``weights`` of each output by column, and ``bias``."""
        rows = zip(self.outputs, weights.coefficients, strict=True)
        return {
            "weights": {output: self.by_name(row) for output, row in rows},
            "bias": dict(zip(self.outputs, weights.bias, strict=True)),
        }


def random_names(count: int) -> list[str]:
    """Names of random features."""
    return [f"random feature {number}" for number in range(1, count + 1)]


def spectral_norm(matrix: Floats) -> float:
    """The largest eigenvalue of a symmetric positive semidefinite matrix (d, d)."""
    size = float(np.abs(matrix).max(initial=0.0))
    if size == 0.0 or len(matrix) < LANCZOS_COLUMNS_MIN:
        return size and _rounded(size * float(np.linalg.norm(matrix / size, 2)))
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh  # noqa: PLC0415  large, and only needed for wide models

    try:
        (found,) = eigsh(matrix / size, k=1, v0=np.ones(len(matrix)), tol=NORM_ERROR, return_eigenvectors=False)
    except ArpackNoConvergence:  # the largest eigenvalues are almost equal
        found = np.linalg.eigvalsh(matrix / size)[-1]
    return _rounded(size * float(found))


def _rounded(norm: float) -> float:
    """Round to twelve digits: later ones depend on where the matrix lies in memory, and replicas have to agree."""
    return float(f"{norm:.12g}")


def count_numbers(document: object) -> int:
    """How many numbers a document has."""
    if isinstance(document, np.ndarray):
        return document.size
    if isinstance(document, dict):
        return sum(map(count_numbers, document.values()))
    if isinstance(document, list):
        return sum(map(count_numbers, document))
    return int(isinstance(document, float | int))
