"""The configuration of drift detection: which tests run, and what happens when one of them fires.

    "watch": {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {...},
              "episode_rows": 1000, "cooldown_rows": 0, "unlabelled": false} | null
    "on_drift": "report" | "reset" | "forget"

Without "watch" all tests run. A watch that names tests runs only those, and of them none that is set to null. A watch
with other keys only runs all tests. Null and {} run none.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from core.drift.detector import WatchTest
from core.drift.outbox import OnDrift
from core.learners.algorithm import Algorithm
from core.problems import Checked, Invalid, Param, suggestion

KINDS = ("class_mean", "error_rate")
ROWS_MAX = 1_000_000_000
EPISODE_ROWS = Param(
    "episode_rows", "integer", 1000,
    "Alarms within this many rows after an event's first one join it. Default: 1000.", ge=0, le=ROWS_MAX,
)  # fmt: skip
COOLDOWN_ROWS = Param(
    "cooldown_rows", "integer", 0, "Events within this many rows after an event are listed and streamed, but trigger "
    "no action and no webhook. Default: 0.", ge=0, le=ROWS_MAX,
)  # fmt: skip
UNLABELLED = Param(
    "unlabelled", "boolean", False, "Whether to test features and predictions of tracked rows before their labels "
    "arrive. The events have kind `unlabelled` and may be repeated or lost. Default: false.",
)  # fmt: skip


def _object(given: object) -> object:
    if given is None or isinstance(given, Mapping | WatchTest):
        return given
    raise Invalid.of("", "must be an object or null", WatchTest.names())


_Test = Annotated[WatchTest | None, BeforeValidator(_object)]


class Watch(Checked):
    """The drift tests, and how their alarms are grouped into events.

    If it names a test, only the named tests run (null: not this one); otherwise all run.
    """

    class_mean: _Test = Field(None, description="Tests the means of the features in each class.")
    error_rate: _Test = Field(None, description="Tests how often the model is wrong.")
    episode_rows: Annotated[int, EPISODE_ROWS] = EPISODE_ROWS.default
    cooldown_rows: Annotated[int, COOLDOWN_ROWS] = COOLDOWN_ROWS.default
    unlabelled: Annotated[bool, UNLABELLED] = UNLABELLED.default

    @property
    def tests(self) -> Mapping[str, WatchTest]:
        """The tests that run, by kind; none for a model that is not watched."""
        return {kind: test for kind in KINDS if (test := getattr(self, kind)) is not None}

    def to_json(self) -> dict[str, Any] | None:
        """The JSON that clients send, without defaults, so that older configurations keep their form."""
        if not self.tests and not self.unlabelled:
            return None
        tests: dict[str, Any] = {kind: test.model_dump() for kind, test in self.tests.items()}
        settings = self.model_dump(exclude={*KINDS}, exclude_defaults=True)
        return (tests or {"error_rate": None}) | settings


def kinds(algorithm: Algorithm) -> tuple[str, ...]:
    """The tests of an algorithm. Columns of sparse rows mix all names, so their means are not tested."""
    return KINDS[1:] if algorithm.sparse else KINDS


def with_tests(given: object, algorithm: Algorithm) -> dict[str, Any]:
    """A body's ``watch`` with every test that runs; raises ``Invalid`` for an unknown test or setting."""
    known = kinds(algorithm)
    allowed = [*known, *(name for name in Watch.names() if name not in KINDS)]
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid.of("", "must be an object or null", allowed)
    for name in given:
        if name not in allowed:
            problem = f"is not a drift test or setting of {algorithm.id}{suggestion(name, allowed)}"
            raise Invalid.of(f".{name}", problem, allowed)
    names_none = given and not any(kind in given for kind in known)
    return {**({kind: {} for kind in known} if names_none else {}), **given}


def check_on_drift(action: OnDrift, tests: Mapping[str, WatchTest], algorithm: Algorithm) -> OnDrift:
    """The response to alarms; raises ``Invalid`` if it does not exist, or not with these tests and algorithm."""
    allowed: list[OnDrift] = ["report"]
    if tests:
        allowed += ["reset", "forget"] if algorithm.forgets else ["reset"]
    if action in allowed:
        return action
    if action == "forget" and not algorithm.forgets:
        raise Invalid.of("", f"is not supported by {algorithm.id}", allowed)
    if action in ("reset", "forget"):
        raise Invalid.of("", "has no effect: the model has no drift test", allowed)
    raise Invalid.of("", "is not one of the choices", allowed)
