"""Clients that record what they send and the answers they get, for the judge."""

import random
import time
from collections.abc import Sequence
from typing import Any

from tests.faults.clients import Clients
from tests.faults.judge import Call, Judge
from tests.faults.processes import BROKEN, Answer, Service

MODEL = "judged"
P0 = 100.0
PARAMS = {"bias": False, "initial_variance": P0}
CONFIG = {"algorithm": "rls", "task": "regression", "features": ["x"], "params": PARAMS, "watch": None}
PAUSE_S = 0.02
KINDS = ("row", "no id", "tracked", "predict", "strong", "follow", "again")
WEIGHTS = (8, 2, 3, 5, 3, 4, 2)


class Historians(Clients):
    """Concurrent clients of one model; each call goes to any of the services.

    Rows with ids are sent until they are acknowledged; rows without are sent once, whatever happens. Now and then
    a client repeats a row that was acknowledged. Each stops after so many ``calls``; 0: when told to.
    """

    def __init__(self, services: Sequence[Service], clients: int = 6, seed: int = 0, calls: int = 0) -> None:
        super().__init__(services, clients, seed)
        self.calls, self.ends_by_itself = calls, calls > 0
        self.history: list[Call] = []

    def verdict(self) -> list[str]:
        """The contradictions that the judge finds, after a final read of the model."""
        while (read := self._read(random.Random(0), {"strong": True})).answer is None:
            time.sleep(PAUSE_S)
        self.history.append(read)
        return Judge(self.history, P0).verdict()

    def _client(self, number: int, draw: random.Random) -> None:
        own: list[Call] = []
        count = 0
        while not self._over.is_set() and not 0 < self.calls <= count:
            kind, count = draw.choices(KINDS, WEIGHTS)[0], count + 1
            sent: dict[str, Any] = {"x": draw.uniform(-1, 1)}
            sent["y"] = 3 * sent["x"] + draw.uniform(-2, 2)
            if kind in {"row", "tracked"}:
                own.append(self._until_acknowledged(draw, sent | {"id": f"c{number}-{count}"}, kind == "tracked"))
            elif kind == "no id":
                self._keep(self._learn(draw, sent))
            elif kind == "again" and own:
                self._keep(self._learn(draw, draw.choice(own).sent))
            elif kind == "predict":
                self._keep(self._predict(draw, {"x": sent["x"]}))
            elif kind == "strong":
                self._keep(self._read(draw, {"strong": True}))
            elif own and (answer := own[-1].answer) is not None:
                self._keep(self._read(draw, {"min_version": answer["version"]}))

    def _until_acknowledged(self, draw: random.Random, sent: dict[str, Any], tracked: bool) -> Call:
        while tracked:
            told = self._predict(draw, {"x": sent["x"], "track": True})
            if told.answer is not None:
                sent |= {"id": told.answer["prediction_id"], "told": told.answer["prediction"]}
                break
            time.sleep(PAUSE_S)
        while (call := self._keep(self._learn(draw, sent))).answer is None:
            time.sleep(PAUSE_S)
        return call

    def _keep(self, call: Call) -> Call:
        self.history.append(call)
        return call

    def _learn(self, draw: random.Random, sent: dict[str, Any]) -> Call:
        body: dict[str, Any] = {"label": sent["y"]}
        if "told" in sent:
            body["prediction_id"] = sent["id"]
        else:
            body |= {"features": {"x": sent["x"]}} | ({"id": sent["id"]} if "id" in sent else {})
        return self._call(draw, "learn", sent, "POST", "/feedback", body)

    def _predict(self, draw: random.Random, sent: dict[str, Any]) -> Call:
        body = {"features": {"x": sent["x"]}} | ({"track": True} if "track" in sent else {})
        return self._call(draw, "predict", sent, "POST", "/predict", body)

    def _read(self, draw: random.Random, sent: dict[str, Any]) -> Call:
        query = "?consistency=strong" if "strong" in sent else f"?min_version={sent['min_version']}"
        return self._call(draw, "read", sent, "GET", query)

    def _call(
        self, draw: random.Random, kind: str, sent: dict[str, Any], method: str, path: str, body: object = None
    ) -> Call:
        begin = time.monotonic()
        try:
            answer: Answer | None = draw.choice(self.services).request(method, f"/models/{MODEL}{path}", body)
        except BROKEN:
            answer = None
        if answer is not None and answer.status not in (200, 503, 504):
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body!r}")
        known = answer.json if answer is not None and answer.status == 200 else None
        return Call(kind, begin, time.monotonic(), sent, known)
