"""The body of PUT /models/{name}: checked, completed, and compared by its meaning."""

import json
import math
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import Config
from core.config.config import SEED_MAX
from core.features import row_sample
from core.learners.catalogue import ALGORITHMS, every
from core.problems import Param
from tests.core.refusals import problems
from tests.core.twin import Fed

LEAST = {"algorithm": "dfop", "task": "classification"}
BOTH = {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {"delta": 0.05, "batch_size": 200}}


def refusal(**changes):
    """The problems of a body, by field."""
    body = {**LEAST, **changes}
    return {
        problem.field: problem
        for problem in problems(Config.parse, {name: value for name, value in body.items() if value is not ...})
    }


def test_every_default_is_filled_in():
    """The configuration contains the fields that a client left out."""
    params = {"forgetting_rate": "auto", "initial_variance": 1000.0, "bias": True, "variant": "default"}
    params |= {"scaling": "none", "random_features": 0}
    left_out = {"features": None, "labels": None, "missing": "error", "seed": 0, "watch": BOTH, "on_drift": "report"}
    expected = {**LEAST, "params": params, **left_out}
    assert expected == Config.parse(LEAST).to_json()
    assert expected == Config.parse({**LEAST, "params": None, "features": None, "labels": None}).to_json()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"missing": "error", "seed": 0, "params": {}}),
        ({"params": {"initial_variance": 1000}}, {"params": {"initial_variance": 1000.0}}),
        ({"params": {"forgetting_rate": "auto", "bias": True}}, {"params": {"bias": True}}),
        ({"labels": [1, 2]}, {"labels": [1.0, 2.0]}),
        ({"features": ["a", {"name": "b"}]}, {"features": [{"name": "a", "type": "numeric"}, "b"]}),
        ({"features": [{"name": "a", "min": 0, "max": 1}]}, {"features": [{"name": "a", "min": 0.0, "max": 1.0}]}),
        ({"class_costs": {"a": 2, "b": 1}}, {"class_costs": {"b": 1.0, "a": 2.0}}),
        ({"class_costs": {"a": 2, "b": 1}}, {"class_costs": {"a": 2}}),
        ({"class_costs": {}}, {"class_costs": None}),
        ({"metrics": {"window": 1000}}, {"metrics": None}),
        ({"metrics": {"window": 20}}, {"metrics": {"window": 20, "fading": 0.999}}),
        ({"labels_due": {"after_s": 5, "then": "drop"}}, {"labels_due": {"then": "drop", "after_s": 5}}),
        ({"labels_due": None}, {}),
    ],
)
def test_bodies_that_mean_the_same_are_the_same(one, other):
    """An integer for a number, an explicit or omitted default: the same canonical text."""
    assert Config.parse({**LEAST, **one}).canonical == Config.parse({**LEAST, **other}).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"labels": [0, 1]}, {"labels": [False, True]}), ({"labels": ["0", "1"]}, {"labels": [0, 1]}),
        ({"labels": ["a", "b"]}, {"labels": ["b", "a"]}), ({"labels": ["a", "b"]}, {}),
        ({"features": ["a", "b"]}, {"features": ["b", "a"]}),
        ({"features": [{"name": "a", "min": 0}]}, {"features": ["a"]}), ({"seed": 1}, {}),
        ({"params": {"bias": False}}, {}), ({"missing": "zero"}, {"missing": "mean"}), ({"task": "regression"}, {}),
        ({"class_costs": {"a": 1}}, {}), ({"metrics": {"window": 20}}, {}), ({"on_drift": "reset"}, {}),
        ({"on_drift": "reset"}, {"on_drift": "forget"}), ({"labels_due": {"after_s": 5, "then": "drop"}}, {}),
        ({"labels_due": {"after_s": 5, "then": {"label": 1}}}, {"labels_due": {"after_s": 5, "then": {"label": True}}}),
    ],
)  # fmt: skip
def test_bodies_that_mean_something_else_differ(one, other):
    """0 is not false, order matters, a range is part of a feature."""
    assert Config.parse({**LEAST, **one}).canonical != Config.parse({**LEAST, **other}).canonical


