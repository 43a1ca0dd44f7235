"""Changes of a configuration: what can change, the result, and whose states a model accepts."""

import pytest

from core.config import Config, changes
from core.config.changes import CHANGEABLE, changed, differences, fields_changed, interchangeable
from core.problems import PROBLEMS_MAX, SUGGESTED_MAX
from tests.core.refusals import problems

BODY = {
    "algorithm": "dfop",
    "task": "classification",
    "features": ["a", {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}],
    "labels": ["UP", "DOWN"],
}
CONFIG = Config.parse(BODY)


def refused(asked, config=CONFIG):
    """The problems of a change, by field."""
    return {problem.field: problem for problem in problems(changed, config, asked)}


def test_few_suggestions_are_made_however_many_fields_are_strange(monkeypatch):
    """Each takes a comparison with all names; the first fields are listed."""
    asked, made, suggest = {f"label{at}": 1 for at in range(3 * PROBLEMS_MAX)}, [], changes.suggestion
    monkeypatch.setattr(changes, "suggestion", lambda *of: made.append(of) or suggest(*of))
    found = refused(asked)
    assert [*asked][:PROBLEMS_MAX] == [*found]
    assert PROBLEMS_MAX == len(made)
    assert SUGGESTED_MAX == sum("did you mean" in one.problem for one in found.values())


@pytest.mark.parametrize(
    "asked",
    [
        {"on_drift": "reset"}, {"on_drift": "forget", "missing": "mean"}, {"watch": {"error_rate": {"delta": 0.01}}},
        {"watch": {"class_mean": {"batch_size": 50}}, "on_drift": "reset"}, {"watch": None}, {"missing": "zero"},
        {"description": "predicts the price\nof tomorrow"}, {"tags": {"team": "pricing", "stage": "test"}}, {},
    ],
)  # fmt: skip
def test_a_change_equals_creating_the_model_with_it(asked):
    """Named fields are replaced as a whole, everything else stays."""
    assert Config.parse({**BODY, **asked}).canonical == changed(CONFIG, asked).canonical


def test_null_restores_the_default():
    """For every field; for the drift tests null means none, as at creation."""
    other = Config.parse(
        {**BODY, "on_drift": "reset", "missing": "mean", "description": "x", "tags": {"a": "b"}, "watch": None}
        | {"watch": {"error_rate": {"delta": 0.01}}}
    )
    asked = dict.fromkeys(CHANGEABLE)
    assert Config.parse({**BODY, "watch": None}).canonical == changed(other, asked).canonical


def test_the_fields_that_differ_are_named():
    """They are compared by meaning: an explicit default is no difference, false is not 0."""
    assert [] == fields_changed(CONFIG, changed(CONFIG, {"missing": "error", "tags": {}}))
    assert ["on_drift", "tags"] == fields_changed(CONFIG, changed(CONFIG, {"tags": {"a": "b"}, "on_drift": "reset"}))
    one, other = (Config.parse({**BODY, "labels": labels}) for labels in ([0, 1], [False, True]))
    assert ["labels"] == fields_changed(one, other)
    assert ["features"] == fields_changed(CONFIG, Config.parse({**BODY, "features": ["a"]}))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"on_drift": "reset", "missing": "mean", "description": "x"}, True), ({"watch": None}, True),
        ({"labels": ["UP", "DOWN", "SAME"]}, True),
        ({"features": ["a", {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}]}, True),
        ({"labels": ["DOWN", "UP"]}, False), ({"labels": None}, False),
        ({"features": ["a", {"name": "day", "type": "categorical", "categories": ["tue", "mon"]}]}, False),
        ({"features": ["a", "day"]}, False), ({"features": ["a"]}, False), ({"features": None}, False),
        ({"seed": 1}, False), ({"lags": 1}, False), ({"metrics": {"window": 500}}, False),
        ({"params": {"bias": False}}, False), ({"algorithm": "rls"}, False),
    ],
)  # fmt: skip
def test_a_state_is_accepted_if_the_mathematics_agree(other, expected):
    """Changeable fields may differ; labels and categories may have been added after the common ones."""
    config = Config.parse({**BODY, **other})
    assert (expected, expected) == (interchangeable(CONFIG, config), interchangeable(config, CONFIG))


def test_features_are_compared_without_copies(monkeypatch):
    """A model may have very many; 0 and false, which Python finds equal, are different categories."""
    monkeypatch.setattr(changes, "replace", None)
    zero, false = (
        Config.parse({**BODY, "features": [{"name": "a", "categories": [first, "x"]}, "b"]}) for first in (0, False)
    )
    assert [True, False] == [interchangeable(zero, other) for other in (zero.model_copy(), false)]


MORE_DAYS = ["a", {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}]


@pytest.mark.parametrize(
    ("change", "said", "allowed"),
    [
        ({"missing": "mean"}, {"missing": "differs from the model's value: PATCH"}, "error"),
        ({"class_costs": {"UP": 2}}, {"class_costs": "differs from the model's value: PATCH"}, None),
        ({"labels": ["UP", "DOWN", "SAME"]}, {"labels": "differ: PATCH adds some with add_labels"}, None),
        ({"labels": ["DOWN", "UP"]}, {"labels": "differ: they cannot be replaced"}, None),
        ({"labels": None}, {"labels": "were declared at creation"}, None),
        ({"features": MORE_DAYS}, {"features": "differ in their categories: PATCH adds some with add_cat"}, None),
        ({"features": ["a"]}, {"features": "differ: they need a switch"}, None),
        (
            {"params": {"forgetting_rate": 0.25}},
            {"params.forgetting_rate": "differs from the model's value, and cannot be changed"},
            "auto",
        ),
        ({"algorithm": "rls"}, {"algorithm": "differs from the model's value, and cannot be changed"}, "dfop"),
        ({"seed": 7}, {"seed": "differs from the model's value, and cannot be changed"}, 0),
    ],
)
def test_a_different_configuration_is_explained_field_by_field(change, said, allowed):
    """Each field, and each parameter, with what to do and, if it is short, the model's current value."""
    found = differences(CONFIG, Config.parse({**BODY, **change}))
    assert [*said] == [problem.field for problem in found]
    assert found[0].problem.startswith(said[found[0].field])
    assert allowed == found[0].allowed


def test_changeable_fields_come_first():
    """A model whose features and labels come from its rows says so."""
    found = differences(Config.parse({"task": "classification"}), Config.parse({**BODY, "on_drift": "reset"}))
    assert ["on_drift", "algorithm", "features", "labels"] == [problem.field for problem in found]
    assert {"were not declared at creation, but follow from the rows: omit them"} == {
        problem.problem for problem in found[2:]
    }
    assert [] == differences(CONFIG, Config.parse(BODY))
