"""Whatever a model learns, its state loads: extreme rows, labels, weights, discounts and costs, all together."""

import numpy as np
import pytest

from core.config import Config
from core.contract import WEIGHT_MAX, WEIGHT_MIN
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.learners.odm.steps import LOSS_MAX
from core.model import Model, plans, read, save
from core.model.apply import apply
from core.state.layout import LARGEST, ROWS_MAX, Layout
from tests.core.model.test_posterior import arrays

CASES = [(algorithm, task) for algorithm, entry in ALGORITHMS.items() for task in entry.tasks]
ENDS = (1, 2, 10, 100, 1000)
"""Rows after which the state is saved and loaded."""
N, NAMES = ENDS[-1], ("a", "b", "c", "d")
RARE = {"A": 1e-300, "B": 1e300}
_rng = np.random.default_rng(5)
_X = _rng.normal(size=(N, len(NAMES)))
_SCORE = _X @ [1.0, -1.0, 0.5, 0.0]
_TURNS = np.where(np.arange(N) % 2, 1.0, -1.0)
_SOME = _rng.random((N, len(NAMES))) < 0.1
_HALF = _rng.random(N) < 0.5
_LATE = np.arange(N) >= N - 10
STREAMS = {
    "noise": (_X, _rng.normal(size=N)),
    "wild": (np.where(_SOME, 1e300 * np.sign(_X), _X), np.where(_SOME[:, 0], 1e300 * _TURNS, _SCORE)),
    "wild at last": (np.where(_LATE[:, None], LARGEST * np.sign(_X), _X), np.where(_LATE, LARGEST * _TURNS, _SCORE)),
    "largest": (LARGEST * np.sign(_X), LARGEST * _TURNS),
    "at the root": (1e150 * np.where(_X > 0, 1.0, -1.0), 1e150 * _TURNS),
    "least": (np.full(_X.shape, 5e-324), 5e-324 * _TURNS),
    "constant": (np.ones(_X.shape), np.ones(N)),
    "opposed": (np.full(_X.shape, 1e8), 1e300 * _TURNS),
    "growing": (np.sign(_SCORE)[:, None] * np.ones(_X.shape), 1.5 ** np.arange(N) * np.sign(_SCORE)),
    "turning": (np.ones(_X.shape), np.where(np.arange(N) < N // 2, 1e3, -1e3)),
    "apart": (100.0 * np.sign(_SCORE)[:, None] * np.ones(_X.shape), np.sign(_SCORE)),
    "gaps": (np.where(_SOME, np.nan, LARGEST * np.sign(_X)), 1e300 * _TURNS),
}
"""Rows (N, 4) and numbers (N,); the signs or thirds of the numbers are the classes."""
WEIGHTS = {
    "none": None,
    "heavy": np.full(N, WEIGHT_MAX),
    "mixed": np.where(_HALF, WEIGHT_MAX, WEIGHT_MIN),
    "light, then heavy": np.where(_LATE, WEIGHT_MAX, WEIGHT_MIN),
}
DISCOUNTS = {"none": None, "heavy": np.full(N, 5e-324), "mixed": np.where(_HALF, 1.0, 1e-3), "light, then heavy": None}
OTHERS = {"classification": ("dynamic_odm", "dfop"), "regression": ("auto", "fesl_s")}


def model(algorithm, task, how):
    """A model with a challenger, and with lags, costs and gaps if allowed."""
    entry = ALGORITHMS[algorithm]
    body = {"algorithm": algorithm, "task": task}
    if not entry.sparse:
        body |= {"features": [*NAMES], "missing": "mean", "lags": 2 if how == "mixed" else 0}
    if task == "classification":
        body |= {"class_costs": RARE} if how == "heavy" else {}
    machine = Model.first(Config.parse(body))
    if not entry.sparse:
        segment, _ = plans.plan_challenge(
            machine, "other", {"algorithm": OTHERS[task][algorithm == OTHERS[task][0]]}, 3
        )
        apply(machine, Entry(1, 0, (segment,)))
    return machine


def rows(machine, stream, how, start, stop):
    """Some rows of a stream as a segment."""
    X, numbers = STREAMS[stream]
    config, part = machine.config, slice(start, stop)
    schema = machine.feedback_schema
    if config.algorithm.sparse:
        X = schema.lists([[*NAMES]] * (stop - start), np.nan_to_num(X[part]).tolist())
    else:
        X = np.ascontiguousarray(X[part])
    thirds = np.digitize(numbers[part], [-0.5, 0.5]) if stream == "noise" else (numbers[part] > 0).astype(int)
    y = numbers[part].copy() if config.task == "regression" else [["A", "B", "C"][at] for at in thirds]
    discounts = DISCOUNTS[how] if config.algorithm.row_discounts else None
    weights = WEIGHTS[how] if config.algorithm.row_weights else None
    given = [None if values is None else values[part].copy() for values in (discounts, weights)]
    return Rows(schema.id, None, X, y, given[0], weights=given[1])


def live(algorithm, task, stream, how):
    """Learn a stream, saving and loading on the way; return the final model."""
    machine = model(algorithm, task, how)
    for at, (start, stop) in enumerate(zip([0, *ENDS[:-1]], ENDS, strict=True)):
        apply(machine, Entry(at + 2, 1000 * at, (rows(machine, stream, how, start, stop),)))
        saved = save.to_bytes(machine)
        loaded, _ = save.from_bytes(saved)
        assert saved == save.to_bytes(loaded)
        assert all(np.isfinite(own).all() for own in arrays(read.posterior(machine)))
    return machine


@pytest.fixture(scope="module")
def reached():
    """The bounds that loaded states reached: name of the array, place, bound."""
    found, read = set(), Layout.read

    def watch(self, arrays, **sizes):
        for name, declared in self.arrays.items():
            for at, held in declared.ranges(arrays[name]) if arrays[name].size else ():
                for bound in (held.low, held.high):
                    if abs(bound) not in {0.0, LARGEST, ROWS_MAX} and (arrays[name][at] == bound).any():
                        found.add((name, str(at), bound))
        return read(self, arrays, **sizes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "read", watch)
        yield found


@pytest.mark.slow_but("auto-c*", "dfop-r*", "dynamic_odm*", "fesl_c-c*", "vigod*")
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_every_learned_state_loads(algorithm, task, reached):
    """After 1, 2, 10, 100 and 1000 rows of every stream, with weights, discounts or neither: the same bytes."""
    for at, stream in enumerate(STREAMS):
        live(algorithm, task, stream, [*WEIGHTS][at % len(WEIGHTS)])


def test_clipped_values_reached_their_bounds(reached):
    """Slopes and offsets of both calibrations, shifts of intervals, errors, temperatures of experts."""
    if len(reached) < 2:
        pytest.skip("the tests of some models did not run")
    slopes = {("calibration", "(Ellipsis, 0)", bound) for bound in (0.05, 25.0, 0.02, 20.0)}
    offsets = {("calibration", f"(Ellipsis, {3 + knot})", bound) for knot in range(17) for bound in (-8.0, 8.0)}
    intervals = {("levels", "(Ellipsis, 0)", bound) for bound in (-0.5, 0.5)} | {("alphas", "(Ellipsis,)", 1.0)}
    errors = {("ring", f"(Ellipsis, {at})", bound) for at in (0, 1) for bound in (-1e150, 1e150)}
    experts = {("table", "(5,)", 0.02), ("table", "(6,)", 1000.0)}
    assert set() == (slopes | offsets | intervals | errors | experts) - reached


@pytest.mark.parametrize("algorithm", ["odm", "dynamic_odm"])
def test_the_losses_of_heavy_rows_reach_their_bound(algorithm):
    """Rows that no candidate gets right, with the largest weight: each costs the maximum of a row."""
    machine = Model.first(Config.parse({"algorithm": algorithm, "task": "classification", "features": [*NAMES]}))
    heavy = np.full(N, WEIGHT_MAX)
    segment = Rows(machine.feedback_schema.id, None, np.ones((N, 4)), ["A", "B"] * (N // 2), None, weights=heavy)
    apply(machine, Entry(1, 0, (segment,)))
    losses = machine.pipeline.own.learner.losses
    assert LOSS_MAX * N == losses.max()
    assert save.to_bytes(machine) == save.to_bytes(save.from_bytes(save.to_bytes(machine))[0])
