"""Columns of another feature space from rows of this one: kept columns are copied, vanished ones recovered.

    sources (n, D)  ->  targets (n, d)      kept: by name; vanished: linear_mapping.py or kernel_mapping.py, of all
    sources

Columns are those of the encoded rows; a kept feature is declared in both spaces alike, so its columns have one name.
A column that a mapping once recovered and that comes back as a feature is copied from then on.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Weights

if TYPE_CHECKING:
    from core.switching.kernel_mapping import KernelMapping
    from core.switching.linear_mapping import LinearMapping

Kind = Literal["linear", "kernel"]
ROWS_MIN = 2
"""Rows from which there is a mapping."""
STORED_MAX = 500
"""Rows that a kernel mapping keeps at most."""
RIDGE = 0.03
"""What a mapping is solved with where nothing speaks against it; see ``ridge.py``."""
CHOICE_ROWS_MAX = 128
"""Rows up to which a mapping chooses its ridge; a linear one keeps so many at least."""
ROWS_ENOUGH = 5
"""Overlap rows, the paper's fewest, below which a switch warns and relies on the new model."""
ERROR_POOR = 0.8
"""Held-out error of a mapping from which on a switch warns as well."""


class FeatureRecovery:
    """A mapping between two lists of columns, a state machine over rows that have both.

    Args:
        sources, targets: names of the D columns of rows, and of the d columns to recover.
        kind, paper: of the mapping for columns that are not among the sources, and whether it has the paper's form.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str], kind: Kind, paper: bool) -> None:
        places = {name: at for at, name in enumerate(sources)}
        self.kind, self.paper, self.targets = kind, paper, tuple(targets)
        self.sources = tuple(sources)
        self.kept = np.array([at for at, name in enumerate(targets) if name in places], dtype=np.int64)
        self.source = np.array([places[name] for name in targets if name in places], dtype=np.int64)
        self.vanished = np.array([at for at, name in enumerate(targets) if name not in places], dtype=np.int64)
        self.mapping = _mapping(kind, len(sources), len(self.vanished), paper)

    def learn(self, X: Floats, Y: Floats) -> None:
        """Learn n rows in order: sources X (n, D) with their targets Y (n, d)."""
        self.mapping.learn(X, np.ascontiguousarray(Y[:, self.vanished]))

    def recover(self, X: Floats) -> Floats:
        """Targets (n, d) of rows X (n, D); changes nothing."""
        Y = np.empty((len(X), len(self.targets)))
        Y[:, self.kept] = X[:, self.source]
        Y[:, self.vanished] = self.mapping.recover(X)
        return Y

    def carry(self, weights: Weights) -> Weights | None:
        """A linear model of the targets as one of the sources; None where the mapping is not linear."""
        from core.switching.linear_mapping import LinearMapping  # noqa: PLC0415  its kernels are loaded later, see core.model

        if not isinstance(self.mapping, LinearMapping):
            return None
        w = weights.coefficients
        carried = self.mapping.carry(Weights(np.ascontiguousarray(w[:, self.vanished]), weights.bias))
        coefficients = carried.coefficients.copy()
        coefficients[:, self.source] += w[:, self.kept]  # no two kept columns have one source
        return Weights(np.clip(coefficients, -1e300, 1e300), carried.bias)

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self.mapping.count

    @property
    def ready(self) -> bool:
        """Whether there is a mapping, or nothing for it to recover."""
        return self.rows >= ROWS_MIN or not len(self.vanished)

    @property
    def error(self) -> float | None:
        """Relative squared error of the vanished columns on rows not learned yet; see ``linear_mapping.py``."""
        return self.mapping.error

    @property
    def problem(self) -> str | None:
        """Why recovered columns are not to be relied on, or None."""
        if not len(self.vanished):
            return None
        if self.rows < ROWS_ENOUGH:
            return f"{self.rows} overlap rows are too few to recover the old features from ({ROWS_ENOUGH} or more)"
        if self.error is not None and self.error >= ERROR_POOR:
            error = f"mapping_error {self.error:.2g}; 1 is a mean"
            return f"the old features are recovered poorly from the new ones ({error})"
        return None

    @property
    def exact(self) -> bool:
        """Whether the vanished columns were found to be an image of the sources; see ``ridge.py``."""
        return bool(self.mapping.ridge[0] < RIDGE)

    def freeze(self) -> None:
        """Nothing is learned any more."""
        self.mapping.freeze()

    def only(self, targets: Sequence[str]) -> "FeatureRecovery":
        """Of a frozen one the part that gives some of its targets."""
        if tuple(targets) == self.targets:
            return self
        found = FeatureRecovery(self.sources, targets, self.kind, self.paper)
        recovered = {self.targets[at]: place for place, at in enumerate(self.vanished)}
        at = [recovered[found.targets[place]] for place in found.vanished]
        found.mapping = self.mapping.only(np.array(at, dtype=np.int64))
        return found

    def describe(self) -> Header:
        """Its arguments without the sources, JSON-able."""
        return {"kind": self.kind, "paper": self.paper, "targets": list(self.targets)}

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.mapping.nbytes + 8 * (2 * len(self.kept) + len(self.vanished))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The mapping's state."""
        return self.mapping.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this mapping can be; nothing has changed.
        """
        self.mapping.load_arrays(arrays, header)


def _mapping(kind: Kind, sources: int, targets: int, paper: bool) -> "LinearMapping | KernelMapping":
    from core.switching.kernel_mapping import KernelMapping  # noqa: PLC0415  its kernels are loaded later, see core.model
    from core.switching.linear_mapping import LinearMapping  # noqa: PLC0415  likewise

    return (LinearMapping if kind == "linear" else KernelMapping)(sources, targets, paper)


def linear_rows_max(sources: int) -> int:
    """Rows that a linear mapping from so many columns keeps at most, before sums of their products replace them."""
    return max(sources, CHOICE_ROWS_MAX)
