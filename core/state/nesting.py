"""States made of states: the arrays and headers of named parts, flattened into one state and back."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from core.contract import Header


def flatten(parts: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Header]:
    """The states of named parts as one: arrays as ``part.name``, headers by part."""
    arrays: dict[str, NDArray[Any]] = {}
    header: Header = {}
    for part, holder in parts.items():
        own, header[part] = holder.to_arrays()
        arrays.update({f"{part}.{name}": array for name, array in own.items()})
    return arrays, header


def unflatten(parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
    """Load named parts from what ``flatten`` gave.

    Raises:
        ValueError: arrays of a part that is not there, or a state that its part does not take.
    """
    if any(name.partition(".")[0] not in parts for name in arrays):
        raise ValueError("the state has parts that this model has not")
    for part, holder in parts.items():
        start = len(part) + 1
        own = {name[start:]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
        holder.load_arrays(own, header[part])


class Nested(ABC):
    """A holder of state that is the state of its parts."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """The parts there are, by their names in a state."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self.parts().values())

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the parts, each under its name."""
        return flatten(self.parts())

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave; after an error the holder is of no use.

        Raises:
            ValueError: not a state of these parts.
        """
        unflatten(self.parts(), arrays, header)
