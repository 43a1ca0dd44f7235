"""However rows are cut into segments and entries, merged or saved in between: the same answers and the same bits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from core.config import Config
from core.drift.outbox import NO_ALARM, Drift, Joined
from core.entry import Entry, MergedRows, Rows
from core.learners.catalogue import ALGORITHMS
from core.model import Model, plans, save
from core.model.apply import apply, apply_merged
from tests.core.challengers import test_challengers as challengers
from tests.core.challengers import test_outside as outside
from tests.core.model import test_columns as columns
from tests.core.model import test_drift_response as drift
from tests.core.model import test_machine as machine

RNG = np.random.default_rng(7)
WEIGHTS = RNG.uniform(0.5, 2.0, 30)
SOME = np.arange(30) // 10 == 1
SCALED = [name for name, entry in ALGORITHMS.items() if any(param.name == "scaling" for param in entry.params)]


class Case(NamedTuple):
    """A model before its first row, and the rows it learns.

    ``more``: further columns, NaN or None in rows without; ``forms``: rows before which such a column starts or ends.
    """

    first: Callable[[], Model]
    X: Any
    y: Any
    more: Mapping[str, Any] = {}
    forms: Sequence[int] = ()
    drifts: bool = False

    def segments(self, ends: Sequence[int]) -> Iterator[Rows]:
        """The rows in segments that end at ``ends`` and wherever their form changes."""
        space = self.first().feedback_schema
        assert space is not None
        for i, j in pairwise(sorted({0, *ends, *self.forms, len(self.X)})):
            given = {name: column[i:j] for name, column in self.more.items()}
            columns = {name: column for name, column in given.items() if not {*map(str, column)} <= {"None", "nan"}}
            yield Rows(space.id, None, self.X[i:j], self.y[i:j], **columns)


def of(body: Mapping[str, Any], **bodies: Any) -> Model:
    """A model with these challengers."""
    model = Model.first(Config.parse(body))
    for version, (name, other) in enumerate(bodies.items(), 1):
        apply(model, Entry(version, 0, (plans.plan_challenge(model, name, other, 8)[0],)))
    return model


def weighted(more: Mapping[str, Any], forms: Sequence[int]) -> Case:
    body = {"algorithm": "dfop", "task": "classification", "features": [*"abcd"], "labels": [0, 1]}
    return Case(partial(of, body), RNG.normal(size=(30, 4)), RNG.integers(0, 2, 30).tolist(), more, forms)


def scaled(algorithm: str) -> Case:
    features = [{"name": "a", "min": -1, "max": 1}, "b", {"name": "c", "categories": ["x", "y"]}]
    body = {"algorithm": algorithm, "task": "classification", "params": {"scaling": "minmax"}, "features": features}
    X = np.column_stack([RNG.normal(size=120), 50 + 9 * RNG.normal(size=120), RNG.integers(0, 2, 120)])
    return Case(partial(of, {**body, "labels": ["no", "yes"]}), X, [("no", "yes")[int(a > 0)] for a in X[:, 0]])


def challenged(body: Mapping[str, Any], rows: Any, **bodies: Any) -> Case:
    better = {**challengers.DFOP, "promote": "auto"}
    return Case(partial(of, {**body, "on_drift": "report"}, better=better, **bodies), *rows)


def beside(case: Case, rows: int) -> Case:
    """The same beside a model outside that is right; it predicts every other one of the first ``rows`` rows."""
    numbers = isinstance(case.y, np.ndarray)
    served = [label if at < rows and at % 2 else np.nan if numbers else None for at, label in enumerate(case.y)]
    outside = np.array(served) if numbers else served
    return case._replace(more={"outside": outside}, forms=(rows,) if rows < len(served) else ())


CASES = {
    **{
        f"kind {at}": Case(partial(machine.machine, kind), *machine.stream(kind))
        for at, kind in enumerate(machine.KINDS)
    },
    "discounts": Case(
        partial(machine.machine, machine.KINDS[1]),
        *machine.stream(machine.KINDS[1], 60),
        {"discounts": np.where(np.arange(60) < 10, np.nan, RNG.uniform(0.5, 1.0, 60))},
        (10,),
    ),
    "weights": weighted({"weights": np.where(SOME, np.nan, WEIGHTS)}, (10, 20)),
    "weights of some": weighted({"weights": np.where(SOME, WEIGHTS, np.nan)}, (10, 20)),
    **{f"{algorithm} scaled": scaled(algorithm) for algorithm in SCALED},
    "unknown categories": Case(partial(of, columns.CATEGORIES), columns.RAW, np.arange(5.0)),
    **{
        f"{algorithm} {task} beside a model outside": Case(
            partial(of, outside.body(algorithm, task)), outside.X[:300], y[:300], {"outside": served}
        )
        for algorithm in ("dfop", "observer")
        for task, y, served in (
            ("classification", outside.LABELS, [None] * 30 + outside.SERVED[30:300]),
            ("regression", outside.NUMBERS, [None] * 30 + outside.SERVED_NUMBERS[30:300].tolist()),
        )
    },
    **{
        f"{action} at a drift of a {task}{of_what}": Case(
            partial(drift.machine, task, action, **more), *drift.stream(task), drifts=True
        )
        for action in drift.ACTIONS
        for task, of_what, more in (
            *((task, "", {}) for task in drift.TASKS),
            *((task, ", in episodes", {"watch": {**drift.WATCH, **drift.EPISODES}}) for task in drift.TASKS),
            ("classification", ", found by its learner", drift.OF_ITS_OWN),
        )
    },
    "challengers": challenged(challengers.MODEL, challengers.rotating(1200, False), slow={"algorithm": "fesl_s"}),
    "challengers of numbers": challenged(
        challengers.PRICES, challengers.rotating(1200, True), slow={"algorithm": "fesl_s"}
    ),
    "challengers beside a model outside": beside(
        challenged(challengers.MODEL, challengers.rotating(1200, False)), 1200
    ),
    "challengers of numbers beside a model outside": beside(
        challenged(challengers.PRICES, challengers.rotating(1200, True)), 30
    ),
    "challengers at a drift": challenged(
        challengers.MODEL, challengers.stream(800, classes="uvv"), other={"algorithm": "dynamic_odm"}
    )._replace(drifts=True),
}


def learned(case: Case, entries: Sequence[Sequence[Rows]], saves: bool = False) -> tuple[Model, list[Any]]:
    """A model that has learned these entries, saved and loaded before each if ``saves``, and its answers by row."""
    model, said = case.first(), []
    for version, segments in enumerate(entries, len(model.challengers) + 1):
        if saves:
            model, _ = save.from_bytes(save.to_bytes(model))
        for outcome in apply(model, Entry(version, 1000 * version, tuple(segments))):
            assert outcome.refusal is None
            said += zip(outcome.predictions, outcome.losses, strict=True)
    return model, said


def merged(case: Case, segments: Sequence[Rows]) -> Model:
    """A model that has learned one segment per entry, with the entries of the last form merged where possible."""
    since, stops = max(case.forms, default=0), np.cumsum([len(rows.X) for rows in segments])
    first = int(np.searchsorted(stops, since, side="right"))
    model, _ = learned(case, [[rows] for rows in segments[:first]])
    (*_, rows) = case.segments(())
    versions = [at + 1 + len(case.first().challengers) for at in range(len(segments))][first:]
    joined = MergedRows(rows, versions[0], [1000 * version for version in versions], (stops[first:] - since).tolist())
    at, alone = 0, 0
    while at < len(versions):
        stop, _ = apply_merged(model, joined, at)
        if stop == at:
            apply(model, Entry(versions[at], joined.times_ms[at], (segments[first + at],)))
            stop, alone = at + 1, alone + 1
        at = stop
    assert alone < len(versions)
    return model


def drifts(model: Model) -> list[Drift]:
    """The events of a model, without the positions of their alarms in the log."""
    return [
        replace(event, version=0, index=0, time_ms=0, last_alarm=NO_ALARM, alarms=tuple(map(unplaced, event.alarms)))
        for event in model.outbox.after(NO_ALARM)
    ]


def unplaced(alarm: Joined) -> Joined:
    return replace(alarm, position=NO_ALARM)


@pytest.mark.slow_but(
    "kind *", "discounts", "weights*", "* scaled", "unknown categories", "* beside a model outside", "challengers*",
    "reset at *", "report at *, found by its learner", "report at * regression, in episodes", "forget at * regression",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_any_cut_leaves_the_same_model(case: Case) -> None:
    """One entry, several segments per entry saved in between, merged entries: all give the model of single rows."""
    count = len(case.X)
    single, said = learned(case, [[rows] for rows in case.segments(range(count))])
    found = [learned(case, [[*case.segments(())]])]
    for seed in range(1 + 40 // count):
        segments = [*case.segments(np.random.default_rng(seed).integers(1, count, 3 + count // 9).tolist())]
        together = [segments[at : at + 2 + seed] for at in range(0, len(segments), 2 + seed)]
        found.append(learned(case, together, saves=True))
        if case.forms or "outside" not in case.more:  # rows with served predictions are not merged
            apart, _ = learned(case, [[rows] for rows in segments])
            assert save.to_bytes(apart) == save.to_bytes(merged(case, segments))
    for model, other in found:
        assert said == other
        assert drifts(single) == drifts(model)
        model.outbox = single.outbox
        assert save.to_bytes(single) == save.to_bytes(model)
    assert count == single.rows
    assert drifts(single) or not case.drifts
