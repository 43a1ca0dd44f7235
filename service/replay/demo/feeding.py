"""Rows into a model of the demo: in batches, through a change of features, with labels that come late."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from service.replay.client import Service, path_of
from service.replay.demo.streams import Row, Sensors

BATCH_MAX = 500
BEGIN_ROW = 300
"""Rows of the first sensors before the next ones appear beside them."""
LIFE_ROWS = 1500
"""Rows of the later ones by themselves."""
OVERLAP_ROWS = 150
"""Rows that carry both."""
DELAY_ROWS = 25
"""A parcel's label comes after so many later parcels have been predicted."""
LOST_EVERY = 40
"""Of so many labels one never comes."""


class Feeder(Protocol):
    """Feeds one model."""

    def feed(self, rows: int) -> list[str]:
        """Send so many rows; what there is to tell of it.

        Raises:
            Failed: the service refuses, or cannot be reached.
        """


class Batches:
    """Rows of a stream, each request a batch of what is due.

    Args:
        service: a running one.
        name: of the model.
        rows: the stream.
    """

    def __init__(self, service: Service, name: str, rows: Iterator[Row]) -> None:
        self._service, self._name, self._rows = service, name, rows

    def feed(self, rows: int) -> list[str]:
        """Send the next rows."""
        send(self._service, self._name, list(islice(self._rows, rows)))
        return []


class Replaced:
    """Rows of sensors that are replaced: BEGIN_ROW rows of the first ones, OVERLAP_ROWS of both, then of the new ones.

    These are replaced after LIFE_ROWS rows, and so on.

    Args:
        service: a running one.
        name: of the model.
        sensors: the stream.
    """

    def __init__(self, service: Service, name: str, sensors: Sensors) -> None:
        self._service, self._name, self._sensors = service, name, sensors
        self._generation, self._overlap, self._left = 0, False, BEGIN_ROW

    def feed(self, rows: int) -> list[str]:
        """Send the next rows, and the steps of a change that come between them."""
        told: list[str] = []
        while rows:
            now = min(rows, self._left)
            seen = (self._generation, self._generation + 1) if self._overlap else (self._generation,)
            send(self._service, self._name, [self._sensors.row(*seen) for _ in range(now)])
            rows, self._left = rows - now, self._left - now
            if not self._left:
                told.append(self._complete() if self._overlap else self._begin())
        return told

    def _begin(self) -> str:
        self._overlap, self._left = True, OVERLAP_ROWS
        names = self._sensors.names(self._generation + 1)
        done = self._switch({"action": "begin", "features": names})
        return f"switch begun at row {done['rows']:,}: rows now carry {names[0]} ... {names[-1]} as well"

    def _complete(self) -> str:
        self._overlap, self._left = False, LIFE_ROWS
        self._generation += 1
        done = self._switch({"action": "complete"})
        shares = ", ".join(f"{one['expert']} {one['weight']:.2f}" for one in done["ensemble"])
        return f"switch completed at row {done['rows']:,}: only the new sensors from here on ({shares})"

    def _switch(self, step: dict[str, Any]) -> dict[str, Any]:
        step["id"] = f"{step['action']}-{self._generation}"
        return self._service.ask("POST", f"{path_of(self._name)}/features/switch", json=step)


class Late:
    """Rows that are predicted when they come, and labelled DELAY_ROWS rows later by the id of their prediction.

    Args:
        service: a running one.
        name: of the model.
        rows: the stream.
    """

    def __init__(self, service: Service, name: str, rows: Iterator[Row]) -> None:
        self._service, self._path, self._rows = service, path_of(name), rows
        self._awaited: deque[tuple[str, str | float]] = deque()
        self._number = 0

    def feed(self, rows: int) -> list[str]:
        """Predict the next rows, and send the labels that have come meanwhile."""
        for row in islice(self._rows, rows):
            asked = {"features": row.features, "track": True}
            answer = self._service.ask("POST", f"{self._path}/predict", json=asked)
            self._number += 1
            if self._number % LOST_EVERY:
                self._awaited.append((answer["prediction_id"], row.label))
            if len(self._awaited) > DELAY_ROWS:
                known, label = self._awaited.popleft()
                self._service.ask("POST", f"{self._path}/feedback", json={"prediction_id": known, "label": label})
        return []


def send(service: Service, name: str, rows: Sequence[Row]) -> None:
    """Rows with the same features, as batches that may be sent again."""
    for at in range(0, len(rows), BATCH_MAX):
        part = rows[at : at + BATCH_MAX]
        columns = [*part[0].features]
        body = {
            "columns": columns,
            "data": [[row.features[column] for column in columns] for row in part],
            "labels": [row.label for row in part],
        }
        path, key = f"{path_of(name)}/feedback/batch", {"Idempotency-Key": service.fresh_key()}
        service.ask("POST", path, json=body, headers=key)
