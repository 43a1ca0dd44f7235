"""What the models of a sample live through, as requests that the code of their formats took.

A story begins with an empty model. What is in its log after a snapshot is applied by the code that reads the sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OLD, NEW, UNION = ["a", "b"], ["b", "c"], ["a", "b", "c"]
SNAPSHOT = ("snapshots", None)
WATCH = {"class_mean": {"batch_size": 40}}
WORDS = ["cheap", "pills", "meeting", "now", "then"]
Step = tuple[str, Any]
"""What is asked of the model, as METHOD and path or as path alone (POST), and the body."""


@dataclass(frozen=True)
class Story:
    """One model.

    Attributes:
        name: of it.
        config: the body that creates it.
        steps: what follows.
        probes: rows that are predicted at the end.
        more: rows that are learned by the code that reads the sample, as bodies of feedback.
        since: the first format whose code can do this.
    """

    name: str
    config: dict[str, Any]
    steps: Sequence[Step]
    probes: Sequence[dict[str, Any]]
    more: Sequence[dict[str, Any]]
    since: int = 3


def row(number: int, names: Sequence[str] = OLD) -> dict[str, float]:
    """A row of a small stream; c is linear in a and b."""
    a, b = ((number * 37) % 11) / 11 - 0.5, ((number * 53) % 13) / 13 - 0.5
    values = {"a": a, "b": b, "c": 2 * a - b}
    return {name: values[name] for name in names}


def words(number: int) -> dict[str, float]:
    """A row of named features, most of them absent."""
    return {word: 1.0 + number % 3 for at, word in enumerate(WORDS) if (number + at) % 3 == 0}


def amount(number: int) -> float:
    """The label of a regression."""
    known = row(number)
    return 2.0 * known["a"] - known["b"] + 0.1 * (number % 5)


def side(number: int) -> str:
    """The label of a classification."""
    known = row(number)
    return "UP" if known["a"] > known["b"] else "DOWN"


def one(number: int, label: Any, names: Sequence[str] = OLD, **more: Any) -> dict[str, Any]:
    """A row as the body of a feedback."""
    return {"features": row(number, names), "label": label(number), **more}


def rows(numbers: range, label: Any, names: Sequence[str] = OLD) -> list[Step]:
    """Rows one by one, every second one with an id."""
    known = [{"id": f"row-{number}"} if number % 2 else {} for number in numbers]
    return [("feedback", one(number, label, names, **own)) for number, own in zip(numbers, known, strict=True)]


def batch(numbers: range, label: Any, *, ids: bool = False, moved: float = 0.0) -> Step:
    """Rows as a table; ``moved``: by how much the first feature has drifted."""
    known = [row(number) for number in numbers]
    body: dict[str, Any] = {"columns": OLD, "data": [[features["a"] + moved, features["b"]] for features in known]}
    body["labels"] = [label(number) for number in numbers]
    return ("feedback/batch", body | ({"ids": [f"batch-{number}" for number in numbers]} if ids else {}))


def probes(names: Sequence[str] = OLD) -> list[dict[str, float]]:
    """Rows that are predicted."""
    return [row(number, names) for number in (3, 8, 40)]


def more(label: Any, names: Sequence[str] = OLD) -> list[dict[str, Any]]:
    """Rows that are learned later."""
    return [one(number, label, names) for number in (50, 51, 52)]


def track(number: int) -> Step:
    """A prediction that waits for its label."""
    return ("predict", {"features": row(number), "track": True})


NUMBERS = {"algorithm": "rls", "task": "regression", "features": OLD}
CLASSES = {"algorithm": "dfop", "task": "classification", "features": OLD, "labels": ["UP", "DOWN"]}
SWITCH = ("features/switch", {"action": "begin", "features": NEW, "mapping": "linear"})
PAIRS = ("features/overlap", {"columns": UNION, "data": [[*row(number, UNION).values()] for number in range(20, 27)]})
OVERLAP = [*rows(range(12), amount), SWITCH, SNAPSHOT, PAIRS, *rows(range(30, 36), amount, UNION)]
RESTORED = [*rows(range(6), amount), SNAPSHOT, *rows(range(10, 14), amount), ("restore", {"version": 6})]

STORIES = (
    Story("empty", NUMBERS, (), (), more(amount)),
    Story(
        "numbers",
        NUMBERS,
        [
            *rows(range(10), amount),
            batch(range(10, 20), amount, ids=True),
            track(60),
            track(61),
            SNAPSHOT,
            *rows(range(20, 26), amount),
            batch(range(26, 30), amount, ids=True),
        ],
        probes(),
        more(amount),
    ),
    Story(
        "classes",
        {**CLASSES, "watch": WATCH},
        [*rows(range(8), side), track(60), SNAPSHOT, *rows(range(8, 14), side), batch(range(14, 30), side)],
        probes(),
        more(side),
    ),
    Story("log-alone", {**CLASSES, "algorithm": "rls"}, [*rows(range(9), side)], probes(), more(side)),
    Story(
        "drifts",
        {**CLASSES, "algorithm": "odm", "watch": WATCH, "on_drift": "reset"},
        [batch(range(200), side), SNAPSHOT, batch(range(200, 300), side, moved=3.0)],
        probes(),
        more(side),
    ),
    Story(
        "clouds",
        {"algorithm": "vigod", "task": "classification", "features": OLD, "params": {"batch_size": 60}},
        [batch(range(40), side), SNAPSHOT, *rows(range(40, 44), side)],
        probes(),
        more(side),
    ),
    Story("margins", {**CLASSES, "algorithm": "dynamic_odm"}, [batch(range(40), side), SNAPSHOT], probes(), more(side)),
    Story("overlap", NUMBERS, OVERLAP, probes(), more(amount, UNION)),
    Story(
        "ensemble",
        {**NUMBERS, "algorithm": "fesl_c"},
        [*OVERLAP, ("features/switch", {"action": "complete"}), *rows(range(40, 44), amount, NEW)],
        probes(NEW),
        more(amount, NEW),
    ),
    Story(
        "words",
        {"algorithm": "sparse_dfop", "task": "classification", "params": {"compressed_dim": 8, "sparsity": 2}},
        [("feedback", {"features": words(number), "label": side(number)}) for number in range(9)]
        + [SNAPSHOT, ("feedback", {"features": words(9), "label": side(9), "id": "row-9"})],
        [words(3), words(4)],
        [{"features": words(number), "label": side(number)} for number in (12, 13)],
    ),
    Story("restored", NUMBERS, RESTORED, probes(), more(amount)),
    Story("begun-anew", NUMBERS, [*RESTORED, ("reset", None), *rows(range(20, 24), amount)], probes(), more(amount)),
    Story(
        "auto",
        {"algorithm": "auto", "task": "classification", "params": {"size": "small"}, "features": OLD},
        [batch(range(30), side), SNAPSHOT, *rows(range(30, 34), side)],
        probes(),
        more(side),
        since=4,
    ),
    Story("bins", {**CLASSES, "algorithm": "ga2m"}, [batch(range(30), side), SNAPSHOT], probes(), more(side), since=4),
    Story(
        "series",
        {**NUMBERS, "algorithm": "dfop", "lags": 2},
        [
            batch(range(30), amount),
            SNAPSHOT,
            ("predict", {"features": row(60), "track": True, "interval": 0.9}),
            *rows(range(30, 34), amount),
        ],
        probes(),
        more(amount),
        since=4,
    ),
    Story(
        "challenged",
        CLASSES,
        [
            *rows(range(4), side),
            ("PUT challengers/other", {"algorithm": "rls", "params": {}}),
            batch(range(4, 24), side),
            track(60),
            SNAPSHOT,
            *rows(range(24, 30), side),
        ],
        probes(),
        more(side),
        since=4,
    ),
    Story(
        "settings",
        {**CLASSES, "features": ["a", {"name": "b", "min": -1, "max": 1}], "tags": {"site": "north"}},
        [
            *rows(range(6), side),
            SNAPSHOT,
            ("PATCH ", {"class_costs": {"UP": 5}, "add_labels": ["SAME"], "missing": "mean", "on_drift": "forget"}),
            ("feedback", one(7, side, weight=2.0, id="heavy")),
            *rows(range(8, 14), side),
        ],
        probes(),
        more(side),
        since=4,
    ),
)


def stories(version: int) -> list[Story]:
    """Those that the code of a format can tell."""
    return [story for story in STORIES if story.since <= version]
