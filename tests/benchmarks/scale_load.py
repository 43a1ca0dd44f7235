"""Rows of many models over many connections, each with an id, sent until acknowledged: a process of its own.

    python -m tests.benchmarks.scale_load PORT MODELS CONNECTIONS SECONDS

A closed loop per connection, each request to the next model. A row whose connection broke, or that got 502, 503 or
504, is sent again with its id on another connection. One JSON document on stdout: what was acknowledged, in how many
tries, and the latency of every row, retries included, with the second in which it was sent.
"""

import asyncio
import itertools
import json
import secrets
import signal
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter

import uvloop

from tests.benchmarks import rows
from tests.benchmarks.load import head

BODIES = 4096
AGAIN = (b"502", b"503", b"504")
PAUSE_S = 0.02
GIVE_UP_S = 60.0
"""A row that is not acknowledged in this time ends the run."""
LENGTH = b"content-length: "


@dataclass
class Heard:
    """What came back.

    Attributes:
        acknowledged: rows, each once.
        again: tries that had to be repeated, by status; "cut": the connection broke.
        seconds: of the whole run.
        latencies: (second in which the row was sent first, seconds until it was acknowledged).
    """

    acknowledged: int = 0
    again: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    latencies: list[tuple[float, float]] = field(default_factory=list)

    def repeat(self, why: str) -> None:
        """Count a try that is to be repeated."""
        self.again[why] = self.again.get(why, 0) + 1


class Connection:
    """One closed loop.

    Args:
        port: where to.
        heard: what is counted.
    """

    def __init__(self, port: int, heard: Heard) -> None:
        self._port, self._heard = port, heard
        self._reader: asyncio.StreamReader | None = None

    async def learn(self, message: bytes) -> None:
        """Send a row until it is acknowledged.

        Raises:
            RuntimeError: it was refused, or nobody has taken it for GIVE_UP_S.
        """
        begun = perf_counter()
        while (status := await self._try(message)) != b"200":
            self._heard.repeat(status.decode())
            if status not in (*AGAIN, b"cut"):
                raise RuntimeError(f"an answer with status {status!r}")
            if perf_counter() > begun + GIVE_UP_S:
                raise RuntimeError(f"a row was not taken for {GIVE_UP_S:g} s; the last try: {status.decode()}")
            await asyncio.sleep(PAUSE_S)
        self._heard.acknowledged += 1

    async def _try(self, message: bytes) -> bytes:
        """The status of one try."""
        try:
            if self._reader is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(message)
            answer = await self._reader.readuntil(b"\r\n\r\n")
            at = answer.lower().find(LENGTH) + len(LENGTH)
            await self._reader.readexactly(int(answer[at : answer.find(b"\r", at)]))
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.close()
            return b"cut"
        if answer[9:12] != b"200":
            self.close()
        return answer[9:12]

    def close(self) -> None:
        """Hang up."""
        if self._reader is not None:
            self._writer.close()
            self._reader = None


async def run(port: int, models: int, connections: int, seconds: float) -> Heard:
    """Send rows for so long, or until SIGTERM."""
    heard, bodies, prefix = Heard(), rows.single(BODIES, 1), secrets.token_hex(4)
    begun, enough = perf_counter(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)

    async def loop(at: int) -> None:
        connection = Connection(port, heard)
        for number in itertools.count():
            sent = perf_counter()
            if sent > begun + seconds or enough.is_set():
                break
            body = bodies[(at * 61 + number) % BODIES][:-1] + f',"id":"{prefix}-{at}-{number}"}}'.encode()
            name = f"m{(at * 37 + number) % models}"
            await connection.learn(head("POST", f"/models/{name}/feedback", "application/json", len(body)) + body)
            heard.latencies.append((round(sent - begun, 3), round(perf_counter() - sent, 6)))
        connection.close()

    await asyncio.gather(*(loop(at) for at in range(connections)))
    heard.seconds = perf_counter() - begun
    return heard


def main() -> None:
    """As the arguments say."""
    port, models, connections, seconds = sys.argv[1:]
    heard = uvloop.run(run(int(port), int(models), int(connections), float(seconds)))
    with open(sys.stdout.fileno(), "w", closefd=False) as whole:  # unbuffered, stdout may write a part only
        json.dump(asdict(heard), whole)


if __name__ == "__main__":
    main()
