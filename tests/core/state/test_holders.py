"""Holders of state other than learners: any cut of rows and any save give the same bits; a broken state is refused."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import astuple

from core.config import Config
from core.contract import Prediction
from core.drift.detector import DriftDetector, WatchTest
from core.drift.outbox import Episodes
from core.features.encoder import Encoder
from core.features.labels import LabelSet
from core.features.lags import LagColumns
from core.features.row_sample import RowSample
from core.features.scaling import Scaler
from core.learners.auto.kernels import LAST, WAKES, WEIGHT
from core.learners.auto.label_unit import LabelUnit
from core.learners.auto.mixture import ExpertMixture
from core.metrics import ClassificationMetrics, RegressionMetrics
from core.metrics.difference import PairedDifference
from core.metrics.intervals import Intervals
from core.metrics.regression import squared_errors
from core.model.number_answers import NumberAnswers
from core.model.rows import BlockRows
from core.state.envelope import load
from core.switching.feature_recovery import ERROR_MAX, FeatureRecovery
from core.switching.linear_mapping import LinearMapping
from core.switching.mixture import Mixture
from tests.core.features.schemas import MIXED, schema
from tests.core.learners.streams import state
from tests.core.metrics.prequential_oracle import random_classes, random_numbers
from tests.core.state.hostile import hostile
from tests.core.switching.test_linear_mapping import KINDS, mapping_of

N = 1300
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 4)) * [1.0, 1e6, 1e-6, 1.0] + [0.0, 0.0, 3.0, 0.0]
NUMERIC = ["a", "b", "c"]
GAPS = np.where(RNG.random((N, 3)) < 0.3, np.nan, np.column_stack([X[:, 0], RNG.integers(0, 4, N), X[:, 1]]))
GAPS.flags.writeable = False
Y, CLASSES = X @ [1.0, 0.0, 1e6, 0.5], RNG.integers(0, 3, N)
WRONG = (RNG.random(N) < 0.1 + 0.5 * (np.arange(N) // 400 % 2)).astype(np.float64)
PREDICTED, TRUTH, FACTS = random_classes(N)
WALK = random_numbers(N)
MANY = RNG.integers(0, 90, (2, N))
SHARES = RNG.dirichlet(np.ones(3), size=(2, N))
NUMBERS = Y + RNG.normal(size=(2, N))
NO_WEIGHTS = np.empty(0)
WILD = np.array([0.0, -0.0, 1.0, 1e308, -1e308, 1.7976931348623157e308, 1e155, -1e155, 1e75, 1e-155, 1e-308, 5e-324])


class Case(NamedTuple):
    """A fresh holder, how to show it some rows, and what ``hostile`` must know about its arrays."""

    make: Callable[[], Any]
    show: Callable[[Any, slice], Any]
    sizes: Callable[[Any], dict[str, int]] = lambda _holder: {}
    rows: int = N


def detector(regression: bool) -> DriftDetector:
    tests = {kind: WatchTest(delta=0.3, batch_size=20) for kind in ("class_mean", "error_rate")}
    made = DriftDetector(tests, np.full((2, 4), np.nan), regression)
    for _ in range(0 if regression else 3):
        made.add_class()
    return made


def said(rows: slice, numbers: bool) -> list[Prediction]:
    if numbers:
        return [Prediction(one[rows], None, np.full(len(one[rows]), 1.0 + at)) for at, one in enumerate(NUMBERS)]
    return [Prediction(p[rows].argmax(axis=1), p[rows]) for p in SHARES]


def experts(regression: bool) -> ExpertMixture:
    made = ExpertMixture(["a", "b"], regression=regression)
    for _ in range(0 if regression else 3):
        made.add_class()
    return made


def of_experts(rows: slice, regression: bool) -> Any:
    P = np.stack([NUMBERS, np.ones_like(NUMBERS)], axis=1)[..., rows] if regression else SHARES[:, rows]
    return np.ascontiguousarray(P)


def metrics_of_many(holder: ClassificationMetrics, rows: slice) -> None:
    holder.absorb(MANY[0, rows], MANY[1, rows], np.ascontiguousarray(FACTS[:, rows]), 90)


NUMBER_CONFIG = Config.parse({"task": "regression"})
CASES = {
    **{f"encoder {missing}{', numbers' * (raw is NUMERIC)}": Case(
        lambda missing=missing, raw=raw: Encoder(schema(raw), missing),
        lambda held, rows: held.encode(GAPS[rows], absorb=True),
        lambda _, raw=raw: {"D": schema(raw).width}, 60)
       for missing in ("mean", "zero") for raw in (MIXED, NUMERIC)},
    "encoder error": Case(lambda: Encoder(schema(MIXED), "error"),
                          lambda held, rows: held.encode(np.nan_to_num(GAPS[rows]), absorb=True), rows=60),
    "row sample": Case(lambda: RowSample(3, 4), lambda held, rows: held.absorb(X[rows]), lambda _holder: {"D": 4}),
    **{f"scaler {kind}": Case(lambda kind=kind: Scaler(kind, 4), lambda held, rows: held.scale(X[rows], absorb=True),
                              lambda held: {"D": 4, "held": held.rows if held.rows < 20 else 0}, 200)
       for kind in ("standard", "robust")},
    "label unit": Case(LabelUnit, lambda held, rows: held.scale(Y[rows]), rows=60),
    "lags": Case(lambda: LagColumns(4, 2, 3, 3), lambda held, rows: held.lag(X[rows], CLASSES[rows]),
                 lambda _: {"features": 2, "D": 4, "labels": 3, "C": 3}, 40),
    "intervals": Case(partial(Intervals, 1000, 0.999), lambda held, rows: held.absorb(NUMBERS[0, rows], Y[rows])),
    "metrics of classes": Case(partial(ClassificationMetrics, 1000, 0.999), lambda held, rows: held.absorb(
        PREDICTED[rows], TRUTH[rows], np.ascontiguousarray(FACTS[:, rows]), 3)),
    "metrics of many classes": Case(partial(ClassificationMetrics, 1000, 0.999), metrics_of_many),
    "metrics of numbers": Case(
        partial(RegressionMetrics, 1000, 0.999), lambda held, rows: held.absorb(*(one[rows] for one in WALK))),
    "difference of classes": Case(PairedDifference, lambda held, rows: held.absorb(WRONG[rows], MANY[0, rows] / 89)),
    "difference of numbers": Case(PairedDifference, lambda held, rows: held.absorb(
        *(squared_errors(own[rows], Y[rows]) for own in NUMBERS), Y[rows])),
    **{f"{kind} mapping{' of the paper' * paper}": Case(
        lambda kind=kind, paper=paper: mapping_of(KINDS[kind], 4, 2, paper),
        lambda held, rows: held.learn(X[rows], NUMBERS.T[rows]),
        lambda held: {"sources": 4, "targets": 2, "columns": 6, "stored": min(held.count, 500), "kept": held.solved},
        170)
       for kind in KINDS for paper in (False, True)},
    **{f"experts of a switch, {'numbers' if of_numbers else 'classes'}{', drawn' * draws}{', paper' * bool(T)}": Case(
        lambda draws=draws, T=T: Mixture(np.full(2, 0.5), 100, draws, T, 5),
        lambda held, rows, of_numbers=of_numbers: held.learn(
            said(rows, of_numbers), (Y if of_numbers else CLASSES)[rows]),
        lambda _: {"experts": 2}, 80)
       for of_numbers in (False, True) for draws in (False, True) for T in (None, 50)},
    "experts of auto, classes": Case(lambda: experts(False), lambda held, rows: held.learn(
        of_experts(rows, False), CLASSES[rows], NO_WEIGHTS), lambda held: held.sizes(3), 200),
    "experts of auto, numbers": Case(lambda: experts(True), lambda held, rows: held.learn(
        of_experts(rows, True), Y[rows], NO_WEIGHTS), lambda _: {"E": 3}, 200),
    "detector of classes": Case(lambda: detector(False), lambda held, rows: held.absorb(
        X[rows], CLASSES[rows], WRONG[rows])),
    "detector of numbers": Case(lambda: detector(True), lambda held, rows: held.absorb(
        X[rows], np.zeros(len(X[rows]), dtype=np.int64), np.abs(Y[rows]))),
    "episodes": Case(Episodes, lambda held, rows: [
        [held.place(row + 1, 5, 20) for row in range(rows.start, rows.stop) if WRONG[row]]], rows=400),
    "answers": Case(lambda: NumberAnswers(NUMBER_CONFIG, LabelSet()), lambda held, rows: held.absorb(
        None, Y[rows], BlockRows(None, Y[rows])), rows=60),
}  # fmt: skip
every_holder = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def parts(answer: Any) -> list[Any]:
    """The parts of an answer with one number per row."""
    found = astuple(answer) if isinstance(answer, Struct) else answer if isinstance(answer, list) else [answer]
    return [part for part in found if isinstance(part, list) or (isinstance(part, np.ndarray) and part.size)]


@every_holder
def test_any_cut_and_any_save_leave_the_same_bits(case: Case) -> None:
    """One block, row by row, saved and loaded on the way: the same answers, state and size."""
    whole, single, restored = case.make(), case.make(), case.make()
    told, answers = parts(case.show(whole, slice(0, case.rows))), []
    for row in range(case.rows):
        for holder in (single, restored):
            answers.append(parts(case.show(holder, slice(row, row + 1))))
        if row < 45 or row % 97 == 0:
            restored, other = case.make(), restored
            restored.load_arrays(*load(state(other)))
    assert state(whole) == state(single) == state(restored)
    assert whole.nbytes == restored.nbytes
    for at, part in enumerate(told):
        for own in (answers[::2], answers[1::2]):
            alone = np.concatenate([answer[at] for answer in own if len(answer[at])])
            assert np.asarray(part).tobytes() == alone.tobytes()


@every_holder
@pytest.mark.parametrize("rows", [0, 7, None])
def test_an_invalid_state_is_refused(case: Case, rows: int | None) -> None:
    """Every break of the declaration, or another header, raises ValueError and leaves the state unchanged."""
    holder = case.make()
    case.show(holder, slice(0, case.rows if rows is None else rows))
    arrays, header = holder.to_arrays()
    before = state(holder)
    broken = [(what, wrong, header) for what, wrong in hostile(holder.layout, arrays, **case.sizes(holder)) if arrays]
    for what, *wrong in (*broken, ("another header", arrays, {} if header else {"other": 1})):
        if what in {"S missing", "stored missing"} and isinstance(holder, LinearMapping):
            continue  # a frozen mapping has such a state
        try:
            holder.load_arrays(*wrong)
        except ValueError:
            continue
        pytest.fail(what)
    assert before == state(holder)


def finite(answer: Any) -> bool:
    """Whether every number of an answer is finite; undefined ones are None."""
    if isinstance(answer, Prediction | tuple | list):
        return all(map(finite, astuple(answer) if isinstance(answer, Prediction) else answer))
    return not isinstance(answer, np.ndarray | float) or bool(np.isfinite(answer).all())


@every_holder
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.filterwarnings("error")
def test_no_finite_row_spoils_a_state(case: Case, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extremes of float64 among ordinary rows, constant and equal columns: answers are finite, the state loads."""
    rng = np.random.default_rng(1)
    for name in ("X", "Y", "NUMBERS", "WALK"):
        usual = np.asarray(globals()[name]).copy()
        if name == "X":
            usual[:, 1], usual[:, 2] = 0.1, usual[:, 0]
        wild = np.where(rng.random(usual.shape) < share, rng.choice(WILD, usual.shape), usual)
        monkeypatch.setitem(globals(), name, wild)
    holder, other = case.make(), case.make()
    for row in range(0, case.rows, 7):
        assert finite(case.show(holder, slice(row, row + 7)))
    other.load_arrays(*load(state(holder)))
    assert state(holder) == state(other)
    if isinstance(holder, FeatureRecovery):
        assert finite(holder.recover(X[:50]))
        assert holder.error is None or 0.0 <= holder.error <= ERROR_MAX


