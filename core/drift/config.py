"""The configuration of drift detection: which tests run, and what happens when one of them fires.

    "watch": {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {...},
              "episode_rows": 1000, "cooldown_rows": 0, "unlabelled": false} | null
    "on_drift": "report" | "reset" | "forget"

Without "watch" all tests run. A watch that names a test runs those it names (null for a named test: it does not run);
one that holds other keys only runs all of them. Null and {} run none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.algorithm import Algorithm, Param
from core.problems import Invalid, suggestion

OnDrift = Literal["report", "reset", "forget"]
KINDS = ("class_mean", "error_rate")
DELTA = 0.05
BATCH_SIZE = 200
BATCH_SIZE_MAX = 10_000
EPISODE_ROWS = 1000
COOLDOWN_ROWS = 0
ROWS_MAX = 1_000_000_000

_DELTA = Param(
    "delta", "number", DELTA, "Bound on the chance of a false alarm in one test.", minimum=0.0, maximum=1.0,
    exclusive_minimum=True, exclusive_maximum=True,
)  # fmt: skip
_BATCH_SIZE = Param(
    "batch_size", "integer", BATCH_SIZE, "Rows of a class in a recent window.", minimum=2, maximum=BATCH_SIZE_MAX
)
_SETTINGS = {
    "episode_rows": Param(
        "episode_rows", "integer", EPISODE_ROWS, "Rows after the first alarm of an event in which later ones join it.",
        minimum=0, maximum=ROWS_MAX,
    ),
    "cooldown_rows": Param(
        "cooldown_rows", "integer", COOLDOWN_ROWS, "Rows after an event in which others are neither acted upon nor "
        "sent to webhooks.", minimum=0, maximum=ROWS_MAX,
    ),
    "unlabelled": Param(
        "unlabelled", "boolean", False, "Whether rows whose labels are awaited are tested for drift, beside the model."
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Test:
    """The settings of one test.

    Attributes:
        delta: bound on the chance of a false alarm, per class and test.
        batch_size: rows in the longest recent window, |B|.
    """

    delta: float = DELTA
    batch_size: int = BATCH_SIZE

    def to_json(self) -> dict[str, Any]:
        """As ``parse_watch`` reads it."""
        return {"delta": self.delta, "batch_size": self.batch_size}


Tests = Mapping[str, Test]
"""The tests that run, by kind; none for a model that is not watched."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a model is watched with.

    Attributes:
        tests: the tests that run.
        episode_rows: alarms in so many rows after the first alarm of an event join it.
        cooldown_rows: events in so many rows after an event are neither acted upon nor sent to webhooks.
        unlabelled: whether features and predictions of rows whose labels are awaited are tested, beside the model.
    """

    tests: Tests = field(default_factory=dict)
    episode_rows: int = EPISODE_ROWS
    cooldown_rows: int = COOLDOWN_ROWS
    unlabelled: bool = False

    def to_json(self) -> dict[str, Any] | None:
        """As ``parse_watch`` reads it; without what has its default, so that it reads as before there was more."""
        if not self.tests and not self.unlabelled:
            return None
        tests: dict[str, Any] = {kind: test.to_json() for kind, test in self.tests.items()} or {"error_rate": None}
        return tests | {
            name: getattr(self, name) for name, param in _SETTINGS.items() if getattr(self, name) != param.default
        }


def kinds(algorithm: Algorithm) -> tuple[str, ...]:
    """The tests of an algorithm. Columns of sparse rows mix all names, so their means are not tested."""
    return KINDS[1:] if algorithm.sparse else KINDS


def parse_watch(raw: Mapping[str, Any], algorithm: Algorithm) -> Watch:
    """A body's ``watch``.

    Raises:
        Invalid: naming the field and what would be allowed.
    """
    known = kinds(algorithm)
    everything = {kind: Test() for kind in known}
    if "watch" not in raw:
        return Watch(everything)
    given, allowed = raw["watch"], [*known, *_SETTINGS]
    if given is None:
        return Watch()
    if not isinstance(given, Mapping):
        raise Invalid.of("watch", "must be an object or null", allowed)
    for name in given:
        if name not in allowed:
            problem = f"is not a test or setting that {algorithm.id} is watched with{suggestion(name, allowed)}"
            raise Invalid.of(f"watch.{name}", problem, allowed)
    tests = {kind: _test(given[kind], f"watch.{kind}") for kind in known if given.get(kind) is not None}
    if given and not any(kind in given for kind in known):
        tests = everything
    settings = {name: param.check(given.get(name, param.default), "watch") for name, param in _SETTINGS.items()}
    return Watch(tests, **settings)


def _test(given: object, field: str) -> Test:
    if not isinstance(given, Mapping):
        raise Invalid.of(field, "must be an object or null", ["delta", "batch_size"])
    for name in given:
        if name not in {"delta", "batch_size"}:
            raise Invalid.of(f"{field}.{name}", "is not a setting of a test", ["delta", "batch_size"])
    return Test(
        _DELTA.check(given.get("delta", DELTA), field), _BATCH_SIZE.check(given.get("batch_size", BATCH_SIZE), field)
    )


def parse_on_drift(raw: Mapping[str, Any], tests: Tests, algorithm: Algorithm) -> OnDrift:
    """What happens at an alarm.

    Raises:
        Invalid: no such action, one that nothing would ever ask for, or one that the algorithm does not have.
    """
    action: OnDrift = raw.get("on_drift", "report")
    allowed: list[OnDrift] = ["report"]
    if tests:
        allowed += ["reset", "forget"] if algorithm.forgets else ["reset"]
    if action in allowed:
        return action
    if action == "forget" and not algorithm.forgets:
        raise Invalid.of("on_drift", f"is not something {algorithm.id} can do", allowed)
    if action in ("reset", "forget"):
        raise Invalid.of("on_drift", "has nothing to act on: the model is not watched for drift", allowed)
    raise Invalid.of("on_drift", "is not one of the choices", allowed)
