"""Every way to break the arrays of a declared state."""

import math
from collections import Counter

import numpy as np

from core.state.layout import Shares


def hostile(layout, arrays, **sizes):
    """Each way to break one array of a state that loads: what it is called, and all arrays with it.

    ``sizes``: those that the holder passes to ``read``; ranges of empty arrays cannot be broken.
    """
    yield "nothing", {}
    yield "superfluous", {**arrays, "other": np.zeros(1)}
    shapes = {name: declared.stored(sizes) for name, declared in layout.arrays.items()}
    uses = Counter(side for shape in shapes.values() for side in set(shape))
    for name, declared in layout.arrays.items():
        yield f"{name} missing", {other: array for other, array in arrays.items() if other != name}
        fixed = [axis for axis, side in enumerate(shapes[name]) if isinstance(side, int) or uses[side] > 1]
        for what, changed in (*forms(arrays[name], fixed), *values(declared, arrays[name])):
            yield f"{name} {what}", {**arrays, name: changed}


def forms(array, axes):
    """Other types and shapes; one longer along each of the given axes."""
    yield "of single precision", array.astype(np.float32)
    yield "of integers", np.zeros(array.shape, dtype=np.int64)
    yield "with one more axis", array[None]
    for axis in axes:
        longer = np.insert(array, array.shape[axis], 0.0, axis=axis)
        longer[(slice(None),) * axis + (-1,)] = np.take(array, 0, axis=axis) if array.size else 0.0
        yield f"longer along axis {axis}", longer


def values(declared, array):
    """Numbers just outside each declared range, pairs out of order, shares with another sum."""
    if not array.size:
        return
    for at, held in declared.ranges(array):
        bad = [math.nextafter(held.low, -math.inf), math.nextafter(held.high, math.inf), math.inf, -math.inf]
        bad += [] if held.undefined else [math.nan]
        bad += [max(held.low, 0.0) + 0.5] if held.whole else []
        for value in bad:
            changed = array.copy()
            changed[at] = value
            yield f"with {value!r} at {at}", changed
    for low, high in declared.pairs():
        changed = array.copy()
        changed[low] = np.nextafter(array[high], np.inf)
        yield f"with {low} above {high}", changed
    if isinstance(declared, Shares):
        yield "of another sum", array * 1.1
