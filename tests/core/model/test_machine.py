"""The state machine of one model: same log, same bits; a refusal changes nothing; nothing makes it non-finite."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.config import Config
from core.entry import Entry, Outcome, Reset, Restore, Rows, ServedPrediction, Switch
from core.features import Feature, Schema
from core.learners.dfop.learner import Dfop
from core.model import Model, cost, save
from core.model.apply import apply
from core.problems import Invalid

D = 3
NAMES = ("a", "b", "c")
CLASSES = ["x", 0, False, ""]
ROWS = 40
KINDS = [
    {"algorithm": "dfop", "task": "classification"},
    {"algorithm": "gdfop", "task": "classification", "params": {"forgetting_rate": 0.1}},
    {"algorithm": "rls", "task": "classification", "labels": CLASSES},
    {"algorithm": "dfop", "task": "regression", "missing": "mean"},
    {"algorithm": "rls", "task": "regression"},
    {"algorithm": "dfop", "task": "classification", "params": {"scaling": "robust", "forgetting_rate": 0.01}},
    {"algorithm": "dfop", "task": "regression", "params": {"scaling": "standard"}},
]
RLS = KINDS[4]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind['algorithm']}-{kind['task']}")


def machine(kind, **changes):
    return Model.first(Config.parse({"features": list(NAMES), **kind, **changes}))


def stream(kind, rows=ROWS, seed=0):
    """Raw rows and labels; classes appear one after the other; values are missing if allowed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D))
    if kind["task"] == "regression":
        if kind.get("missing") == "mean":
            X[rng.random((rows, D)) < 0.2] = np.nan
        return X, rng.normal(size=rows)
    known = np.minimum(len(CLASSES), 1 + np.arange(rows) // 7)
    return X, [CLASSES[int(rng.integers(k))] for k in known]


def segment(schema, X, y, **more):
    return Rows(schema.id, None, np.ascontiguousarray(X), y, **more)


def learn(model, X, y):
    return apply(model, Entry(1, 0, (segment(model.prediction_schema, X, y),)))


def refused(model, *segments):
    """Apply segments that must all be refused without changing a bit."""
    before = save.to_bytes(model)
    outcomes = apply(model, Entry(1, 0, segments))
    assert all(outcome.refusal is not None for outcome in outcomes)
    assert len(segments) == len(outcomes)
    assert before == save.to_bytes(model)


def test_a_segment_made_impossible_by_an_earlier_entry_is_refused_and_changes_nothing():
    """Another space, a clashing label, one class too many."""
    model = machine(KINDS[0])
    X = np.ones((2, D))
    learn(model, X, ["0", "y"])
    other = Schema(Config.parse({**KINDS[0], "features": ["a", "b", "d"]}).features)
    refused(model, segment(other, X, ["0", "y"]))
    refused(model, segment(model.prediction_schema, X, ["y", 0]))
    refused(model, segment(model.prediction_schema, np.ones((100, D)), [f"k{i}" for i in range(100)]))
    proposal = Rows(model.prediction_schema.id, model.prediction_schema.features, X, ["new", 0])
    refused(model, proposal, segment(other, X, ["y", "y"]))
    refused(model, Restore(b"not a state"), Restore(save.to_bytes(machine(KINDS[1])), "import"))


def test_a_refused_segment_does_not_disturb_its_neighbours():
    """Segments before and after it in the entry are learned as if it were absent."""
    X, y = stream(KINDS[0])
    alone, among = machine(KINDS[0]), machine(KINDS[0])
    good = [segment(alone.prediction_schema, X[i : i + 4], y[i : i + 4]) for i in range(0, 12, 4)]
    apply(alone, Entry(1, 0, tuple(good)))
    bad = segment(alone.prediction_schema, X[:2], ["x", "0"])
    outcomes = apply(among, Entry(1, 0, (good[0], good[1], bad, good[2])))
    assert [True, True, False, True] == [outcome.refusal is None for outcome in outcomes]
    assert save.to_bytes(alone) == save.to_bytes(among)


def test_the_first_row_fixes_the_space_and_a_refused_one_does_not():
    """A proposal takes effect with its rows or not at all; then the next one may."""
    model = machine(KINDS[0], features=None)
    first, second = (Schema([*map(Feature, names)]) for names in (("p", "q"), ("r",)))
    X = np.ones((2, 2))
    refused(model, Rows(first.id, first.features, X, [0, "0"]))
    assert model.prediction_schema is None
    proposals = (second, np.ones((1, 1)), ["u"]), (first, X, ["u", "v"]), (second, np.ones((1, 1)), ["v"])
    outcomes = apply(model, Entry(1, 0, tuple(Rows(space.id, space.features, *rows) for space, *rows in proposals)))
    assert [True, False, True] == [outcome.refusal is None for outcome in outcomes]
    assert (second.id, 2) == (model.prediction_schema.id, model.rows)


@every_kind
def test_reset_is_the_first_state_with_a_mark(kind):
    """Rows, classes, learner and metrics start over; a mark records the reset."""
    X, y = stream(kind)
    model = machine(kind)
    learn(model, X, y)
    (outcome,) = apply(model, Entry(2, 0, (Reset(),)))
    assert Outcome() == outcome
    fresh = machine(kind)
    fresh.own.metrics.mark(0, "reset")
    assert save.to_bytes(fresh) == save.to_bytes(model)
    assert [{"row": 0, "kind": "reset"}] == model.own.metrics.report()["marks"]


@every_kind
def test_restore_takes_over_a_state(kind):
    """Predictions equal the state's, bit for bit, and learning continues from it; only a mark is added."""
    X, y = stream(kind)
    source, target = machine(kind), machine(kind)
    learn(source, X[:20], y[:20])
    learn(target, X[20:], y[20:])
    (outcome,) = apply(target, Entry(3, 0, (Restore(save.to_bytes(source, {"version": 9}), "import"),)))
    assert Outcome(20) == outcome
    source.own.metrics.mark(20, "import")
    assert save.to_bytes(source) == save.to_bytes(target)


@every_kind
def test_rows_that_were_seen_are_skipped(kind):
    """A segment with a skip list equals the segment without those rows, including the answers."""
    X, y = stream(kind, 8)
    whole, skipping = machine(kind), machine(kind)
    keep = [0, 3, 4, 7]
    rest = [y[i] for i in keep] if kind["task"] == "classification" else y[keep]
    (expected,) = learn(whole, X[keep], rest)
    ids = tuple(f"i{i}" for i in range(8))
    (outcome,) = apply(skipping, Entry(1, 0, (segment(skipping.prediction_schema, X, y, ids=ids, skip=(1, 2, 5, 6)),)))
    assert (expected.predictions, expected.rows) == (outcome.predictions, outcome.rows)
    assert save.to_bytes(whole) == save.to_bytes(skipping)


def test_a_skipped_row_cannot_refuse_the_rest():
    """A row learned long ago may clash with today's classes: it is skipped, and the others are learned."""
    model = machine(KINDS[0])
    learn(model, np.ones((2, D)), [0, 1])
    late = segment(model.prediction_schema, np.ones((2, D)), ["0", 1], ids=("old", "new"), skip=(0,))
    (outcome,) = apply(model, Entry(2, 0, (late,)))
    assert (None, 3) == (outcome.refusal, model.rows)


def test_a_state_too_large_is_refused_before_it_is_built():
    """The reader's check gets the dimensions first."""
    asked = []

    def admit(learners):
        asked.extend((one.config.algorithm_id, space.width) for one in learners for space in one.spaces)
        raise Invalid.of("features", "make too many columns")

    with pytest.raises(Invalid):
        save.from_bytes(save.to_bytes(machine(KINDS[0])), admit)
    assert [("dfop", D)] == asked


# -- states that entries name, and what entries cost


def test_a_state_that_was_not_read_is_a_bug():
    """Applying an entry without the bytes that it names raises an error."""
    with pytest.raises(RuntimeError, match="00ff"):
        apply(machine(RLS), Entry(1, 0, (Restore(b"", "import", (), "00ff", 10),)))


def test_the_cost_of_an_entry_grows_with_its_size():
    """Bytes of a restored state, rows, and columns of a state to be built: callers decide by it whether others wait."""
    names = [f"x{column}" for column in range(1000)]
    few, many, undeclared = machine(RLS), machine(RLS, features=names), machine(RLS, features=None)

    def rows(count):
        return Rows(few.feedback_schema.id, None, np.zeros((count, D)), np.zeros(count))

    def first_row(count):
        space = Schema([Feature(name) for name in names[:count]])
        return Rows(space.id, space.features, np.zeros((1, count)), np.zeros(1))

    def change(count):
        return Switch("begin", tuple(Feature(f"new {name}") for name in names[:count]), "linear")

    for model, segment, least, most in (
        (few, Restore(bytes(10**4)), 0, 1e6),
        (few, Restore(bytes(10**8)), 1e9, np.inf),
        (few, rows(1), 0, 1e4),
        (few, rows(20_000), 5e6, np.inf),
        (few, Reset(), 0, 1e6),
        (many, Reset(), 1e8, np.inf),
        *((model, of(10), 0, 3e6) for model, of in ((undeclared, first_row), (few, change))),
        *((model, of(1000), 1e8, 1e10) for model, of in ((undeclared, first_row), (few, change))),
    ):
        assert least < cost.flops_to_apply(model, [segment]) < most


def test_rows_that_bring_classes_cost_more():
    """Each new class copies the arrays of all: many to a wide model are not cheap, in one request or in several."""
    names = [f"x{column}" for column in range(300)]
    model = machine({"algorithm": "odm", "task": "classification"}, features=names)
    X, many = np.zeros((100, 300)), [f"c{k}" for k in range(100)]

    def cost_of(*labels):
        return cost.flops_to_apply(model, [segment(model.feedback_schema, X[: len(own)], own) for own in labels])

    copied = 100 * model.own.config.state_bytes(300, 100) / 10
    assert copied < cost_of(many) < 100 * copied
    assert 4e6 < cost_of(*([label] for label in many))
    learn(model, X, many)
    known = cost_of(many)
    assert cost_of(["new"]) - cost_of(["c0"]) > 300 * 80 * 100
    assert copied + known < cost_of([f"d{k}" for k in range(100)])
    assert known == cost_of(many[:50], many[50:])


@pytest.mark.parametrize("tracked", [False, True])
def test_the_first_prediction_of_a_model_outside_costs_an_import(tracked, monkeypatch):
    """SciPy's, unless it is there; sent with the label, or with the row that was tracked."""
    model, y = machine(RLS), np.zeros(1)
    own, both = ServedPrediction(0.0), ServedPrediction(0.0, outside=1.0)
    plain = segment(model.feedback_schema, np.zeros((1, D)), y, served=own if tracked else None)
    with_it = replace(plain, served=both) if tracked else replace(plain, outside=y)
    for there in (False, True):
        monkeypatch.setattr(cost, "loaded", lambda found=there: found)
        for others in ((), (plain,)):
            first, known = (cost.flops_to_apply(model, [*others, one]) for one in (with_it, plain))
            assert (first > 1e8) == (not there)
            assert known < 1e5


def test_rows_with_predictions_of_a_model_outside_cost_more():
    """They are scored one by one: some hundred take as long as thousands of others; so do all rows after the first."""
    model, X, y = machine(RLS), np.zeros((500, D)), np.zeros(500)
    plain = segment(model.feedback_schema, X, y)
    monitored = replace(plain, outside=y)
    assert 10 * cost.flops_to_apply(model, [plain]) < cost.flops_to_apply(model, [monitored])
    apply(model, Entry(1, 0, (monitored,)))
    for one in (plain, monitored):
        assert 4e6 < cost.flops_to_apply(model, [one])


def test_a_state_is_read_into_one_learner(monkeypatch):
    """Loading builds no second learner from the configuration, which would double the memory of a large model."""
    state, made, build = save.to_bytes(machine(RLS)), [], Dfop.__init__

    def counted(self, spec):
        made.append(spec)
        build(self, spec)

    monkeypatch.setattr(Dfop, "__init__", counted)
    save.from_bytes(state)
    assert 1 == len(made)
