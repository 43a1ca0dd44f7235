"""Models of every algorithm live through everything clients may do: a fixed life that meets it all, and random ones.

Random lives are the same in every run; LIFE_EXAMPLES in the environment asks for that many new ones per algorithm and
task. Hypothesis shrinks a failing life before it is shown.
"""

import os
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from core.learners.catalogue import ALGORITHMS
from tests.core.life.life import Life
from tests.core.life.steps import STORY, WHOLE_LIFE
from tests.core.life.streams import bodies, plain_body

EXAMPLES = int(os.environ.get("LIFE_EXAMPLES", "0"))
SHORT, STEPS = 1, 40
FAMILIES = {
    "dfop": ("dfop", "gdfop", "rls"),
    "sparse": ("sparse_dfop",),
    "odm": ("odm", "dynamic_odm"),
    "fesl": ("fesl_c", "fesl_s"),
    "vigo": ("vigo", "vigod", "vigow"),
    "auto": ("auto", "ga2m"),
}
"""The algorithms, grouped by what their lives have in common."""
PHASES = ("steady", "overlap", "ensemble")
DENSE = (
    *(f"{what} in {phase}" for phase in PHASES
      for what in ("rows", "drift of the watch", "reset", "label of the space", "configured")),
    *(f"drift: {kind}, {action}" for kind in ("class_mean", "error_rate") for action in ("report", "reset")),
    *(f"{source} in {phase}" for source in ("restore", "import") for phase in ("steady", "ensemble")),
    *(f"restored to {phase}" for phase in ("none", "steady", "ensemble")),
    *(f"label of an old space in {phase}" for phase in ("overlap", "ensemble")),
    *(f"new class in {phase}" for phase in ("none", *PHASES)),
    *(f"begin {kind} in {phase}" for kind in ("linear", "kernel") for phase in ("steady", "ensemble")),
    "complete linear of enough rows, ensemble before", "complete kernel of enough rows, steady before",
    "complete linear of few rows, steady before", "abort to steady", "abort to ensemble", "overlap rows",
    "label of a retired space", "label of an unknown space", "some rows skipped", "all rows skipped",
    "several in one entry", "refused after another", "wild rows",
    *(f"{segment} refused" for segment in ("Rows", "Restore", "Switch", "Overlap", "Configure")),
)  # fmt: skip
"""The events that the lives of every family of dense models must meet."""
SPARSE = (
    *(f"drift: error_rate, {action}" for action in ("report", "reset", "forget")), "Switch refused",
    "label of the space in steady", "restored to steady", "reset in steady", "new class in steady", "some rows skipped",
    "wild rows",
)  # fmt: skip
"""The events for sparse rows, which have no features to change."""


def cases(family):
    """Every task of a family's algorithms: the life that meets everything with each action, and a random one."""
    return [
        (algorithm, task, kind)
        for algorithm in FAMILIES[family]
        for task in ALGORITHMS[algorithm].tasks
        for kind in ("report", "reset", *(["forget"] if ALGORITHMS[algorithm].forgets else []), "random")
    ]


def live(algorithm, task, kind, counts):
    """Run the life of a model: through everything with an action on drift, or at random."""
    entry = ALGORITHMS[algorithm]
    if kind == "random":
        _live_at_random(entry, task, counts)
    else:
        life = Life(plain_body(entry, task, kind), True, counts)
        for step in WHOLE_LIFE:
            life.take(step)
        life.end()
    counts["lives"] += 1


def _live_at_random(entry, task, counts):
    class Model(RuleBasedStateMachine):
        life = None

        @initialize(body=bodies(entry, task), stormy=st.booleans())
        def born(self, body, stormy):
            self.life = Life(body, stormy, counts)

        @rule(step=STORY)
        def then(self, step):
            self.life.take(step)

        def teardown(self):
            if self.life is not None:
                self.life.end()

    limits = settings(
        max_examples=EXAMPLES or SHORT,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        phases=set(Phase) - {Phase.explain},  # explaining traces every line
    )
    if not EXAMPLES:
        limits = settings(limits, database=None)
        seed(f"{entry.id} {task}")(Model)
    run_state_machine_as_test(Model, settings=limits)


COUNTS = defaultdict(Counter)
FORGOTTEN = ("drift: class_mean, forget", "drift: error_rate, forget")
OF_ITS_OWN = ("drift of its own in steady", "drift of its own in ensemble", "drift of recovered columns")
EVENTS = {
    "dfop": (*DENSE, *FORGOTTEN),
    "odm": (*DENSE, *FORGOTTEN),
    "fesl": DENSE,
    "vigo": (*DENSE, *FORGOTTEN, *OF_ITS_OWN),
    "sparse": SPARSE,
}
"""The events that the lives of a family must meet."""
CASES = [(family, *case) for family in FAMILIES for case in cases(family)]


@pytest.mark.slow_but(
    "*-dfop-c*-forget", "*-dynamic*-report", "*-fesl_c-c*-reset", "*-vigod-*-forget",
    "*-auto-c*-report", "sparse-*-r*-forget", "*-rls-c*-random", "*-vigo-*-random",
)  # fmt: skip
@pytest.mark.timeout(900)  # a failing life is shrunk before it is shown
@pytest.mark.parametrize(("family", "algorithm", "task", "kind"), CASES)
def test_it_lives_through_everything(family, algorithm, task, kind):
    """Whatever clients do: nothing raises, and log, saved state and machine agree."""
    live(algorithm, task, kind, COUNTS[family])


@pytest.mark.slow
@pytest.mark.parametrize("family", EVENTS)
def test_the_lives_were_eventful(family):
    """Every kind of event was met: drifts and their actions, changes of features, late labels, refusals."""
    if COUNTS[family]["lives"] < len(cases(family)):
        pytest.skip("not all lives of this family have run")
    assert [] == [what for what in EVENTS[family] if not COUNTS[family][what]]


def test_every_algorithm_of_the_catalogue_lives():
    """Each belongs to exactly one family."""
    assert sorted(ALGORITHMS) == sorted(algorithm for family in FAMILIES.values() for algorithm in family)
