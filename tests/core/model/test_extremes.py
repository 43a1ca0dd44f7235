"""Whatever a model learns, its state loads: extreme rows, labels, weights and costs; states with nonsense do not."""

from functools import reduce

import numpy as np
import pytest

from core.config import Config
from core.contract import WEIGHT_MAX, WEIGHT_MIN
from core.entry import Entry, Rows
from core.features import Feature, Schema
from core.learners.catalogue import ALGORITHMS
from core.model import Model, plans, read, save
from core.model.apply import apply
from core.state import envelope
from core.state.layout import LARGEST, ROWS_MAX, Layout
from tests.core.model.test_columns import CATEGORIES
from tests.core.model.test_posterior import arrays
from tests.core.switching.switch_streams import Driver
from tests.core.twin import Fed

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
    """Slopes of both calibrations, shares of intervals, errors, temperatures of experts."""
    if len(reached) < 2:
        pytest.skip("the tests of some models did not run")
    slopes = {("calibration", "(Ellipsis, 0)", bound) for bound in (0.05, 0.02)}
    intervals = {("alphas", "(Ellipsis,)", 1.0)}
    errors = {("ring", f"(Ellipsis, {at})", bound) for at in (0, 1) for bound in (-1e150, 1e150)}
    experts = {("table", "(5,)", 0.02), ("table", "(6,)", 1000.0)}
    assert set() == (slopes | intervals | errors | experts) - reached


@pytest.mark.parametrize("algorithm", ["odm", "dynamic_odm"])
def test_the_losses_of_heavy_rows_come_close_to_their_bound(algorithm):
    """Rows that no candidate gets right, with the largest weight: each costs almost the maximum of a row, 1."""
    machine = Model.first(Config.parse({"algorithm": algorithm, "task": "classification", "features": [*NAMES]}))
    heavy = np.full(N, WEIGHT_MAX)
    segment = Rows(machine.feedback_schema.id, None, np.ones((N, 4)), ["A", "B"] * (N // 2), None, weights=heavy)
    apply(machine, Entry(1, 0, (segment,)))
    losses = machine.pipeline.own.learner.losses
    assert 0.95 * N < losses.max() <= N
    assert save.to_bytes(machine) == save.to_bytes(save.from_bytes(save.to_bytes(machine))[0])


# -- a valid seal around impossible content: the digest finds damage, not nonsense

CLASSES = {"algorithm": "dfop", "task": "classification", "features": ["a", "b", "c"]}
LEARNER = "pipeline.learner"
GONE = object()


def fed(y, **more):
    """A model that has learned rows with these labels."""
    model = Fed(CLASSES | more)
    model.learn(np.random.default_rng(0).normal(size=(len(y), 3)), y)
    return model


def retired():
    model = fed(["u", "v", "w"], labels=["u", "v", "w"])
    model.change(retire_labels=["v"])
    return model


def ensemble():
    driver = Driver()
    driver.learn(100)
    driver.live(1)
    return driver


MODELS = {
    "classes": lambda: fed([*"uvuvwuvw"]),
    "declared": lambda: fed(["u", "v"], labels=["u", "v"]),
    "retired": retired,
    "categories": lambda: Fed(CATEGORIES),
    "ensemble": ensemble,
    "sparse": lambda: Fed({"algorithm": "sparse_dfop", "task": "regression"}),
}
MAPPING = {"kind": "linear", "paper": False, "targets": ["a"]}
HEADERS = [
    *(("classes", "rows", value) for value in (7, -1, True, 8.0)),
    *(("classes", "reset_row", value) for value in (9, -1, True, 8.0, None)),
    *(("classes", "labels.labels", labels) for labels in (["u", "v", "w", "x"], ["u", "v"], ["u", "v", "u"])),
    *(("classes", "switching.model.features", names) for names in (["a", "b", "d"], None)),
    *(("classes", LEARNER, header) for header in ({"classes": 2}, None)),
    ("classes", "metrics", GONE),
    ("classes", "pipeline.sample.next", 9),  # a row would be passed over while the sample is not full
    ("declared", "labels.labels", ["u", "other"]),
    *(("retired", "retired", {"labels": labels}) for labels in (["x"], ["u", "v"], "u")),
    *(("categories", "unknown", counts) for counts in (None, [], {"day": 0}, {"day": True}, {"day": "2"})),
    *(("ensemble", "switching.phase", phase) for phase in ("steady", "overlap", "nowhere")),
    ("ensemble", "switching.switches", -1),
    ("ensemble", "switching.retired", [1]),
    *(("ensemble", "switching.experts", names) for names in (["new", "recovered"], ["recovered", "new"])),
    ("ensemble", "switching.next", ["a", "b"]),
    ("ensemble", "switching.next", GONE),
    ("ensemble", "switching.front.kind", "cubic"),
    ("ensemble", "switching.front.targets", ["a"]),
    ("ensemble", "switching.model.front", MAPPING),
    ("ensemble", "switching.model.features", ["a"]),
    ("ensemble", "switching.aborted", ["of", "another", "space"]),
    ("sparse", "switching.model", {"features": [], "front": MAPPING, "read": ["a"]}),
]
NAMED = {"declared": "declared", "retired": "label", "categories": "unknown", "sparse": "sparse"}
"""What the refusal mentions."""
ARRAYS = [
    ("stowaway", np.zeros(3)),
    (f"{LEARNER}.power", GONE),
    (f"{LEARNER}.precision", -1.0),
    (f"{LEARNER}.weights", np.nan),
    ("metrics.classes", 1e9),
]


def put(holder, name, value):
    if value is GONE:
        del holder[name]
    else:
        holder[name] = value


@pytest.mark.parametrize(("model", "field", "value"), HEADERS)
def test_an_impossible_header_is_refused(model, field, value):
    """Counts, labels, features, phases and experts that contradict each other or the configuration."""
    arrays, header = envelope.load(save.to_bytes(MODELS[model]().machine))
    *path, name = field.split(".")
    put(reduce(dict.get, path, header["state"]), name, value)
    with pytest.raises(ValueError, match=NAMED.get(model)):
        save.from_bytes(envelope.dump(arrays, header))


@pytest.mark.parametrize(("name", "value"), ARRAYS)
def test_impossible_arrays_are_refused(name, value):
    """One too many, one missing, and numbers out of range."""
    arrays, header = envelope.load(save.to_bytes(MODELS["classes"]().machine))
    put(arrays, name, np.full_like(arrays[name], value) if isinstance(value, float) else value)
    with pytest.raises(ValueError):
        save.from_bytes(envelope.dump(arrays, header))


def test_parts_of_different_models_are_refused():
    """Intervals with more rows than the model, and a drift watch of another space."""
    few, moved = Fed({"algorithm": "rls", "task": "regression", "features": ["a"]}), fed(["u", "v"])
    few.machine.own.answers.intervals.absorb(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="rows of the parts"):
        save.from_bytes(save.to_bytes(few.machine))
    moved.machine.own.drift_response.move(Schema([Feature("alone")]))
    with pytest.raises(ValueError):
        save.from_bytes(save.to_bytes(moved.machine))