FIELDS = st.fixed_dictionaries(
    {
        "labels": st.none() | st.lists(st.integers(-5, 5) | st.sampled_from(["x", "", "é"]), min_size=2, unique=True),
        "features": st.none() | st.lists(st.sampled_from("abcdé"), min_size=1, unique=True),
        "missing": st.sampled_from(["error", "zero", "mean"]),
        "seed": st.integers(0, SEED_MAX),
        "params": st.fixed_dictionaries({"forgetting_rate": st.floats(1e-12, 0.5)}),
    }
)


@given(FIELDS)
def test_a_configuration_survives_json(fields):
    """Written to the store and read back, it is the same, whatever its content."""
    config = Config.parse({**LEAST, **fields})
    again = Config.parse(json.loads(config.canonical))
    assert (config, config.canonical) == (again, again.canonical)
    assert config.canonical == Config.parse(config.to_json()).canonical


TASKS = ["classification", "regression"]
KINDS, ACTIONS = ("class_mean", "error_rate"), ["report", "reset", "forget"]
NAMES = [*KINDS, "episode_rows", "cooldown_rows", "unlabelled"]
UNFIT = {
    "delta": (-0.1, 0, 1, 1.0, 1.5, "0.05", True, math.nan, None),
    "batch_size": (1, 0, 10_001, 2.5, "200", True, None),
}
RANGES = {"delta": "> 0 and < 1", "batch_size": ">= 2 and <= 10000"}
YES_OR_NO = {"labels": ["no", "yes"]}
KNOWN_PARAMS = ["bias", "forgetting_rate", "initial_variance", "random_features", "scaling", "variant"]


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({"lables": ["a", "b"]}, "lables", Config.names()),
        *(({"algorithm": value}, "algorithm", ANY) for value in (5, None, ["dfop"])),
        ({"algorithm": "oracle"}, "algorithm", [*every()]),
        *(({"task": value}, "task", TASKS) for value in (..., None, "clustering", 1, [])),
        ({"algorithm": ..., "task": ...}, "task", TASKS),
        *(({"params": value}, "params", ANY) for value in ([], "x", 1, True)),
        ({"params": {"mu": 1}}, "params.mu", KNOWN_PARAMS),
        *(
            ({"params": {"forgetting_rate": value}}, "params.forgetting_rate", '> 0 and <= 0.5 or "auto"')
            for value in (0, -0.1, 0.51, True, "0.1", None, math.nan)
        ),
        *(
            ({"params": {"initial_variance": value}}, "params.initial_variance", "> 0 and <= 1e+12")
            for value in (math.inf, [1])
        ),
        ({"params": {"initial_variance": 10**400}}, "params.initial_variance", None),
        *(({"params": {"bias": value}}, "params.bias", [True, False]) for value in (1, "true")),
        *(({"seed": value}, "seed", f">= 0 and <= {SEED_MAX}") for value in (-1, SEED_MAX + 1, 1.0, True, "1", None)),
        *(({"missing": value}, "missing", ["error", "zero", "mean"]) for value in ("drop", "", None, 0, False)),
        *(({"lags": value}, "lags", ">= 0 and <= 10") for value in (-1, 11, 1.0, True, "2", None)),
        ({"labels": [0, "0"]}, "labels[1]", ANY),
        *(({"labels": value}, "labels", "2 to 100 labels") for value in ([*range(101)], {"a": 1})),
        ({"labels": [0, 1], "task": "regression"}, "labels", ANY),
        ({"features": ["a", "a"]}, "features[1]", ANY),
        ({"features": [{"name": "a", "kind": "numeric"}]}, "features[0].kind", ANY),
        ({"features": []}, "features", "1 to 100000 names or objects"),
        *(({"metrics": {"window": value}}, "metrics.window", ">= 10 and <= 100000") for value in (9, 100_001, True)),
        *(({"metrics": {"fading": value}}, "metrics.fading", ">= 0.9 and <= 0.999999") for value in (1, 0.89)),
        ({"metrics": {"windows": 10}}, "metrics.windows", ["window", "fading"]),
        ({"metrics": 1000}, "metrics", ["window", "fading"]),
        *(({**YES_OR_NO, "class_costs": value}, "class_costs", ANY) for value in (5, [5])),
        ({**YES_OR_NO, "class_costs": {"maybe": 5}}, "class_costs.maybe", ["no", "yes"]),
        *(
            ({**YES_OR_NO, "class_costs": {"yes": value}}, "class_costs.yes", ANY)
            for value in (0, -1, True, "5", None, math.inf, math.nan, 10**400)
        ),
        ({"class_costs": {f"class {k}": 2 for k in range(101)}}, "class_costs", ANY),
        ({"class_costs": {"a": 2}, "task": "regression"}, "class_costs", ANY),
        *(
            ({"watch": {kind: {name: value}}}, f"watch.{kind}.{name}", RANGES[name])
            for kind in KINDS
            for name, values in UNFIT.items()
            for value in values
        ),
        *(({"watch": {kind: {"batchsize": 200}}}, f"watch.{kind}.batchsize", [*RANGES]) for kind in KINDS),
        *(
            ({"watch": {name: value}}, f"watch.{name}", ">= 0 and <= 1e+09")
            for name in ("episode_rows", "cooldown_rows")
            for value in (-1, 1.5, "100", True, None, 10**9 + 1)
        ),
        *(({"watch": {"unlabelled": value}}, "watch.unlabelled", [True, False]) for value in (0, 1, "true", None, {})),
        *(({"watch": value}, "watch", NAMES) for value in (1, ["class_mean"])),
        ({"watch": {"mean": {}}}, "watch.mean", NAMES),
        ({"watch": {"class_mean": 0.05}}, "watch.class_mean", [*RANGES]),
        *(({"on_drift": value}, "on_drift", ACTIONS) for value in ("restart", None, ["reset"])),
        ({"on_drift": "reset", "watch": None}, "on_drift", ["report"]),
        ({"on_drift": "forget", "watch": {}}, "on_drift", ["report"]),
    ],
)
def test_a_wrong_value_is_named_with_the_allowed_ones(body, field, allowed):
    """Unknown, of another type or out of range: path and range or choices; an action needs a test that triggers it."""
    found = refusal(**body)
    assert {field} == {*found}
    assert allowed == found[field].allowed


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_only_the_task_is_needed(task):
    """Without an algorithm it is `auto` at medium size; an algorithm with a single task needs no task."""
    config = Config.parse({"task": task})
    assert ("auto", task, {"size": "medium"}) == (config.algorithm_id, config.task, config.params)
    assert Config.parse({"algorithm": "auto", "task": task}) == config
    assert "classification" == Config.parse({"algorithm": "vigow"}).task


