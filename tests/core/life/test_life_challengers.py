"""The life that meets everything, of models with challengers that come, go and change places with the model."""

from collections import Counter

import pytest

from core.entry import Promote, Refused, Withdraw
from core.learners.catalogue import ALGORITHMS
from core.problems import Conflict
from tests.core.life.life import Life
from tests.core.life.steps import WHOLE_LIFE
from tests.core.life.streams import EPISODES, plain_body

WATCH = {kind: {"batch_size": 8, "delta": 0.5} for kind in ("class_mean", "error_rate")} | EPISODES
OTHERS = {
    "classification": ({"algorithm": "vigod", "promote": "auto"}, {"algorithm": "rls", "on_drift": "reset"}),
    "regression": ({"algorithm": "fesl_s", "promote": "auto"}, {"algorithm": "dfop", "lags": 2, "on_drift": "forget"}),
}


class Contested(Life):
    """A life between whose steps challengers are put beside the model, promoted and taken away."""

    steps = 0

    def take(self, step):
        """The next step, and what becomes of the challengers."""
        super().take(step)
        self.steps += 1
        if self.steps % 6 == 1:
            self.challenge(self.steps // 6 % 2)
        elif self.steps % 6 == 4 or (self.model.phase == "overlap" and self.steps % 3 == 0):
            self.swap()
        elif self.steps % 20 == 0:
            self.withdraw()

    def challenge(self, which):
        """A challenger, unless a change of features is under way."""
        body = {"watch": WATCH, **OTHERS[self.model.config.task][which]}
        try:
            segment, _ = self.model.machine.plan_challenge(f"other {which}", body, 3)
        except Conflict:
            return
        if segment is not None:
            self.model.commit(segment)
            self.model.saw("challenged")

    def swap(self):
        """A challenger becomes the model for some rows, then the former one again."""
        name = next(iter(self.model.machine.challengers), None)
        if name is None or self.model.machine.feedback_schema is None:
            return
        before = self.model.machine.config.canonical
        self.model.commit(Promote(name))
        self.rows(7)
        self.model.commit(Promote("previous"))
        assert before == self.model.machine.config.canonical
        self.model.saw(f"swapped in {self.model.phase}")

    def withdraw(self):
        """All challengers go but the first; of a name that is gone, none."""
        for name in [*self.model.machine.challengers][1:]:
            self.model.commit(Withdraw(name))
            (outcome,) = self.model.commit(Withdraw(name))
            assert isinstance(outcome, Refused)
            self.model.saw("withdrawn")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("algorithm", "task"), [("dfop", "classification"), ("rls", "regression")])
def test_models_with_challengers_live_through_everything(algorithm, task):
    """Nothing raises, and log, saved state and machine agree, whatever becomes of the challengers."""
    counts = Counter()
    life = Contested(plain_body(ALGORITHMS[algorithm], task, "report"), True, counts)
    for step in WHOLE_LIFE:
        life.take(step)
    life.end()
    met = ("challenged", "withdrawn", *(f"swapped in {phase}" for phase in ("steady", "overlap", "ensemble")))
    assert [] == [what for what in met if not counts[what]]
