"""The load generator, a process of its own: closed loops over keep-alive connections, as lean as Python can be.

    python -m tests.benchmarks.load      one JSON job per line on stdin, one JSON answer per line on stdout

Every message is bytes before the clock runs. A connection sends its next request when its last one is answered. What
is sent while warming up is acknowledged, but not timed; what is under way when time is up is waited for, so that
``acknowledged`` is exactly what the service must have learned.
"""

import asyncio
import itertools
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from time import perf_counter
from typing import Any
from zlib import crc32

import uvloop

from tests.benchmarks import rows

SINGLE_BODIES = 8192
"""Different bodies that every connection goes through, each from a place of its own."""
BATCH_BODIES = 16
LINES = {"ndjson64": 64, "ndjson256": 256}
"""Rows of a request of NDJSON, by kind."""
ANSWER_S_MAX = 30.0
"""A connection that waits longer for an answer ends the job with an error."""
_LENGTH = b"content-length: "
_JSON = "application/json"


@dataclass(frozen=True)
class Job:
    """What to send, where, and for how long.

    Attributes:
        port: on the loopback.
        kind: a key of POOLS; or "create", "feed" for one request to each of ``models``.
        path: where to; unused for models.
        connections: closed loops.
        seconds, warm_s: how long to measure, after warming up; unused for models.
        ids: give every feedback an id of its own.
        models: names.
        params: of the models to create.
    """

    port: int
    kind: str
    path: str = ""
    connections: int = 1
    seconds: float = 1.0
    warm_s: float = 0.1
    ids: bool = False
    models: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What came back.

    Attributes:
        acknowledged: answers 200 or 201 from the first to the last request.
        others: status -> count of all the others.
        rate: answers a second in the measured time.
        p50_ms, p99_ms: of these.
    """

    acknowledged: int = 0
    others: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    rate: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


POOLS: dict[str, tuple[Callable[[int, int], list[bytes]], int, str]] = {
    "feedback": (rows.single, SINGLE_BODIES, _JSON),
    "predict": (rows.asked, SINGLE_BODIES, _JSON),
    "infer": (rows.infer, SINGLE_BODIES, _JSON),
    "json": (rows.columns, BATCH_BODIES, _JSON),
    "csv": (rows.csv, BATCH_BODIES, "text/csv"),
    "npy": (rows.npy, BATCH_BODIES, "application/x-npy"),
    **{
        kind: (partial(rows.lines, each=each), SINGLE_BODIES // each, "application/x-ndjson")
        for kind, each in LINES.items()
    },
}


@cache
def pool(kind: str) -> list[bytes]:
    """The bodies of a kind, made once per process."""
    make, count, _ = POOLS[kind]
    return make(count, 1)


def head(method: str, path: str, media_type: str, length: int) -> bytes:
    """Request line and headers."""
    lines = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {media_type}", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


def messages(job: Job) -> "list[Iterator[bytes]]":
    """One source of requests per connection."""
    if job.models:
        shared = iter([_to_model(job, name) for name in job.models])
        return [shared] * job.connections
    bodies = pool(job.kind)
    if job.ids:
        return [_with_ids(job, bodies, _place(bodies, at, job)) for at in range(job.connections)]
    whole = [head("POST", job.path, POOLS[job.kind][2], len(body)) + body for body in bodies]
    return [itertools.islice(itertools.cycle(whole), _place(whole, at, job), None) for at in range(job.connections)]


def _place(bodies: list[bytes], at: int, job: Job) -> int:
    return at * len(bodies) // job.connections


def _with_ids(job: Job, bodies: list[bytes], start: int) -> Iterator[bytes]:
    """The only thing that is put together while the clock runs: the ids, of constant length."""
    each = LINES.get(job.kind, 1)
    member = b',"id":"' + secrets.token_hex(6).encode() + b'-%08d"}'
    longer = each * (len(member % 0) - len(member))
    marked = [body.replace(b"}\n", member + b"\n")[:-1] + member for body in bodies]
    kind = POOLS[job.kind][2]
    ready = [head("POST", job.path, kind, len(body) + longer) + body for body in marked]
    for number in itertools.count():
        yield ready[(start + number) % len(ready)] % (*range(number * each, (number + 1) * each),)


def _to_model(job: Job, name: str) -> bytes:
    if job.kind == "create":
        body = json.dumps(rows.model(job.params)).encode()
        return head("PUT", f"/models/{name}", _JSON, len(body)) + body
    body = pool("feedback")[crc32(name.encode()) % SINGLE_BODIES]
    return head("POST", f"/models/{name}/feedback", _JSON, len(body)) + body


class Run:
    """One job under way."""

    def __init__(self, job: Job) -> None:
        self.job, self.tally = job, Tally()
        self.latencies_s: list[float] = []
        now = perf_counter()
        self.begin = now if job.models else now + job.warm_s
        self.end = now + (600.0 if job.models else job.warm_s + job.seconds)

    def answered(self, answer: bytes, sent: float, now: float) -> None:
        """Count one answer."""
        if answer[9:12] not in (b"200", b"201"):
            self.other(answer[9:12].decode(errors="replace"))
        else:
            self.tally.acknowledged += 1
            if self.begin <= now <= self.end:
                self.latencies_s.append(now - sent)

    def other(self, kind: str) -> None:
        """Count what should not have happened."""
        self.tally.others[kind] = self.tally.others.get(kind, 0) + 1

    def finish(self, now: float) -> Tally:
        """The tally, once everything is answered."""
        tally, found = self.tally, sorted(self.latencies_s)
        tally.seconds = min(now, self.end) - self.begin
        tally.rate = len(found) / tally.seconds
        if found:
            tally.p50_ms, tally.p99_ms = (1000 * found[int(len(found) * share)] for share in (0.5, 0.99))
        return tally


class Loop(asyncio.Protocol):
    """One connection."""

    def __init__(self, run: Run, source: Iterator[bytes]) -> None:
        self._run, self._source = run, source
        self._rest = b""
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport: Any = transport
        self._next(perf_counter())

    def _next(self, now: float) -> None:
        message = next(self._source, None) if now < self._run.end else None
        if message is None:
            self._transport.close()
            return
        self._sent = now
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        """Count an answer when it is whole, and send the next request."""
        answer = self._rest + data if self._rest else data
        body = answer.find(b"\r\n\r\n") + 4
        at = answer.find(_LENGTH, 0, body)
        if body < 4 or at < 0 or len(answer) < body + int(answer[at + len(_LENGTH) : answer.find(b"\r", at)]):
            self._rest = answer
            return
        self._rest = b""
        now = perf_counter()
        self._run.answered(answer, self._sent, now)
        self._next(now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Done, or cut off."""
        early = perf_counter() < self._run.end and not self._run.job.models
        if early or exc is not None:
            self._run.other("cut")
        if not self.done.done():
            self.done.set_result(None)


async def run(job: Job) -> Tally:
    """Carry out one job."""
    sources, loop = messages(job), asyncio.get_running_loop()
    running = Run(job)
    loops = [
        (await loop.create_connection(lambda source=source: Loop(running, source), "127.0.0.1", job.port))[1]
        for source in sources
    ]
    limit = None if job.models else job.warm_s + job.seconds + ANSWER_S_MAX
    await asyncio.wait_for(asyncio.gather(*(loop.done for loop in loops)), limit)
    return running.finish(perf_counter())


def main() -> None:
    """Serve jobs until stdin ends."""
    for line in sys.stdin:
        given = json.loads(line)
        job = Job(**{**given, "models": tuple(given["models"])})
        print(json.dumps(asdict(uvloop.run(run(job)))), flush=True)


if __name__ == "__main__":
    main()
