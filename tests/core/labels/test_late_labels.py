"""Late labels: model and baselines are judged by what they predicted at the same moment."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.entry import Challenge, Entry, Promote, Reset, Restore, Rows, ServedPrediction, Switch
from core.features import Feature, Schema
from core.model import read, save
from core.model.apply import apply
from tests.core.twin import Fed, Twin

LATE = 200


class Delayed:
    """A separable stream whose labels come late: for each row the prediction served, and the labels known by then."""

    def __init__(self, rows, **more):
        rng = np.random.default_rng(11)
        self.X = rng.normal(size=(rows, 2)) + 2.5 * np.sign(rng.normal(size=(rows, 1)))
        self.y = np.where(self.X.sum(axis=1) > 0, "UP", "DOWN").tolist()
        config = {"algorithm": "dfop", "task": "classification", "features": ["a", "b"], "watch": None, **more}
        self.model = Fed(config)
        self.machine = self.model.machine
        self.told, self.known, self.come = [], [], []

    def predict(self, row):
        self.told.append(self.model.served(self.X[row : row + 1]))
        self.known.append(len(self.come))

    def label(self, row):
        self.come.append(self.y[row])
        return self.model.learn(self.X[row : row + 1], self.y[row : row + 1], served=self.told[row])

    def by_hand(self, rows):
        """Accuracies of the model, of no_change and of majority, over the rows that had a prediction."""
        declared = self.machine.config.labels or ()
        right = []
        for row in rows:
            if self.told[row].prediction is None:
                continue
            known = self.come[: self.known[row]]
            said = self.told[row].prediction, [*declared[:1], *known][-1], most(known, declared)
            right.append([answer == self.y[row] for answer in said])
        return np.mean(right, axis=0) if right else None


def most(known, declared):
    """The most frequent label, in a tie the first one: as declared, or as they came."""
    return max(declared or dict.fromkeys(known), key=known.count)


def found(machine):
    """The same three accuracies, from the metrics."""
    report = read.metrics_report(machine)
    baselines = report["baselines"]
    return [report["overall"]["accuracy"], baselines["no_change"]["accuracy"], baselines["majority"]["accuracy"]]


@pytest.mark.parametrize("labels", [{}, {"labels": ["DOWN", "UP"]}])
def test_labels_come_late(labels):
    """200 rows after their predictions, also those of an empty model: all accuracies equal those computed by hand."""
    stream = Delayed(5 * LATE, **labels)
    for row in range(5 * LATE):
        stream.predict(row)
        if row >= LATE:
            stream.label(row - LATE)
    rows = range(4 * LATE)
    expected = stream.by_hand(rows)
    assert expected == pytest.approx(found(stream.machine))
    assert sum(stream.told[row].prediction is None for row in rows) == stream.model.report["unscored"]
    assert stream.by_hand(range(LATE + 1, 4 * LATE))[0] > 0.95
    assert abs(expected[1] - 0.5) < 0.1
    window = stream.model.report["window"]
    assert expected[1] == pytest.approx(window["baselines"]["no_change"]["accuracy"])


def test_numbers_come_late():
    """The last value is the one known when the row was predicted; the first rows had none."""
    config = {"algorithm": "rls", "task": "regression", "features": ["a"], "watch": None}
    model, X, y = Fed(config), np.arange(6.0)[:, None], 10.0 * np.arange(6)
    told = []
    for row in range(6):
        told.append(model.served(X[row : row + 1]))
        if row >= 2:
            model.learn(X[row - 2 : row - 1], y[row - 2 : row - 1], served=told[row - 2])
    # Labels of rows 0 to 3 came; rows 0 to 2 were predicted before any label, row 3 after that of row 0.
    assert [(None,)] * 3 + [(0.0,), (10.0,), (20.0,)] == [answer.baselines for answer in told]
    assert [0, 0, 0, 1, 2, 3] == [answer.scored for answer in told]
    assert {"mse": 900.0, "mae": 30.0} == model.report["baselines"]["last_value"]


def test_what_late_labels_show_of_intervals_is_in_the_state():
    """Of the model and of a challenger, which a promotion, a copy and a restored state continue."""
    model = Twin({"algorithm": "rls", "task": "regression", "features": ["a"], "watch": None})
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 1)), rng.normal(size=160).cumsum()
    model.commit(Challenge("other", {"algorithm": "dfop", "promote": "never"}, 8))
    told = []
    for row in range(160):
        told += read.predict_to_keep(model.machine, X[row : row + 1])[1]
        if row >= 20:
            model.learn(X[row - 20 : row - 19], y[row - 20 : row - 19], served=told[row - 20])
    widths = [parts.answers.intervals.levels[:, 5].tolist() for parts in (model.machine.own, *others(model))]
    assert all(any(one) for one in widths)
    assert widths[0] != widths[1]
    state = save.to_bytes(model.machine)
    model.commit(Promote("other"))
    assert widths[1] == model.machine.own.answers.intervals.levels[:, 5].tolist()
    model.commit(Reset())
    assert [0.0] * 5 == model.machine.own.answers.intervals.levels[:, 5].tolist()
    model.commit(Restore(state, "restore", size=len(state)))
    assert widths[0] == model.machine.own.answers.intervals.levels[:, 5].tolist()


def others(model):
    """The learners of the challengers."""
    return [one.parts for one in model.machine.challengers.values()]


def test_records_without_baselines_use_the_current_ones():
    """Earlier versions kept such records."""
    stream = Delayed(3)
    for row in range(3):
        stream.predict(row)
        stream.label(row)
    told = stream.told[2]
    for served in (told, ServedPrediction(told.prediction, told.probabilities)):
        other, _ = save.from_bytes(save.to_bytes(stream.machine))
        space = other.prediction_schema
        apply(other, Entry(4, 4, (Rows(space.id, None, stream.X[2:3], ["DOWN"], served=served),)))
        said = told.baselines[0] if served.baselines else stream.y[2]
        before = read.metrics_report(stream.machine)["baselines"]["no_change"]["accuracy"] * 2
        assert (before + (said == "DOWN")) / 3 == pytest.approx(found(other)[1])


def error_of_late_labels(config, y, late):
    """The mean squared error of served predictions, or share of wrong ones, where each label comes ``late`` rows later.

    The order of the labels is all that there is. Labels that come together leave the same bits as those that come one
    by one.
    """
    rows, numbers = len(y), y.dtype.kind == "f"
    X = np.random.default_rng(3).normal(size=(rows, 2))
    config = {"task": "regression" if numbers else "classification", "features": ["a", "b"], "watch": None, **config}
    model, other, told, waiting = Fed(config), Fed(config), [], []
    for row in range(rows):
        told.append(model.served(X[row : row + 1]))
        if (at := row - late) >= 0:
            label = y[at : at + 1] if numbers else [str(y[at])]
            model.learn(X[at : at + 1], label, served=told[at])
            waiting.append(Rows(model.machine.feedback_schema.id, None, X[at : at + 1], label, served=told[at]))
            if len(waiting) == 25:
                other.version += 1
                apply(other.machine, Entry(other.version, other.version, tuple(waiting)))
                waiting = []
    apply(other.machine, Entry(other.version + 1, 1, tuple(waiting)))
    assert save.to_bytes(model.machine) == save.to_bytes(other.machine)
    half = np.array([answer.prediction for answer in told[rows // 2 :]])
    return np.mean((half - y[rows // 2 :]) ** 2) if numbers else np.mean(half != y[rows // 2 :])


@pytest.mark.parametrize(("task", "late"), [("classification", 1), ("classification", 7), ("regression", 10)])
def test_auto_serves_an_ordered_stream_well(task, late):
    """Experts are judged by what they knew when a row was predicted."""
    rows = np.arange(600)
    y = np.sin(rows * 0.15) if task == "regression" else np.array([*"abcde"])[rows % 5]
    assert error_of_late_labels({"algorithm": "auto"}, y, late) < (0.01 if task == "regression" else 0.05)


@pytest.mark.parametrize("more", [{}, {"params": {"random_features": 4}}])
@pytest.mark.parametrize(
    ("algorithm", "task"), [("dfop", "classification"), ("dfop", "regression"), ("dynamic_odm", "classification")]
)
def test_members_that_forget_fast_are_not_trusted_if_labels_come_late(algorithm, task, more):
    """Half a period late, the last labels are always wrong; a third class comes while labels are due."""
    rows = np.arange(600)
    y = np.array([*"abc"])[np.where(rows % 90 == 88, 2 * (rows > 400), rows // 20 % 2)]
    y = np.sin(rows * np.pi / 20) if task == "regression" else y
    assert error_of_late_labels({"algorithm": algorithm, **more}, y, 20) < 0.7


@pytest.mark.parametrize("algorithm", ["auto", "dfop", "dynamic_odm"])
@pytest.mark.parametrize(("how", "rows"), [("reset", 19), ("reset", 100), ("import", 100)])
def test_scores_from_before_a_reset_or_an_import_are_not_used(algorithm, how, rows):
    """The model has fewer rows since, or its classes have come back in another order."""
    X, y, states = np.random.default_rng(1).normal(size=(160, 2)), np.array([*"ab"] * 80), []
    config = {"algorithm": algorithm, "task": "classification", "features": ["a", "b"], "watch": None}
    other = y[1 : rows + 1].tolist() if rows > 60 else y[:rows].tolist()
    for kept in (True, False):
        model, foreign = Fed(config), Fed(config)
        model.learn(X[:60], y[:60].tolist())
        served = model.served(X[60:61])
        assert len(served.past) >= 7
        if how == "reset":
            model.commit(Reset())
            model.learn(X[:rows], other)
        else:
            foreign.learn(X[:rows], other)
            state = save.to_bytes(foreign.machine)
            assert model.commit(Restore(state, "import", size=len(state))).refusal is None
        model.learn(X[60:61], y[60:61].tolist(), served=served if kept else replace(served, past=None))
        states.append(save.to_bytes(model.machine))
    assert states[0] == states[1]


@pytest.mark.parametrize("algorithm", ["auto", "dfop", "dynamic_odm"])
def test_rows_tracked_together_keep_and_teach_what_single_ones_do(algorithm):
    """Also across the end of a chunk of 1024 rows, and if only some of them were tracked."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1130, 2)), np.array([*"abc"])[rng.integers(0, 3, 1130)].tolist()
    model = Fed({"algorithm": algorithm, "task": "classification", "features": ["a", "b"], "watch": None})
    model.learn(X[:990], y[:990])
    _, kept = read.predict_to_keep(model.machine, X[990:])
    assert all(kept[at].past == model.served(X[990 + at : 991 + at]).past for at in range(0, 140, 7))
    space = model.machine.feedback_schema.id
    rows = [
        Rows(space, None, X[990 + at : 991 + at], [y[990 + at]], served=kept[at] if at % 3 else None)
        for at in range(140)
    ]
    single, together = (save.from_bytes(save.to_bytes(model.machine))[0] for _ in range(2))
    for version, one in enumerate(rows, model.version + 1):
        apply(single, Entry(version, 1, (one,)))
    apply(together, Entry(version, 1, tuple(rows)))
    assert save.to_bytes(single) == save.to_bytes(together)


