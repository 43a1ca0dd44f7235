"""Single rows of one model on a schedule, and how long each waits: ``python -m tests.benchmarks.harness.probe PORT``.

A process of its own, so that nothing that the benchmark does delays what it measures. Every 10 ms it sends one feedback
and one predict to the model "other", each over a connection of its own, unless the last one is still unanswered. A
request that waits longer than that keeps others from being sent: they are counted as if they had been sent on time, so
that percentiles are over time, not over answers. On stdin "start" begins to measure; at "stop" nothing more is sent,
and what was found is printed as one line of JSON within 3 s.
"""

import asyncio
import json
import sys
from collections import Counter
from time import perf_counter
from typing import NamedTuple

from tests.benchmarks.harness.load import Connection, head

INTERVAL_S, LAST_S = 0.010, 3.0
MODEL = "other"
BODIES = {"feedback": b'{"features":{"x1":0.25},"label":0.5}', "predict": b'{"features":{"x1":0.25}}'}


class Waits(NamedTuple):
    """What single rows waited for, and how late this process itself woke up at worst.

    ``statuses`` has "none" for what is unanswered in the end, and "cut" where the connection was closed.
    """

    p50_ms: float
    p99_ms: float
    worst_ms: float
    statuses: dict[str, int]
    lag_ms: float


class Probe:
    """The schedule, and what was found between start and stop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        """Begin to measure."""
        self._waits_s, self._lag_s, self._sending = list[float](), 0.0, True
        self._statuses = Counter[str]()

    async def stop(self) -> Waits:
        """Send nothing more; what was found once all is answered."""
        self._sending = False
        until = perf_counter() + LAST_S
        while self._sent and perf_counter() < until:
            await asyncio.sleep(INTERVAL_S)
        for route in [*self._sent]:
            self._count(route, "none")
        waits = sorted(self._waits_s)
        found = (1000 * waits[min(len(waits) - 1, int(len(waits) * share))] for share in (0.5, 0.99, 1.0))
        return Waits(*found, self._statuses, 1000 * self._lag_s)

    async def line(self, route: str) -> None:
        """Repeat the request of a route over one connection, opened anew after it was closed."""
        body, connection = BODIES[route], Connection(self._port)
        request = head("POST", f"/models/{MODEL}/{route}", "application/json", len(body), {}) + body
        due = perf_counter()
        while True:
            await asyncio.sleep(due - perf_counter())
            self._lag_s = max(self._lag_s, perf_counter() - due)
            if self._sending:
                self._sent[route] = perf_counter()
                self._count(route, await connection.try_once(request))
            due += INTERVAL_S * (1 + int(max(0.0, perf_counter() - due) / INTERVAL_S))

    def _count(self, route: str, status: str) -> None:
        wait_s = perf_counter() - self._sent.pop(route, perf_counter())
        self._statuses[status] += 1
        while wait_s > 0:  # this one, and those that it kept from being sent
            self._waits_s.append(wait_s)
            wait_s -= INTERVAL_S


async def main(port: int) -> None:
    """Send on time until stdin ends."""
    probe = Probe(port)
    lines = [asyncio.create_task(probe.line(route)) for route in BODIES]
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if word == "start":
            probe.start()
        else:
            print(json.dumps(await probe.stop()), flush=True)
    for line in lines:
        line.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
