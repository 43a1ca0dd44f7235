"""Categories that are not declared: learned as none of the declared ones, and counted as a part of the state."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Reset, Rows, Switch
from core.features import parse_features
from core.features.columns import OTHER
from core.model import Model, read, save
from core.model.apply import apply
from core.state import envelope

BODY = {
    "algorithm": "rls",
    "task": "regression",
    "missing": "zero",
    "features": [{"name": "day", "categories": ["mon", "tue"]}, "x", {"name": "plan", "type": "categorical"}],
}
RAW = np.array([[OTHER, 1.0, 3.0], [0.0, OTHER, 0.0], [np.nan, 2.0, 1.0], [OTHER, 0.5, 1.0], [1.0, 0.0, 2.0]])


def model():
    return Model.first(Config.parse(BODY))


def rows(machine, part=slice(None)):
    return Rows(machine.prediction_schema.id, None, np.ascontiguousarray(RAW[part]), np.arange(5.0)[part])


def test_learned_rows_are_counted_and_predictions_are_not():
    """-1 counts where it stands for a category; a number may be -1."""
    machine = model()
    apply(machine, Entry(1, 0, (rows(machine),)))
    read.predict(machine.own, RAW)
    assert {"day": 2} == read.unknown_categories(machine) == read.info(machine)["unknown"]


def test_the_counts_are_saved_and_reset():
    """A saved state has them; the first state has none."""
    machine = model()
    apply(machine, Entry(1, 0, (rows(machine),)))
    loaded, _ = save.from_bytes(save.to_bytes(machine))
    assert {"day": 2} == loaded.unknown
    apply(loaded, Entry(2, 0, (Reset(),)))
    assert {"day": 0} == read.unknown_categories(loaded)


def test_a_switch_keeps_the_counts_of_kept_features():
    """Those of features that are gone are forgotten."""
    machine = model()
    apply(machine, Entry(1, 0, (rows(machine),)))
    for version, step in enumerate((Switch("begin", parse_features(["x", "y"]), "linear"), Switch("complete")), 2):
        apply(machine, Entry(version, 0, (step,)))
    assert {} == machine.unknown


@pytest.mark.parametrize("counts", [None, [], {"day": 0}, {"day": True}, {"day": "2"}])
def test_counts_that_cannot_be_are_refused(counts):
    """They are numbers of rows."""
    arrays, header = envelope.load(save.to_bytes(model()))
    header["state"]["unknown"] = counts
    with pytest.raises(ValueError, match="unknown"):
        save.from_bytes(envelope.dump(arrays, header))
