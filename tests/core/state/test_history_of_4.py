"""States of format 4: the history of a classifier's metrics goes on, with a baseline that its old points lack."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.machine import Machine
from core.state.arrays import unpack
from core.state.history_of_4 import upgraded
from tests.core.state.samples import path, streams

STREAMS = dict(streams())


@pytest.mark.parametrize("name", ["odm", "dfop auto regression"])
def test_the_points_of_a_state_stay(name):
    """They tell what they told, and new ones tell all."""
    stream = STREAMS[name]
    fresh = stream.machine.metrics.report()["history"]
    machine, _ = Machine.from_bytes(path(name, 4).read_bytes())
    kept = machine.metrics.report()["history"]
    assert [point["row"] for point in fresh] == [point["row"] for point in kept]
    for now, before in zip(fresh, kept, strict=True):
        assert now.keys() == before.keys()
        known = now.keys() - {"majority", "paired", "paired_overall"}
        if name != "odm":
            assert {key: now[key] for key in known} == pytest.approx({key: before[key] for key in known})
        assert before.get("majority") is None
    at, before = stream.at, stream.machine
    try:
        stream.machine = machine
        stream.learn(30)
    finally:
        stream.at, stream.machine = at, before
    last = machine.metrics.report()["history"][-1]
    assert machine.rows == last["row"] + machine.rows % 10
    assert None not in [last[key] for key in last if key != "kappa"]


def test_challengers_have_a_history_too():
    """Of all metrics in a state; of no other array, and of nothing that was given."""
    arrays, header = unpack(path("odm", 4).read_bytes())
    own = {f"challengers.0.{name}": array for name, array in arrays.items() if name.startswith("metrics.")}
    new, same = upgraded({**arrays, **own}, header)
    assert same is header
    points = int(arrays["metrics.scalars"][-1])
    for name in ("metrics.history", "challengers.0.metrics.history"):
        assert_array_equal(arrays["metrics.history"], new[name][:, :5])
        assert np.isnan(new[name][:points, 5]).all()
        assert not new[name][points:, 5].any()
        assert (len(arrays["metrics.history"]), 5) == ({**arrays, **own})[name].shape
    assert {name for name in new if new[name] is not {**arrays, **own}[name]} == {
        "metrics.history", "challengers.0.metrics.history",
    }  # fmt: skip
