"""The load generator of streams, a process of its own: raw sockets, lines that are made before the clock runs.

    python -m tests.benchmarks.stream_load JOB      one job as JSON; prints its figures as JSON

Each connection is one stream with so many rows in flight: for every answer that has come a further line is sent, those
of one read as one chunk. Answers are counted by their ends, not parsed; of one in a thousand the time is taken.
"""

import json
import secrets
import selectors
import socket
import sys
from collections import deque
from dataclasses import asdict, dataclass
from time import perf_counter

from tests.benchmarks import rows

POOL = 8192
"""Different lines without ids, sent in turn."""
IDS_PER_S = 90_000
"""Lines with ids that are made for every second; a connection that has sent all of its own ends."""
READ_BYTES = 2**18
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Job:
    """What to send.

    Attributes:
        port: on the loopback.
        path: of the stream.
        kind: "feedback" or "predict".
        connections: streams.
        window: rows in flight of each.
        seconds: how long, after a warm-up.
        ids: give every row an id of its own.
    """

    port: int
    path: str
    kind: str = "feedback"
    connections: int = 1
    window: int = 1
    seconds: float = 1.0
    warm_s: float = 0.2
    ids: bool = False


@dataclass
class Tally:
    """What came back; ``refused``: answers that are errors."""

    answered: int = 0
    refused: int = 0
    rate: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


class Lines:
    """Lines to send, joined, so that any number of neighbours is one piece."""

    def __init__(self, lines: list[bytes], again: bool) -> None:
        self._ends = [0]
        for line in lines:
            self._ends.append(self._ends[-1] + len(line))
        self._whole, self._again, self._at = memoryview(b"".join(lines)), again, 0

    def take(self, count: int) -> tuple[memoryview, int]:
        """Up to ``count`` lines, fewer at the end of the pool."""
        if self._again and self._at == len(self._ends) - 1:
            self._at = 0
        begin, self._at = self._at, min(self._at + count, len(self._ends) - 1)
        return self._whole[self._ends[begin] : self._ends[self._at]], self._at - begin


class Stream:
    """One connection."""

    def __init__(self, job: Job, lines: Lines) -> None:
        self._lines, self._window = lines, job.window
        self.socket = socket.create_connection(("127.0.0.1", job.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = f"POST {job.path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-ndjson\r\n"
        self.socket.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(READ_BYTES)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer.decode())
        self._last = b""
        self.sent = self.answered = self.refused = 0
        self._sent_at: deque[tuple[int, float]] = deque()
        self.latencies_s: list[float] = []

    def send(self, count: int, now: float) -> None:
        """Send so many lines, or what is left of them."""
        while count:
            part, taken = self._lines.take(count)
            if not taken:
                return
            self.socket.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            count -= taken
            self.sent += taken
            self._sent_at.append((self.sent, now))

    def read(self, now: float, timed: bool) -> int:
        """Count the answers that are there."""
        data = self._last + self.socket.recv(READ_BYTES)
        if data == self._last:
            raise SystemExit("the stream was closed")
        found = data.count(b"}\n")
        self._last = data[-1:] if data.endswith(b"}") else b""
        if b'"error"' in data or b'"end"' in data:
            self.refused += data.count(b'"error"') + data.count(b'"end"')
        self.answered += found
        while self._sent_at and self._sent_at[0][0] <= self.answered:
            sent_at = self._sent_at.popleft()[1]
            if timed:
                self.latencies_s.append(now - sent_at)
        return found


def lines_of(job: Job) -> list[Lines]:
    """The lines of each connection."""
    bodies = rows.single(POOL, 1) if job.kind == "feedback" else rows.asked(POOL, 1)
    if not job.ids:
        return [Lines([body + b"\n" for body in bodies], again=True) for _ in range(job.connections)]
    each = int(IDS_PER_S * (job.seconds + job.warm_s) / job.connections)
    run = secrets.token_hex(4).encode()
    return [
        Lines([b'%b,"id":"%b-%d-%d"}\n' % (bodies[n % POOL][:-1], run, at, n) for n in range(each)], again=False)
        for at in range(job.connections)
    ]


def run(job: Job) -> Tally:
    """Carry out a job."""
    streams = [Stream(job, lines) for lines in lines_of(job)]
    waiting = selectors.DefaultSelector()
    for stream in streams:
        waiting.register(stream.socket, selectors.EVENT_READ, stream)
        stream.send(job.window, perf_counter())
    begin = perf_counter() + job.warm_s
    end, before, now = begin + job.seconds, 0, perf_counter()
    while now < end:
        for key, _ in waiting.select(PATIENCE_S):
            stream = key.data
            stream.send(stream.read(now := perf_counter(), now >= begin), now)
        now = perf_counter()
        if now < begin:
            before = sum(own.answered for own in streams)
    return _tally(streams, sum(own.answered for own in streams) - before, now - begin)


def _tally(streams: list[Stream], timed: int, seconds: float) -> Tally:
    """The figures, once everything is answered."""
    found = Tally(rate=timed / seconds)
    for stream in streams:
        while stream.answered < stream.sent:
            stream.read(perf_counter(), timed=False)
        stream.socket.sendall(b"0\r\n\r\n")
        stream.socket.close()
    latencies = sorted(own for stream in streams for own in stream.latencies_s)
    if latencies:
        found.p50_ms, found.p99_ms = (1000 * latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
    found.answered, found.refused = sum(own.answered for own in streams), sum(own.refused for own in streams)
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(run(Job(**json.loads(sys.argv[1]))))))