@pytest.mark.parametrize("algorithm", ["auto", "dfop", "dynamic_odm"])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_no_number_is_not_used(algorithm, odd):
    """A stored prediction may be damaged."""
    X, y, states = np.random.default_rng(1).normal(size=(61, 2)), [*"ab"] * 30, []
    for kept in (True, False):
        model = Fed({"algorithm": algorithm, "task": "classification", "features": ["a", "b"], "watch": None})
        model.learn(X[:60], y)
        served = model.served(X[60:])
        past = (*served.past[:-1], odd) if kept else None
        model.learn(X[60:], ["a"], served=replace(served, past=past))
        states.append(save.to_bytes(model.machine))
    assert states[0] == states[1]


@pytest.mark.parametrize("algorithm", ["auto", "dfop", "dynamic_odm"])
def test_a_label_that_comes_before_any_other_row_is_judged_by_what_was_kept(algorithm):
    """Its scores are the present ones, but it is told of them."""
    X, y = np.random.default_rng(1).normal(size=(61, 2)), [*"ab"] * 30
    model = Fed({"algorithm": algorithm, "task": "classification", "features": ["a", "b"], "watch": None})
    model.learn(X[:60], y)
    served, states = model.served(X[60:]), []
    for past in (served.past, (*served.past[:-2], *served.past[:-3:-1])):
        twin = Fed(model.machine.config.to_json())
        twin.machine = save.from_bytes(save.to_bytes(model.machine))[0]
        twin.learn(X[60:], ["a"], served=replace(served, past=past))
        states.append(save.to_bytes(twin.machine))
    assert states[0] != states[1]


