"""What a body may set for the drift watch, and how wrong values are refused."""

import math

import pytest

from core.config import Config
from core.drift.detector import WatchTest as Settings
from tests.core.test_config import LEAST, refusal

NAMES = ["class_mean", "error_rate", "episode_rows", "cooldown_rows", "unlabelled"]
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
    """Left out, or with other keys only: both run; otherwise those listed and not null; without any it is null."""
    assert expected == watched(**given)["watch"]
    again = {**LEAST, "watch": expected}
    assert Config.parse({**LEAST, **given}).canonical == Config.parse(again).canonical


def test_sparse_rows_have_no_class_means():
    """Columns of sparse rows mix all names: only the error test runs; a refusal of the other lists what is allowed."""
    assert {"error_rate": BOTH["error_rate"]} == watched(algorithm="sparse_dfop")["watch"]
    assert NAMES[1:] == refusal(algorithm="sparse_dfop", watch={"class_mean": {}})["watch.class_mean"].allowed


KINDS, ACTIONS = ("class_mean", "error_rate"), ["report", "reset", "forget"]
UNFIT = {
    "delta": (-0.1, 0, 1, 1.0, 1.5, "0.05", True, math.nan, None),
    "batch_size": (1, 0, 10_001, 2.5, "200", True, None),
}
RANGES = {"delta": "> 0 and < 1", "batch_size": ">= 2 and <= 10000"}


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
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
def test_a_wrong_value_is_named_with_the_allowed_ones(given, field, allowed):
    """The refusal gives its path and its range or choices; an action needs a test that can trigger it."""
    found = refusal(**given)
    assert {field} == {*found}
    assert allowed == found[field].allowed


def test_actions_are_kept():
    """The configuration contains the requested action, and each action makes a different model."""
    texts = {Config.parse({**LEAST, "on_drift": action}).canonical for action in ("report", "reset", "forget")}
    assert 3 == len(texts)
    assert "forget" == watched(on_drift="forget")["on_drift"]
    assert Settings(delta=0.05, batch_size=200) == Config.parse(LEAST).watch.tests["class_mean"]
