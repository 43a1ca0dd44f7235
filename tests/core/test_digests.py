"""The digests that compare changes of the code: they cover the catalogue, repeat, and depend on values alone."""

import math
import struct

import numpy as np
import pytest

from tests.core.life.digested import STREAMS, Stream, canonical


@pytest.mark.parametrize("name", ["odm classification", "rls regression"])
def test_a_digest_repeats_and_shows_a_change(name):
    """Rows, events and three digests; another drift test finds other events but leaves the answers unchanged."""
    stream = STREAMS[name]
    told = stream.live().split()
    assert told == stream.live().split()
    other = Stream({**stream.body, "watch": {"error_rate": {"batch_size": 80}}}).live().split()
    assert (told[0], told[2]) == (other[0], other[2])
    assert told[4] != other[4]


def test_only_values_count_and_not_their_representation():
    """Keys in any order, arrays or lists, any NaN; but 1 is not 1.0, nor 0.0 the same as -0.0."""
    other_nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    assert canonical({"a": [1.5, math.nan], "b": None}) == canonical({"b": None, "a": np.array([1.5, other_nan])})
    different = [1, 1.0, True, "1", None, 0.0, -0.0, [1], [[1]], [1, 1], "1,1", math.nextafter(1, 2)]
    assert len(different) == len({canonical(value) for value in different})
    with pytest.raises(TypeError):
        canonical(object())
