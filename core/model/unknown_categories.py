"""How many categories that are not declared the learned rows held, by feature."""

from collections.abc import Mapping

import numpy as np

from core.contract import Floats
from core.features import Space
from core.features.columns import OTHER


class UnknownCategories:
    """The counts, a part of a model's state.

    Attributes:
        counts: by feature; features without any are left out.
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: dict[str, int] = dict(counts or {})

    def absorb(self, space: Space, raw: Floats) -> None:
        """Count those of rows (n, F) of a space."""
        for column in space.exact:
            if met := int(np.count_nonzero(raw[:, column] == OTHER)):
                name = space.names[column]
                self.counts[name] = self.counts.get(name, 0) + met

    def keep(self, space: Space) -> None:
        """Forget the features that are not of a space: as many are counted as a model has."""
        self.counts = {name: count for name, count in self.counts.items() if name in space.names}

    def report(self, space: Space | None) -> dict[str, int]:
        """The count of each feature of a space that has declared categories."""
        names = () if space is None else [space.names[column] for column in space.exact]
        return {name: self.counts.get(name, 0) for name in names}

    @classmethod
    def from_header(cls, header: Mapping[str, int]) -> "UnknownCategories":
        """The counts of a saved state.

        Raises:
            ValueError: no such counts.
        """
        if not isinstance(header, dict) or any(type(count) is not int or count < 1 for count in header.values()):
            raise ValueError("no such counts of unknown categories")
        return cls(header)
