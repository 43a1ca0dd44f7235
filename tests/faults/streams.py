"""A client of a stream of rows that does what clients should: after a break it sends again what was not answered."""

import contextlib
import http.client
import json
import threading
from collections.abc import Sequence
from typing import Any

from tests.faults.load import Row
from tests.faults.processes import PATIENCE_S, Service

PIECE = 50
"""Rows sent as one chunk."""


class Stream:
    """Rows on their way to one model, over as many streams as it takes.

    Args:
        service: asked for its port each time a stream is opened.
        rows: sent in this order.

    Attributes:
        answers: of the first rows, in order.
        ends: what last lines said.
        broken: streams that ended without a word.
    """

    def __init__(self, service: Service, rows: Sequence[Row], model: str = "m") -> None:
        self._service, self._path = service, f"/models/{model}/feedback/stream"
        self._lines = [_line(row) for row in rows]
        self.answers: list[Any] = []
        self.ends: list[Any] = []
        self.broken = 0
        self.changed = threading.Condition()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "Stream":
        """Begin, in a thread."""
        self._thread.start()
        return self

    def answered(self, count: int) -> None:
        """Wait until so many rows are answered."""
        with self.changed:
            fine = self.changed.wait_for(lambda: len(self.answers) >= count or self.failure, PATIENCE_S)
        assert fine
        assert self.failure is None, self.failure

    def finish(self) -> "Stream":
        """Wait until all are."""
        self.answered(len(self._lines))
        self._thread.join(PATIENCE_S)
        return self

    def _run(self) -> None:
        try:
            while len(self.answers) < len(self._lines):
                try:
                    self._once()
                except (OSError, http.client.HTTPException, ValueError):
                    self.broken += 1
                threading.Event().wait(0.02)
        except BaseException as error:
            with self.changed:
                self.failure = error
                self.changed.notify_all()
            raise

    def _once(self) -> None:
        """One stream, from behind the last answer to its end."""
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=PATIENCE_S)
        try:
            connection.putrequest("POST", self._path)
            connection.putheader("Content-Type", "application/x-ndjson")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            connection.auto_open = 0  # what is left to send must not open another connection
            answer = connection.getresponse()
            if answer.status != 200:
                assert 503 == answer.status, answer.read()
                return
            sending = threading.Thread(target=self._send, args=(connection, len(self.answers)), daemon=True)
            sending.start()
            for line in answer:
                if line.strip() and not self._take(json.loads(line)):
                    break
        finally:
            connection.close()

    def _send(self, connection: http.client.HTTPConnection, begin: int) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, AttributeError):
            for at in range(begin, len(self._lines), PIECE):
                data = b"".join(self._lines[at : at + PIECE])
                connection.send(b"%x\r\n%b\r\n" % (len(data), data))
            connection.send(b"0\r\n\r\n")

    def _take(self, line: Any) -> bool:
        """Note an answer; whether there may be another one."""
        if "end" in line:
            self.ends.append(line["end"])
        elif "error" in line:
            assert 503 == line["error"]["status"], line
        else:
            with self.changed:
                self.answers.append(line)
                self.changed.notify_all()
        return "end" not in line and len(self.answers) < len(self._lines)


def _line(row: Row) -> bytes:
    return json.dumps({"id": row.id, "features": row.features, "label": row.label}).encode() + b"\n"