@pytest.mark.parametrize(
    ("param", "value", "problem"),
    [
        (Param("rows", "integer", 1, ""), 1.5, "must be an integer"),
        (Param("rate", "number", 1.0, ""), "fast", "must be a number"),
        (Param("rate", "number", 1.0, "", choices=("auto",)), "fast", "must be a number or one of the words"),
        (Param("rate", "number", 1.0, "", choices=("auto",)), None, "must be a number or one of the words"),
        (Param("bias", "boolean", True, ""), 1, "must be a boolean"),
        (Param("reset", "choice", "full", "", choices=("full", "mean")), "half", "is not one of the choices"),
    ],
)
def test_a_wrong_type_is_refused_with_the_right_one(param, value, problem):
    """The message uses the right article, and mentions words if some are allowed besides a number."""
    assert problem == problems(param.check, value)[0].problem


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.id)
@pytest.mark.parametrize("d", [1, 7, 40])
def test_the_announced_size_is_the_size(monkeypatch, algorithm, d):
    """The size checked before anything is allocated is the size it takes, with a full sample of rows."""
    monkeypatch.setattr(row_sample, "SAMPLE_ROWS_MAX", 30)
    columns = {"params": {"compressed_dim": d}} if algorithm.sparse else {"features": [f"x{i}" for i in range(d)]}
    model = Fed({"algorithm": algorithm.id, "task": algorithm.tasks[0], **columns})
    machine = model.machine
    labels = [0, 1] * 15 if machine.config.task == "classification" else np.zeros(30)
    model.learn(np.random.default_rng(0).normal(size=(30, d)), labels)
    held = machine.pipeline.nbytes - machine.pipeline.encoder.nbytes + machine.own.drift_response.detector.nbytes
    assert 1.0 >= held / machine.config.state_bytes(d) >= 0.5


