"""States made of states: the arrays and headers of named parts, flattened into one state and back."""

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