FORGED = [
    *(("detector of classes", "tallies", (0, at), value)
      for at, value in ((0, 0.5), (1, 20.0), (2, 1.0), (3, 2.0), (4, 1e9), (5, 1e9), (6, 1e9))),
    *(("detector of classes", "means", place, value)
      for place, value in (((0, 0), 1.1e300), ((3, 0), 1e306), ((1, 0), 1e9), ((6, 0), 3.1e302), ((9, 0), 1.1e150))),
    *(("detector of numbers", "reference", at, value) for at, value in ((0, 20.0), (1, 3.0), (1, 0.5), (2, -1.0))),
    *(("metrics of classes", "ring", (3, at), value)
      for at, value in ((0, 5.0), (0, -4.0), (1, -1.0), (1, 0.5), (2, 4.0))),
    *(("metrics of classes", "classes", (at, 1), value) for at, value in ((1, 0.0), (1, 3.0), (0, 1e9))),
    ("metrics of classes", "scalars", 1, 3.0),
    ("metrics of classes", "sums", (0, 0), 1301.0),
    ("experts of auto, classes", "tally", LAST, 4.0),
    ("experts of auto, classes", "table", (WEIGHT, 0), 0.9),
    ("experts of auto, numbers", "table", (WEIGHT, 0), 0.9),
    ("experts of auto, numbers", "table", (WAKES, 2), 9.0),
    ("lags", "known", 0, 0.0),
    ("experts of a switch, classes", "weights", 0, 0.9),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array", "place", "value"), FORGED)
def test_inconsistent_numbers_are_refused(name: str, array: str, place: Any, value: float) -> None:
    """Each number is within its declared range: too many rows, an index that compiled code would trust, wrong sums."""
    case = CASES[name]
    holder = case.make()
    case.show(holder, slice(0, case.rows))
    before = state(holder)
    arrays, header = holder.to_arrays()
    arrays[array][place] = value
    with pytest.raises(ValueError, match=r"."):
        holder.load_arrays(arrays, header)
    assert before == state(holder)
