"""Categories that are not declared: learned as none of the declared ones, and counted as a part of the state."""

import numpy as np
import pytest

from core.entry import Entry, Reset, Switch
from core.features import parse_features
from core.features.columns import OTHER
from core.model import read, save
from core.model.apply import apply
from core.state import envelope
from tests.core.twin import Fed

BODY = {
    "algorithm": "rls",
    "task": "regression",
    "missing": "zero",
    "features": [{"name": "day", "categories": ["mon", "tue"]}, "x", {"name": "plan", "type": "categorical"}],
}
RAW = np.array([[OTHER, 1.0, 3.0], [0.0, OTHER, 0.0], [np.nan, 2.0, 1.0], [OTHER, 0.5, 1.0], [1.0, 0.0, 2.0]])


def learned():
    """A model that has learned the rows."""
    model = Fed(BODY)
    model.learn(RAW, np.arange(5.0))
    return model


def test_learned_rows_are_counted_and_predictions_are_not():
    """-1 counts where it stands for a category; a number may be -1."""
    machine = learned().machine
    read.predict(machine.own, RAW)
    assert {"day": 2} == read.unknown_categories(machine) == read.info(machine)["unknown"]


def test_the_counts_are_saved_and_reset():
    """A saved state has them; the first state has none."""
    loaded, _ = save.from_bytes(save.to_bytes(learned().machine))
    assert {"day": 2} == loaded.unknown
    apply(loaded, Entry(2, 0, (Reset(),)))
    assert {"day": 0} == read.unknown_categories(loaded)


def test_a_switch_keeps_the_counts_of_kept_features():
    """Those of features that are gone are forgotten."""
    model = learned()
    for step in (Switch("begin", parse_features(["x", "y"]), "linear"), Switch("complete")):
        model.commit(step)
    assert {} == model.machine.unknown


@pytest.mark.parametrize("counts", [None, [], {"day": 0}, {"day": True}, {"day": "2"}])
def test_counts_that_cannot_be_are_refused(counts):
    """They are numbers of rows."""
    arrays, header = envelope.load(save.to_bytes(Fed(BODY).machine))
    header["state"]["unknown"] = counts
    with pytest.raises(ValueError, match="unknown"):
        save.from_bytes(envelope.dump(arrays, header))
