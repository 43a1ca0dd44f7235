"""Mappings of format 3 know the ridge they were solved with, and go on with it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.machine import Machine
from core.state import mappings_of_3
from core.switching.kernel_mapping import KernelMapping
from core.switching.linear_mapping import LinearMapping
from tests.core.state.samples import path


@pytest.mark.parametrize("kind", [LinearMapping, KernelMapping])
@pytest.mark.parametrize("place", ["pipeline.recovery", "pipeline.front", "pipeline.old.front"])
def test_a_mapping_goes_on_with_the_ridge_it_had(kind, place):
    """It loads, recovers as it did, and learns on."""
    X2, X1 = np.random.default_rng(0).normal(size=(2, 40, 5))
    mapping, loaded = kind(5, 5), kind(5, 5)
    mapping.learn(X2[:20], X1[:20])
    arrays, header = mapping.to_arrays()
    assert 0.03 == arrays.pop("ridge")[0]
    old = {f"{place}.{name}": array for name, array in arrays.items()} | {"metrics.counts": np.zeros(3)}
    new, _ = mappings_of_3.upgraded(old, {})
    assert {*old, f"{place}.ridge"} == {*new}
    own = {name.removeprefix(f"{place}."): array for name, array in new.items() if name.startswith(place)}
    loaded.load_arrays(own, header)
    for one in (mapping, loaded):
        one.learn(X2[20:], X1[20:])
    assert_array_equal(mapping.recover(X2), loaded.recover(X2))


def test_sums_of_few_rows_keep_their_ridge():
    """Format 3 kept no rows beyond as many as columns: nothing is left to choose from, though the image is exact."""
    machine, _ = Machine.from_bytes(path("rls overlap linear", 3).read_bytes())
    mapping = machine.pipeline.recovery.mapping
    assert mapping.stored is None
    X2 = np.random.default_rng(0).normal(size=(300, mapping.sources))
    mapping.learn(X2, np.repeat(X2.sum(axis=1, keepdims=True), mapping.targets, axis=1))
    assert mappings_of_3.RIDGE == mapping.ridge[0]
