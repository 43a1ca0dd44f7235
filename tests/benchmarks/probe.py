"""Single rows of one model on a schedule, and how long each waits: ``python -m tests.benchmarks.probe PORT``.

A process of its own, so that nothing that the benchmark does delays what it measures. Every 10 ms it sends one feedback
and one predict to the model "other", each over a connection of its own, unless the last one is still unanswered. A
request that waits longer than that keeps others from being sent: they are counted as if they had been sent on time, so
that percentiles are over time, not over answers. On stdin, one word a line:

    start    begin to measure
    stop     send nothing more, wait up to 3 s for what is unanswered, and print what was found as one line of JSON
"""

import json
import selectors
import socket
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

INTERVAL_S = 0.010
LAST_S = 3.0
MODEL = "other"
BODIES = {
    "feedback": b'{"features":{"x1":0.25},"label":0.5}',
    "predict": b'{"features":{"x1":0.25}}',
}
_LENGTH = b"content-length: "


@dataclass
class Waits:
    """What single rows waited for.

    Attributes:
        p50_ms, p99_ms, worst_ms: of the answers, those that could not be sent on time included.
        statuses: status -> answers; "none": unanswered in the end, "cut": the connection was closed.
        lag_p99_ms, lag_worst_ms: how late this process itself woke up; what is not much longer than that is not the
            service's.
    """

    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    lag_p99_ms: float = 0.0
    lag_worst_ms: float = 0.0


def _quantile(ordered: list[float], share: float) -> float:
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Line:
    """One connection and the request that it repeats."""

    def __init__(self, port: int, route: str) -> None:
        body = BODIES[route]
        head = f"POST /models/{MODEL}/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        self._port, self._read = port, b""
        self.sent_s: float | None = None
        self.connect()

    def connect(self) -> None:
        """Open the connection, anew after it was closed."""
        self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read, self.sent_s = b"", None

    def send(self) -> None:
        """Send the request, unless the last one is unanswered."""
        if self.sent_s is None:
            self.sent_s = perf_counter()
            self.socket.sendall(self._request)

    def receive(self) -> str | None:
        """Status of an answer that has come whole, "cut" where the connection was closed, else None."""
        data = self.socket.recv(65536)
        if not data:
            return "cut"
        self._read += data
        body = self._read.find(b"\r\n\r\n") + 4
        at = self._read.lower().find(_LENGTH, 0, body)
        if body < 4 or at < 0:
            return None
        if len(self._read) < body + int(self._read[at + len(_LENGTH) :].partition(b"\r")[0]):
            return None
        status, self._read = self._read[9:12].decode(errors="replace"), b""
        return status


class Probe:
    """The two connections, the schedule, and what was found between start and stop."""

    def __init__(self, port: int) -> None:
        self._lines = [Line(port, route) for route in BODIES]
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        for line in self._lines:
            self._selector.register(line.socket, selectors.EVENT_READ, line)
        self._reset()

    def _reset(self) -> None:
        self._waits_s: list[float] = []
        self._lags_s: list[float] = []
        self._statuses: dict[str, int] = {}
        self._report_by: float | None = None

    def run(self) -> None:
        """Send on time until stdin ends."""
        due = perf_counter()
        while True:
            now = perf_counter()
            if now >= due:
                self._lags_s.append(now - due)
                self._turn(now)
                due += INTERVAL_S * (1 + int((now - due) / INTERVAL_S))
            for key, _ in self._selector.select(max(0.0, due - perf_counter())):
                if key.data is not None:
                    self._hear(key.data)
                elif not self._obey(sys.stdin.readline().strip()):
                    return

    def _turn(self, now: float) -> None:
        if self._report_by is None:
            for line in self._lines:
                self._tell(line)
        elif now >= self._report_by or all(line.sent_s is None for line in self._lines):
            print(json.dumps(asdict(self._found(now))), flush=True)
            self._reset()

    def _tell(self, line: Line) -> None:
        try:
            line.send()
        except OSError:
            self._cut(line)

    def _hear(self, line: Line) -> None:
        try:
            status = line.receive()
        except OSError:
            status = "cut"
        if status == "cut":
            self._cut(line)
        elif status is not None and line.sent_s is not None:
            self._count(status, perf_counter() - line.sent_s)
            line.sent_s = None

    def _cut(self, line: Line) -> None:
        self._selector.unregister(line.socket)
        line.socket.close()
        if line.sent_s is not None:
            self._count("cut", perf_counter() - line.sent_s)
        line.connect()
        self._selector.register(line.socket, selectors.EVENT_READ, line)

    def _count(self, status: str, wait_s: float) -> None:
        self._statuses[status] = self._statuses.get(status, 0) + 1
        while wait_s > 0:  # this one, and those that it kept from being sent
            self._waits_s.append(wait_s)
            wait_s -= INTERVAL_S

    def _obey(self, word: str) -> bool:
        if word == "start":
            self._reset()
        elif word == "stop":
            self._report_by = perf_counter() + LAST_S
        return word != ""

    def _found(self, now: float) -> Waits:
        for line in self._lines:
            if line.sent_s is not None:
                self._count("none", now - line.sent_s)
        waits, lags = sorted(self._waits_s), sorted(self._lags_s)
        three: Any = [_quantile(waits, share) for share in (0.5, 0.99, 1.0)]
        return Waits(*three, self._statuses, _quantile(lags, 0.99), _quantile(lags, 1.0))


if __name__ == "__main__":
    Probe(int(sys.argv[1])).run()
