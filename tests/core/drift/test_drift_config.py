"""What a body may say of the drift watch, and how it is refused."""

import pytest

from core.config import Config
from core.drift.detector import WatchTest as Settings
from core.problems import Invalid

LEAST = {"algorithm": "dfop", "task": "classification"}
BOTH = {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {"delta": 0.05, "batch_size": 200}}


def watched(**changes):
    return Config.parse({**LEAST, **changes}).to_json()


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
    """Left out, or nothing but other keys: both; else those that are listed and not null; none is null."""
    assert expected == watched(**given)["watch"]
    again = {**LEAST, "watch": expected}
    assert Config.parse({**LEAST, **given}).canonical == Config.parse(again).canonical


def test_sparse_rows_have_no_class_means():
    """Their columns mix all names: the error test alone is on, and the other one is refused with what there is."""
    assert {"error_rate": BOTH["error_rate"]} == watched(algorithm="sparse_dfop")["watch"]
    with pytest.raises(Invalid) as refused:
        watched(algorithm="sparse_dfop", watch={"class_mean": {}})
    (problem,) = refused.value.problems
    assert ("watch.class_mean", "error_rate") == (problem.field, problem.allowed[0])
    assert "class_mean" not in problem.allowed


@pytest.mark.parametrize("kind", ["class_mean", "error_rate"])
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *(("delta", value, "> 0 and < 1") for value in (-0.1, 0, 1, 1.0, 1.5, "0.05", True, float("nan"), None)),
        *(("batch_size", value, ">= 2 and <= 10000") for value in (1, 0, 10_001, 2.5, "200", True, None)),
        ("batchsize", 200, ["delta", "batch_size"]),
    ],
)
def test_settings_out_of_range_say_the_range(kind, name, value, allowed):
    """Named in full, with what would be right."""
    with pytest.raises(Invalid) as refused:
        watched(watch={kind: {name: value}})
    assert (f"watch.{kind}.{name}", allowed) == (refused.value.problems[0].field, refused.value.problems[0].allowed)


@pytest.mark.parametrize("value", [0, 1, "true", None, {}])
def test_unlabelled_is_true_or_false(value):
    """Nothing that looks like it."""
    with pytest.raises(Invalid) as refused:
        watched(watch={"unlabelled": value})
    assert "watch.unlabelled" == refused.value.problems[0].field


@pytest.mark.parametrize("name", ["episode_rows", "cooldown_rows"])
@pytest.mark.parametrize("value", [-1, 1.5, "100", True, None, 10**9 + 1])
def test_lengths_out_of_range_say_the_range(name, value):
    """Of an episode and of the cool-down: whole rows."""
    with pytest.raises(Invalid) as refused:
        watched(watch={name: value})
    (problem,) = refused.value.problems
    assert (f"watch.{name}", ">= 0 and <= 1e+09") == (problem.field, problem.allowed)


@pytest.mark.parametrize(
    ("watch", "field"),
    [(1, "watch"), (["class_mean"], "watch"), ({"mean": {}}, "watch.mean"), ({"class_mean": 0.05}, "watch.class_mean")],
)
def test_other_tests_and_types_are_refused(watch, field):
    """What is no object, or an unknown test, is named; a watch names the tests there are."""
    with pytest.raises(Invalid) as refused:
        watched(watch=watch)
    assert field == refused.value.problems[0].field
    assert refused.value.problems[0].allowed is not None


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"on_drift": "restart"}, ["report", "reset", "forget"]),
        ({"on_drift": None}, ["report", "reset", "forget"]),
        ({"on_drift": ["reset"]}, ["report", "reset", "forget"]),
        ({"on_drift": "reset", "watch": None}, ["report"]),
        ({"on_drift": "forget", "watch": {}}, ["report"]),
    ],
)
def test_an_action_that_cannot_be_is_refused(given, allowed):
    """Unknown ones, and those that nothing would ever ask for."""
    with pytest.raises(Invalid) as refused:
        watched(**given)
    assert ("on_drift", allowed) == (refused.value.problems[0].field, refused.value.problems[0].allowed)


def test_actions_are_kept():
    """What was asked for stands in the configuration; it makes another model."""
    texts = {Config.parse({**LEAST, "on_drift": action}).canonical for action in ("report", "reset", "forget")}
    assert 3 == len(texts)
    assert "forget" == watched(on_drift="forget")["on_drift"]
    assert Settings(delta=0.05, batch_size=200) == Config.parse(LEAST).watch.tests["class_mean"]