def test_costs_name_labels_by_their_json_keys():
    """The label false is declared as false and named "false"; without declared labels any key is allowed."""
    assert {"false": 2.5} == Config.parse({**LEAST, "labels": [False, "a"], "class_costs": {"false": 2.5}}).class_costs
    assert ["false", "a"] == refusal(labels=[False, "a"], class_costs={"0": 2})["class_costs.0"].allowed
    assert {"anything": 2.0} == Config.parse({**LEAST, "class_costs": {"anything": 2}}).class_costs


def test_costs_need_probabilities(monkeypatch):
    """An expected cost needs a probability."""
    silent = replace(ALGORITHMS["dfop"], id="silent", probabilities=False)
    monkeypatch.setitem(ALGORITHMS, "silent", silent)
    assert "which silent does not have" in refusal(algorithm="silent", class_costs={"a": 2})["class_costs"].problem


def test_a_field_among_the_parameters_is_sent_back_to_its_place():
    """Parameters belong to the algorithm; the refusal says where the field belongs."""
    found = refusal(params={"class_costs": {"UP": 2}, "missing": "mean", "bias": True})
    assert {"params.class_costs", "params.missing"} == {*found}
    assert 'is a field of the model: write it next to "params"' == found["params.missing"].problem


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, BOTH),
        ({"watch": {"class_mean": {}, "error_rate": {"delta": 0.05}}}, BOTH),
        (
            {"watch": {"error_rate": {"delta": 0.01, "batch_size": 50}}},
            {"error_rate": {"delta": 0.01, "batch_size": 50}},
        ),
        ({"watch": {"class_mean": {}, "error_rate": None}}, {"class_mean": BOTH["class_mean"]}),
        ({"watch": {"error_rate": None}}, None),
        ({"watch": {"episode_rows": 1000, "cooldown_rows": 0}}, BOTH),
        ({"watch": {"episode_rows": 50}}, {**BOTH, "episode_rows": 50}),
        ({"watch": {"cooldown_rows": 50, "error_rate": {}}}, {"error_rate": BOTH["error_rate"], "cooldown_rows": 50}),
        ({"watch": {"cooldown_rows": 50, "error_rate": None}}, None),
        ({"watch": {"unlabelled": True}}, {**BOTH, "unlabelled": True}),
        ({"watch": {"unlabelled": True, "class_mean": None}}, {"error_rate": None, "unlabelled": True}),
        ({"watch": {}}, None),
        ({"watch": None}, None),
    ],
)
def test_a_watch_lists_the_tests_that_run(given, expected):
    """Left out, or with other keys only: both run; otherwise those listed and not null; without any it is null."""
    config = Config.parse({**LEAST, **given})
    assert expected == config.to_json()["watch"]
    assert config.canonical == Config.parse({**LEAST, "watch": expected}).canonical


def test_sparse_rows_have_no_class_means():
    """Columns of sparse rows mix all names: only the error test runs; a refusal of the other lists what is allowed."""
    sparse = Config.parse({**LEAST, "algorithm": "sparse_dfop"})
    assert {"error_rate": BOTH["error_rate"]} == sparse.to_json()["watch"]
    assert NAMES[1:] == refusal(algorithm="sparse_dfop", watch={"class_mean": {}})["watch.class_mean"].allowed
