"""The catalogue entry ``observer``, and its learner, which learns nothing and predicts nothing.

Such a model judges the predictions of a model outside Onepass, which are sent with the labelled rows, and tests rows
and errors for drift.
"""

from typing import ClassVar

from core.contract import Floats, Header, Ints
from core.learners.algorithm import Algorithm
from core.learners.learner import RowLearner
from core.state.layout import Layout

OBSERVER = "observer"  # its id


class Observer(RowLearner):
    """The learner behind ``observer``; its only state is the number of classes."""

    layout: ClassVar = Layout()
    object_bytes: ClassVar = 300

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """Predict no class, with equal probabilities; for numbers 0. Learn nothing."""
        del X, y, discounts, weights
        value.fill(-1)
        out.fill(0.0 if self.regression else 1.0 / max(self.classes, 1))

    def info(self) -> Header:
        """Nothing."""
        return {}


OBSERVING = Algorithm(
    id=OBSERVER,
    tasks=("classification", "regression"),
    summary="Learns nothing: judges what a model outside Onepass predicts, sent as served, and tests for drift.",
    paper="none",
    equation="",
    use_when="A model that already runs is to be monitored: send its predictions and the labels.",
    params=(),
    learner="core.learners.observer:Observer",
    observes=True,
)
"""Its entry in the catalogue."""