def test_auto_does_not_trust_experts_that_know_more_when_the_labels_come():
    """A label lasts for a while: the latest ones tell the next one, but rows whose labels come 50 together do not know.

    Labels that come together leave the same bits as one by one, also while a second team lives or a class appears.
    """
    rows, late, rng = 2000, 50, np.random.default_rng(4)
    classes = np.cumsum(rng.random(rows) < 0.03) % 2
    X = np.c_[classes + 0.4 * rng.normal(size=rows), rng.normal(size=rows)]
    X[1200:, 0] *= -1.0
    classes[1900:][rng.random(100) < 0.2] = 2
    y = np.array(["UP", "DOWN", "NONE"])[classes]
    config = {"algorithm": "auto", "task": "classification", "features": ["a", "b"], "watch": None}
    config["params"] = {"size": "small"}
    model, other, told = Fed(config), Fed(config), []
    for at in range(0, rows, late):
        batch = range(at, at + late)
        told += [model.served(X[row : row + 1]) for row in batch]
        due = [(X[row : row + 1], [str(y[row])], told[row]) for row in batch]
        for x, label, served in due:
            model.learn(x, label, served=served)
        space, other.version = model.machine.feedback_schema.id, other.version + 1
        together = tuple(Rows(space, None, x, label, served=served) for x, label, served in due)
        apply(other.machine, Entry(other.version, 1, together))
        assert save.to_bytes(model.machine) == save.to_bytes(other.machine)
    right = np.array([answer.prediction for answer in told]) == y
    assert min(right[400:1200].mean(), right[1500:1900].mean()) > 0.85
    # Kept by one team for two classes, and by two teams for two and for three.
    assert {0, 29, 57, 83} == {len(answer.past or ()) for answer in told}


