"""The configuration of drift detection: which tests run, and what happens when one of them fires.

    "watch": {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {...},
              "episode_rows": 1000, "cooldown_rows": 0, "unlabelled": false} | null
    "on_drift": "report" | "reset" | "forget"

Without "watch" all tests run. A watch that names a test runs those it names (null for a named test: it does not run);
one that holds other keys only runs all of them. Null and {} run none.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from core.drift.outbox import OnDrift
from core.learners.algorithm import Algorithm
from core.problems import Checked, Invalid, Param, suggestion

KINDS = ("class_mean", "error_rate")
ROWS_MAX = 1_000_000_000
DELTA = Param(
    "delta", "number", 0.05, "Bound on the chance of a false alarm. Left out: 0.05.", minimum=0.0, maximum=1.0,
    exclusive_minimum=True, exclusive_maximum=True,
)  # fmt: skip
BATCH_SIZE = Param(
    "batch_size", "integer", 200, "Rows of a class in a recent window. Left out: 200.", minimum=2, maximum=10_000
)
EPISODE_ROWS = Param(
    "episode_rows", "integer", 1000,
    "Alarms in so many rows after the first one of an event join it. Left out: 1000.", minimum=0, maximum=ROWS_MAX,
)  # fmt: skip
COOLDOWN_ROWS = Param(
    "cooldown_rows", "integer", 0, "Events in so many rows after an event are listed and streamed, but not acted upon "
    "and not sent to webhooks. Left out: 0.", minimum=0, maximum=ROWS_MAX,
)  # fmt: skip
UNLABELLED = Param(
    "unlabelled", "boolean", False, "Whether features and predictions of tracked rows are tested before their labels "
    "come: events of kind `unlabelled`, which may come twice or not at all. Left out: they are not.",
)  # fmt: skip


class WatchTest(Checked):
    """The settings of a drift test."""

    strange: ClassVar[str] = "is not a setting of a test"
    delta: Annotated[float, DELTA] = DELTA.default
    batch_size: Annotated[int, BATCH_SIZE] = BATCH_SIZE.default


def _object(given: object) -> object:
    if given is None or isinstance(given, Mapping | WatchTest):
        return given
    raise Invalid.of("", "must be an object or null", WatchTest.names())


_Test = Annotated[WatchTest | None, BeforeValidator(_object)]


class Watch(Checked):
    """The drift tests, and which of their alarms are one event.

    Where a test is named, those that are named run and no others (null: not this one); with other keys only, all run.
    """

    class_mean: _Test = Field(None, description="The means of the features in each class.")
    error_rate: _Test = Field(None, description="How often the model is wrong.")
    episode_rows: Annotated[int, EPISODE_ROWS] = EPISODE_ROWS.default
    cooldown_rows: Annotated[int, COOLDOWN_ROWS] = COOLDOWN_ROWS.default
    unlabelled: Annotated[bool, UNLABELLED] = UNLABELLED.default

    @property
    def tests(self) -> Mapping[str, WatchTest]:
        """The tests that run, by kind; none for a model that is not watched."""
        return {kind: test for kind in KINDS if (test := getattr(self, kind)) is not None}

    def to_json(self) -> dict[str, Any] | None:
        """As clients send it; without what has its default, so that it reads as before there was more."""
        if not self.tests and not self.unlabelled:
            return None
        tests: dict[str, Any] = {kind: test.model_dump() for kind, test in self.tests.items()}
        settings = self.model_dump(exclude={*KINDS}, exclude_defaults=True)
        return (tests or {"error_rate": None}) | settings


def kinds(algorithm: Algorithm) -> tuple[str, ...]:
    """The tests of an algorithm. Columns of sparse rows mix all names, so their means are not tested."""
    return KINDS[1:] if algorithm.sparse else KINDS


def with_tests(given: object, algorithm: Algorithm) -> dict[str, Any]:
    """A body's ``watch``, with every test that it means; raises ``Invalid`` for a test or setting there is not."""
    known = kinds(algorithm)
    allowed = [*known, *(name for name in Watch.names() if name not in KINDS)]
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid.of("", "must be an object or null", allowed)
    for name in given:
        if name not in allowed:
            problem = f"is not a test or setting that {algorithm.id} is watched with{suggestion(name, allowed)}"
            raise Invalid.of(f".{name}", problem, allowed)
    names_none = given and not any(kind in given for kind in known)
    return {**({kind: {} for kind in known} if names_none else {}), **given}


def check_on_drift(action: OnDrift, tests: Mapping[str, WatchTest], algorithm: Algorithm) -> OnDrift:
    """What happens at an alarm; raises ``Invalid`` for what there is not, or not with these tests and algorithm."""
    allowed: list[OnDrift] = ["report"]
    if tests:
        allowed += ["reset", "forget"] if algorithm.forgets else ["reset"]
    if action in allowed:
        return action
    if action == "forget" and not algorithm.forgets:
        raise Invalid.of("", f"is not something {algorithm.id} can do", allowed)
    if action in ("reset", "forget"):
        raise Invalid.of("", "has nothing to act on: the model is not watched for drift", allowed)
    raise Invalid.of("", "is not one of the choices", allowed)
