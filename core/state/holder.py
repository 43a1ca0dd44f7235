"""What is saved as the arrays of a layout and some counts: the verbs that all such holders share."""

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from core.contract import Floats, Header
from core.state.layout import Layout, counts

Counts = Mapping[str, int]


class Holder:
    """A holder of arrays and counts, both its attributes.

    Attributes:
        layout: the arrays.
        object_bytes: memory of the objects around them.
    """

    layout: ClassVar[Layout]
    object_bytes: ClassVar[int] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: copies of its arrays, and the counts as header."""
        return self.layout.to_arrays(self), {name: getattr(self, name) for name in self._counts()}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no such state can be; nothing has changed.
        """
        most = self._counts()
        found = dict(zip(most, counts(header, **most), strict=True))
        self.layout.load(self, arrays, lambda held: self._check(held, found), **self._sizes(found))
        for name, count in found.items():
            setattr(self, name, count)

    def _counts(self) -> Counts:
        """The largest value of each count; by default there are none."""
        return {}

    def _sizes(self, found: Counts) -> Counts:
        """The sizes of the layout with these counts; by default all are free."""
        del found
        return {}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        """Refuse arrays, by attribute, that do not go together, with a ValueError; by default all do."""
        del held, found
