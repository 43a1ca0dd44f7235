"""Clients that behave as they should: every row has an id and is sent until it is acknowledged."""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.faults.processes import BROKEN, PATIENCE_S, Answer, Service

PAUSE_S = 0.02


class Row(NamedTuple):
    """A labelled row with an id."""

    id: str
    features: dict[str, float]
    label: str


def rows(count: int, seed: int, prefix: str = "r", columns: int = 5) -> list[Row]:
    """Rows of numbers with labels from a noisy rule, the same for the same seed."""
    draw = random.Random(f"{seed} {prefix}")
    return [_row(draw, f"{prefix}{number}", columns) for number in range(count)]


def _row(draw: random.Random, identity: str, columns: int) -> Row:
    features = {f"x{column}": draw.gauss(0, 1) for column in range(columns)}
    score = features["x0"] - 2 * features["x2"] + draw.gauss(0, 0.3)
    return Row(identity, features, "up" if score > 0 else "down")


def by_column(table: Sequence[Row]) -> dict[str, Any]:
    """A batch of labelled rows, without their ids."""
    columns = [*table[0].features]
    data = [[row.features[name] for name in columns] for row in table]
    return {"columns": columns, "data": data, "labels": [row.label for row in table]}


class Client:
    """A keep-alive connection that is reopened, on the port the service then has, whenever it breaks."""

    def __init__(self, service: Service, model: str = "m") -> None:
        self._service, self._model = service, model
        self._connection: http.client.HTTPConnection | None = None
        service.closed_at_the_end.append(self.close)

    def send(self, row: Row) -> Answer:
        """Try once; if the connection breaks, the fate of the row is unknown."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=PATIENCE_S)
        try:
            path, headers = f"/models/{self._model}/feedback", {"Content-Type": "application/json"}
            self._connection.request("POST", path, json.dumps(row._asdict()), headers)
            return Answer.read(self._connection.getresponse())
        except BaseException:
            self.close()
            raise

    def learn(self, row: Row) -> Any:
        """Send once, expect success, and return the answer's body."""
        answer = self.send(row)
        assert 200 == answer.status, answer.body
        return answer.json

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Load:
    """Concurrent clients, spread over services, that share a list of rows: each is sent until it is acknowledged.

    ``answers``: acknowledgements by id; ``broken``: tries without an answer; ``refused``: tries answered with 503, by
    the name of the problem; ``failures``: anything else, which must stay empty.
    """

    def __init__(
        self,
        services: Sequence[Service],
        rows: Sequence[Row],
        clients: int = 8,
        model: str = "m",
        client: type[Client] = Client,
    ) -> None:
        self.answers: dict[str, Any] = {}
        self.broken = 0
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []
        self._rows = rows
        self._left: Iterator[Row] = iter(rows)
        self._changed = threading.Condition()
        self._deadline = time.monotonic() + PATIENCE_S
        places = [services[number % len(services)] for number in range(clients)]
        self._threads = [threading.Thread(target=self._work, args=(client(at, model),), daemon=True) for at in places]

    def start(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def wait(self, enough: Callable[["Load"], bool]) -> None:
        """Wait until a condition on the load holds."""
        with self._changed:
            deadline = time.monotonic() + PATIENCE_S
            while not (enough(self) or self.failures):
                assert time.monotonic() < deadline
                self._changed.wait(PAUSE_S)
        assert [] == self.failures, self.failures

    def acknowledged(self, count: int) -> None:
        """Wait until that many rows are acknowledged."""
        self.wait(lambda load: len(load.answers) >= count)

    def finish(self) -> "Load":
        """Wait until every row is acknowledged."""
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert [] == self.failures, self.failures
        assert len(self._rows) == len(self.answers)
        return self

    def run(self) -> "Load":
        """Start the clients and wait for all rows."""
        return self.start().finish()

    def _work(self, client: Client) -> None:
        try:
            while (row := self._next()) is not None:
                while not self._try(client, row):
                    time.sleep(PAUSE_S)
        except BaseException as error:
            said = repr(error)
            self._note(lambda: self.failures.append(said))
        finally:
            client.close()

    def _next(self) -> Row | None:
        with self._changed:
            return next(self._left, None)

    def _try(self, client: Client, row: Row) -> bool:
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"row {row.id} was not acknowledged in time")
        try:
            answer = client.send(row)
        except BROKEN:
            self._note(self._broke)
            return False
        if answer.status == 200:
            self._note(lambda: self.answers.setdefault(row.id, answer.json))
            return True
        if answer.status != 503 or "retry-after" not in answer.headers:
            raise AssertionError(f"{answer.status} {answer.headers} {answer.body!r}")
        self._note(lambda: self.refused.update([answer.problem]))
        return False

    def _broke(self) -> None:
        self.broken += 1

    def _note(self, change: Callable[[], object]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()
