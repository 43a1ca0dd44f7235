"""The models of the demo: sends rows to each, and describes each drift, switch and promotion in a line."""

import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from service.client.demo import streams
from service.client.demo.streams import Row
from service.client.session import Session, path_of

BEHIND_S, ROWS_MAX = 5, 500
"""After a pause at most the rows of BEHIND_S seconds are sent at once, and never more than ROWS_MAX."""
DELAY_ROWS, LOST_EVERY = 25, 40
"""A late label arrives after DELAY_ROWS further predictions; one of LOST_EVERY never does."""
DRIFTS = {
    "class_mean": "feature means have moved",
    "error_rate": "errors have risen",
    "unlabelled": "rows without labels have changed",
}
SWITCHES = {
    "begin": "switch begun{}: rows carry both sets of sensors",
    "complete": "switch completed{}: only the new sensors are left",
}


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model of the demo: how it is created, the rows it learns at speed 1, and what to look for at which rows."""

    name: str
    body: Mapping[str, Any]
    stream: Iterator[Row]
    rows_per_s: float
    shows: str
    look: str  # with a ``{}`` for the time of each row of ``at_rows``
    at_rows: Sequence[int]
    challengers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    late: bool = False


def demo_models() -> list[DemoModel]:
    """The models of models.toml."""
    table = tomllib.loads(Path(__file__).with_name("models.toml").read_text("utf-8"))
    for own in table.values():
        own["stream"] = streams.rows(getattr(streams, own["stream"]), own.pop("seed"))
    return [DemoModel(name, **own) for name, own in table.items()]


class Fed:
    """A model, and what has been sent to it."""

    def __init__(self, session: Session, model: DemoModel, speed: float) -> None:
        self.model, self._session, self._rows_per_s = model, session, model.rows_per_s * speed
        self._sent = self._predicted = 0
        self._names: Sequence[str] = ()
        self._awaited: deque[Mapping[str, Any]] = deque()
        self._marks: list[dict[str, Any]] = []

    def step(self, now_s: float, look: bool) -> list[str]:
        """Send the rows that are due by now; with ``look``, describe the marks that are new since the last look."""
        due = int(now_s * self._rows_per_s) + 1 - self._sent
        number = max(0, min(due, int(BEHIND_S * self._rows_per_s) + 1, ROWS_MAX))
        self._sent += number
        send = self._label_later if self.model.late else self._learn
        send(islice(self.model.stream, number))
        if not look:
            return []
        known, self._marks = self._marks, self._ask("GET", "metrics")["marks"]
        return [_described(mark) for mark in self._marks if mark not in known]

    def _learn(self, rows: Iterable[Row]) -> None:
        """Send runs of rows with the same features, one request each, and between runs a step of the feature switch."""
        for names, some in groupby(rows, key=lambda row: [*row.features]):
            begun = {"action": "begin", "features": [name for name in names if name not in self._names]}
            if self._names and names != self._names:
                self._ask("POST", "features", "switch", json=begun if begun["features"] else {"action": "complete"})
            self._names = names
            self._ask("POST", "feedback", "batch", json=[row._asdict() for row in some])

    def _label_later(self, rows: Iterable[Row]) -> None:
        """Predict rows, and send labels that have become due by the ids of their predictions."""
        for row in rows:
            answer = self._ask("POST", "predict", json={"features": row.features, "track": True})
            self._predicted += 1
            if self._predicted % LOST_EVERY:
                self._awaited.append({"prediction_id": answer["prediction_id"], "label": row.label})
            if len(self._awaited) > DELAY_ROWS:
                self._ask("POST", "feedback", json=self._awaited.popleft())

    def _ask(self, method: str, *path: str, **request: Any) -> Any:
        return self._session.ask(method, path_of(self.model.name, *path), **request)


def _described(mark: Mapping[str, Any]) -> str:
    """A mark in words."""
    at = f" at row {mark['row']:,}"
    if mark["kind"] == "drift":
        of = "" if mark["label"] is None else f" in class {mark['label']}"
        return f"drift found{at}: {DRIFTS[mark['test']]}{of}"
    if mark["kind"] == "promotion":
        return f"challenger {mark['challenger']} promoted{at}; the old learner continues as the challenger previous"
    return SWITCHES[mark["action"]].format(at) if mark["kind"] == "switch" else mark["kind"] + at
