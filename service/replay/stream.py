"""Rows through a stream of the service: sent and answered at once, and sent again after a break.

Every row has an id. When a stream breaks, or the service ends it, another one is opened, and what was not answered is
sent again: what had been learned gets its first answer.
"""

import http.client
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from service.replay import Failed
from service.replay.client import AGAIN, MODEL_DOWN, TIMEOUT_S, reason_of, retry_after_s, slug_of

WINDOW = 1024
"""Most rows that are sent and not answered."""
PIECE = 128
"""Most rows sent at once."""
PAUSE_S = 0.5
"""Before another stream is opened."""


class Sent(NamedTuple):
    """A row on its way: as JSON, and the line of the file on which it ends."""

    line: bytes
    at: int


class Answered(NamedTuple):
    """An answer; ``again``: the row had been sent before, and may have been learned then."""

    answer: dict[str, Any]
    again: bool


class _Broken(Exception):
    """The stream is over before all rows are answered.

    Args:
        wait_s: before the next one.
    """

    def __init__(self, reason: str, wait_s: float = PAUSE_S) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RowStream:
    """Rows to one model.

    Args:
        url: where the service is.
        key: API key, or None.
        path: of the stream.
        patience_s: how long streams are opened without an answer.
        tls: what an https service is trusted by; None: as usual.
    """

    def __init__(
        self, url: str, key: str | None, path: str, patience_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._where, self._tls = urlsplit(url), tls
        self._path, self._patience_s = f"{self._where.path}/{path}", patience_s
        self._headers: dict[str, str | bytes] = {"Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"}
        self._headers |= {"Authorization": f"Bearer {key}".encode()} if key else {}
        self._waiting: deque[Sent] = deque()
        self._change = threading.Condition()
        self._again = 0
        self._closed = self._all_taken = False
        self._failure: BaseException | None = None

    def answers(self, rows: Iterator[Sent]) -> Generator[Answered]:
        """The answer to every row, in order.

        Raises:
            Failed: a row was refused, or the service cannot be reached; or as ``rows``, which another thread reads.
        """
        give_up_at = time.monotonic() + self._patience_s
        while not (self._all_taken and not self._waiting):
            try:
                for answer in self._one_stream(rows):
                    give_up_at = time.monotonic() + self._patience_s
                    yield answer
            except (_Broken, OSError, http.client.HTTPException) as broken:
                if self._failure is not None:
                    raise self._failure from None
                wait_s = broken.wait_s if isinstance(broken, _Broken) else PAUSE_S
                if time.monotonic() + wait_s > give_up_at:
                    said = str(broken) or type(broken).__name__
                    raise Failed(f"the stream broke: {said} (gave up after {self._patience_s:.0f} s)") from None
                time.sleep(wait_s)

    # ---------------------------------------------------------------- one stream

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._where.hostname or "", self._where.port
        if self._where.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def _one_stream(self, rows: Iterator[Sent]) -> Generator[Answered]:
        connection, sending = self._connection(), None
        self._closed, self._again = False, len(self._waiting)
        try:
            connection.putrequest("POST", self._path)
            for name, value in self._headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            connection.auto_open = 0  # what is left to send must not open another connection
            answer = connection.getresponse()
            self._check(answer)
            sending = threading.Thread(target=self._send, args=(connection, rows), daemon=True)
            sending.start()
            for line in answer:
                if line.strip():
                    yield self._taken(json.loads(line))
            if self._waiting or not self._all_taken:
                raise _Broken("the answer ended early")
        finally:
            with self._change:
                self._closed = True
                self._change.notify_all()
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(2)
            if sending is not None:
                sending.join(TIMEOUT_S)
            connection.close()

    @staticmethod
    def _check(answer: http.client.HTTPResponse) -> None:
        """Raise what an answer other than 200 says."""
        if answer.status == httpx.codes.OK:
            return
        told = httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
        if answer.status in AGAIN and slug_of(told) != MODEL_DOWN:
            raise _Broken(reason_of(told, None), retry_after_s(told))
        raise Failed(reason_of(told, None))

    def _taken(self, line: dict[str, Any]) -> Answered:
        """The answer to the first row that waits."""
        if "end" in line:
            raise _Broken(f"the service ended it: {line['end']['reason']}")
        error = line.get("error")
        if error is not None:
            told = httpx.Response(error["status"], json=error)
            if error["status"] in AGAIN and slug_of(told) != MODEL_DOWN:
                raise _Broken(reason_of(told, None))
            raise Failed(f"line {self._waiting[0].at}: {reason_of(told, None)}")
        with self._change:
            self._waiting.popleft()
            self._change.notify_all()
        self._again -= 1
        return Answered(line, self._again >= 0)

    # ---------------------------------------------------------------- the other thread

    def _send(self, connection: http.client.HTTPConnection, rows: Iterator[Sent]) -> None:
        """Send what waits, then further rows as answers make room, then the end."""
        try:
            self._send_piece(connection, [*self._waiting])
            while not self._all_taken:
                piece = self._next_piece(rows)
                if self._closed:
                    return
                self._send_piece(connection, piece)
            connection.send(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException, AttributeError):  # the stream is over: who reads it knows
            return
        except BaseException as error:  # noqa: BLE001 - raised where answers are read
            self._failure = error
            with suppress(OSError):
                connection.sock.shutdown(2)

    @staticmethod
    def _send_piece(connection: http.client.HTTPConnection, piece: list[Sent]) -> None:
        data = b"".join([row.line for row in piece])
        if data:
            connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def _next_piece(self, rows: Iterator[Sent]) -> list[Sent]:
        """Rows for which there is room now; they wait for their answers from here on."""
        with self._change:
            self._change.wait_for(lambda: self._closed or len(self._waiting) <= WINDOW - PIECE)
            if self._closed:
                return []
            piece = []
            for row in rows:
                piece.append(row)
                if len(piece) == PIECE:
                    break
            else:
                self._all_taken = True
            self._waiting += piece
        return piece
