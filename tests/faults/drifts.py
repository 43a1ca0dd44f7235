"""A real drift for a real model: rows whose features shift, in one batch, so that one entry raises the alarms."""

import http.client
import json
import random
from typing import Any, Self

from tests.faults.processes import PATIENCE_S, Service

COLUMNS = ["a", "b"]
BEFORE, AFTER, EPISODE = 1200, 800, 500


def table(count: int, centre: float, seed: int) -> dict[str, Any]:
    """Labelled rows around a centre, the same for the same seed."""
    draw = random.Random(f"{seed} {centre}")
    data = [[centre + draw.uniform(-1, 1), draw.uniform(-1, 1)] for _ in range(count)]
    labels = ["up" if b + draw.uniform(-0.5, 0.5) > 0 else "down" for _, b in data]
    return {"columns": COLUMNS, "data": data, "labels": labels}


def learn(service: Service, body: dict[str, Any], name: str = "m", key: str = "") -> int:
    """Learn a batch; return the version it made."""
    headers = {"Idempotency-Key": key} if key else {}
    answer = service.request("POST", f"/models/{name}/feedback/batch", body, **headers)
    assert 200 == answer.status, answer.body
    return int(answer.json["version"])


def calm(service: Service, name: str = "m", seed: int = 1) -> None:
    """Create a model that has learned stationary rows; the next drift is one event for a while."""
    service.create(name, watch={"episode_rows": EPISODE})
    learn(service, table(BEFORE, 0.0, seed), name)
    assert [] == service.get(f"/models/{name}/drift")["events"]


def moved(seed: int = 1) -> dict[str, Any]:
    """The next batch, with shifted features."""
    return table(AFTER, 3.0, seed)


def events(service: Service, name: str = "m") -> list[dict[str, Any]]:
    """The events of a model from the list of all events; this request loads no model."""
    found, cursor = [], ""
    while cursor is not None:
        page = service.get(f"/drift?limit=1000{cursor and '&cursor=' + cursor}")
        found, cursor = found + page["events"], page["next"]
    return [event for event in found if event["model"] == name]


class Stream:
    """An open /drift/stream, after the id ``last``; ``joined``: the later alarms that ``drifts`` has skipped."""

    def __init__(self, service: Service, last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
        self._connection.request("GET", "/drift/stream", headers={"Last-Event-ID": last} if last else {})
        self._answer = self._connection.getresponse()
        assert 200 == self._answer.status
        self.start = self.next() if not last else {}
        self.joined: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def drifts(self, count: int) -> list[dict[str, Any]]:
        """The next ``count`` drifts; alarms that join an event are collected on the way."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            frame = self.next()
            assert "drift" == frame["event"], frame
            if frame["data"]["kind"] == "joined":
                self.joined.append(frame["data"])
            else:
                found.append(frame)
        return found

    def next(self) -> dict[str, Any]:
        """The next event as {"event", "id", "data"}; {} at the end of the stream."""
        fields: dict[str, Any] = {}
        while line := self._answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name in {"event", "id", "data"}:
                fields[name] = json.loads(value) if name == "data" else value
            elif not name and fields:
                return fields
        return {}
