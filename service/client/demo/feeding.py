"""The models of the demo, rows into each, and what has happened to it: a line for each drift, switch and promotion."""

import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from service.client.demo import streams
from service.client.demo.streams import Row, Switch
from service.client.session import Session, path_of

BATCH_MAX = 500
DELAY_ROWS, LOST_EVERY = 25, 40
"""A late label comes after so many later rows have been predicted, and one of so many never comes."""
DRIFTS = {
    "class_mean": "feature means have moved",
    "error_rate": "errors have risen",
    "unlabelled": "rows without labels have changed",
}


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model: what it is created with and learns at speed 1, and at which rows there is what to look for.

    ``look`` has a ``{}`` for the time of each of ``at_rows``.
    """

    name: str
    body: Mapping[str, Any]
    stream: Iterator[Row | Switch]
    rows_per_s: float
    shows: str
    look: str
    at_rows: Sequence[int]
    challengers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    late: bool = False


def demo_models() -> list[DemoModel]:
    """The models of models.toml."""
    table = tomllib.loads(Path(__file__).with_name("models.toml").read_text("utf-8"))
    for own in table.values():
        own["stream"] = getattr(streams, own["stream"])(own.pop("seed"))
    return [DemoModel(name, **own) for name, own in table.items()]


class Fed:
    """A model that is fed."""

    def __init__(self, session: Session, model: DemoModel, speed: float) -> None:
        self.model, self._session, self._rows_per_s = model, session, model.rows_per_s * speed
        self._algorithm, self._since = str(model.body.get("algorithm", "auto")), 0
        self._began: float | None = None
        self._sent = self._predicted = 0
        self._awaited: deque[tuple[str, str | float]] = deque()

    def step(self, now: float, look: bool) -> list[str]:
        """Send what is due at a time, at most the rows of five seconds; what there is to tell, after a look."""
        self._began = now if self._began is None else self._began
        due = int((now - self._began) * self._rows_per_s) + 1 - self._sent
        rows = max(0, min(due, int(5 * self._rows_per_s) + 1))
        self._sent += rows
        told = self._late(rows) if self.model.late else self._batches(rows)
        return [*told, *(self._news() if look else [])]

    def _batches(self, rows: int) -> list[str]:
        """Rows with the same features in one request, and the steps of a change between them."""
        told: list[str] = []
        waiting: list[Row] = []
        while rows:
            item = next(self.model.stream)
            if isinstance(item, Row):
                waiting.append(item)
                rows -= 1
            if isinstance(item, Switch) or not rows or len(waiting) == BATCH_MAX:
                self._send(waiting)
                waiting = []
            if isinstance(item, Switch):
                told.append(self._switch(item))
        return told

    def _send(self, rows: Sequence[Row]) -> None:
        if rows:
            data = [[*row.features.values()] for row in rows]
            body = {"columns": [*rows[0].features], "data": data, "labels": [row.label for row in rows]}
            self._ask("POST", "feedback", "batch", json=body, headers=self._session.fresh_key())

    def _switch(self, step: Switch) -> str:
        body = {"action": step.action} | ({"features": step.features} if step.features else {})
        done = self._ask("POST", "features", "switch", json=body, headers=self._session.fresh_key())
        if step.features:
            names = f"{step.features[0]} ... {step.features[-1]}"
            return f"switch begun at row {done['rows']:,}: rows now carry {names} as well"
        shares = ", ".join(f"{one['expert']} {one['weight']:.2f}" for one in done["ensemble"])
        return f"switch completed at row {done['rows']:,}: only the new sensors from here on ({shares})"

    def _late(self, rows: int) -> list[str]:
        """Predict rows, and send the labels that have come meanwhile, by the ids of their predictions."""
        for row in islice(self.model.stream, rows):
            assert isinstance(row, Row)  # features that are tracked do not change here
            answer = self._ask("POST", "predict", json={"features": row.features, "track": True})
            self._predicted += 1
            if self._predicted % LOST_EVERY:
                self._awaited.append((answer["prediction_id"], row.label))
            if len(self._awaited) > DELAY_ROWS:
                known, label = self._awaited.popleft()
                self._ask("POST", "feedback", json={"prediction_id": known, "label": label})
        return []

    def _news(self) -> list[str]:
        """The drifts since the last look, and a promotion."""
        events = self._ask("GET", "drift", params={"since": self._since})["events"]
        self._since = max([self._since, *(event["version"] for event in events)])
        told = [_drift(event) for event in events if event["challenger"] is None]
        if self.model.challengers:
            model = self._ask("GET")
            if (now := model["config"]["algorithm"]) != self._algorithm:
                row = max(mark["row"] for mark in model["metrics"]["marks"] if mark["kind"] == "promotion")
                told.append(f"challenger {now} promoted at row {row:,}; {self._algorithm} goes on as previous")
                self._algorithm = now
        return told

    def _ask(self, method: str, *path: str, **request: Any) -> Any:
        return self._session.ask(method, path_of(self.model.name, *path), **request)


def _drift(event: dict[str, Any]) -> str:
    of = "" if event["class"] is None else f" in class {event['class']}"
    moved = ", ".join(str(one["name"]) for one in event["features"][:3])
    return f"drift found at row {event['row']:,}: {DRIFTS[event['kind']]}{of}" + (f" ({moved})" if moved else "")