@pytest.mark.parametrize(
    ("algorithm", "y"), [("ga2m", ["y"]), ("dfop", ["y"]), ("auto", ["y"]), ("dfop", np.array([1.0]))]
)
def test_a_label_of_features_that_a_reset_has_left_is_refused(algorithm, y):
    """Undeclared features are gone after a reset, and so are those of an aborted change: no learner knows the class."""
    model = Twin({"task": "classification" if isinstance(y, list) else "regression", "algorithm": algorithm})
    a, b, c = (Feature(name) for name in "abc")
    first = Rows(Schema((a, b)).id, (a, b), np.ones((1, 2)), y)
    model.commit(first)
    for action, features in (("begin", (a, c)), ("abort", None), ("begin", (a, c))):
        if action == "abort":
            union = model.machine.feedback_schema
        assert model.commit(Switch(action, features)).refusal is None
    served = model.served(np.ones((1, 2)))
    model.commit(Reset())
    late = Rows(union.id, None, np.ones((1, 3)), y, served=served)
    assert "features have changed" in model.commit(late).refusal
    for _ in range(3):
        assert model.commit(first).learned


@pytest.mark.parametrize("source", ["restore", "import"])
def test_a_label_of_features_that_a_restore_has_left_is_scored(source):
    """The restored state never had them, but the label still comes to the prediction that was returned."""
    model = Twin({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})
    model.learn(np.eye(2), np.ones(2))
    kept = save.to_bytes(model.machine)
    model.commit(Switch("begin", (Feature("b"), Feature("c")), "linear"))
    model.commit(Switch("complete"))
    space, served = model.machine.prediction_schema, model.served(np.ones((1, 2)))
    assert model.commit(Restore(kept, source)).refusal is None
    outcome = model.learn(np.ones((1, 2)), np.ones(1), space, served=served)
    assert (None, False, [served.prediction]) == (outcome.refusal, outcome.learned, outcome.predictions)
    assert 3 == model.machine.rows


@pytest.mark.parametrize("left", ["reset", "restore"])
@pytest.mark.parametrize("algorithm", ["dfop", "ga2m"])
def test_a_label_of_undeclared_features_is_scored_once_other_rows_have_determined_new_ones(algorithm, left):
    """The new features follow a reset, or a restored state that had none; the client still has the prediction."""
    model = Twin({"task": "classification", "algorithm": algorithm})
    empty = save.to_bytes(model.machine)
    a, b, c = (Feature(name) for name in "abc")
    model.commit(Rows(Schema((a, b)).id, (a, b), np.ones((1, 2)), ["y"]))
    space, served = model.machine.prediction_schema, model.served(np.ones((1, 2)))
    model.commit(Reset() if left == "reset" else Restore(empty))
    model.commit(Rows(Schema((a, c)).id, (a, c), np.ones((1, 2)), ["n"]))
    outcome = model.learn(np.ones((1, 2)), ["y"], space, served=served)
    assert (None, False, [served.prediction]) == (outcome.refusal, outcome.learned, outcome.predictions)
    assert 2 == model.machine.rows


@pytest.mark.parametrize("left", ["reset", "two resets", "restore", "promotion"])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_row_of_undeclared_features_that_comes_after_they_were_dropped_may_be_the_first(left, tracked):
    """Its sender still had them and proposed none; other rows that propose none are refused, and so are due labels."""
    model = Twin({"task": "regression", "algorithm": "dfop"})
    empty = save.to_bytes(model.machine)
    a, b, c = (Feature(name) for name in "abc")
    model.commit(Rows(Schema((a, b)).id, (a, b), np.ones((1, 2)), np.ones(1)))
    space, served = model.machine.prediction_schema, model.served(np.ones((1, 2))) if tracked else None
    for _ in range(1 + (left == "two resets")):
        model.commit(Restore(empty) if left == "restore" else Reset())
    if left == "promotion":
        model.commit(Challenge("other", {"algorithm": "rls"}, 8))
        assert model.commit(Promote("other")).refusal is None
    assert model.machine.prediction_schema is None
    for strange, due in ((Schema((a, c)), False), (space, True)):
        refused = model.learn(np.ones((1, 2)), np.ones(1), strange, served=served, due=due)
        assert "have changed since" in refused.refusal
    outcome = model.learn(np.ones((1, 2)), np.ones(1), space, served=served)
    assert (None, True, 1) == (outcome.refusal, outcome.learned, model.machine.rows)
    assert (space, []) == (model.machine.prediction_schema, model.machine.own.switching.retired_spaces)
