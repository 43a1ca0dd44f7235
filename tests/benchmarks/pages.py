"""What pages cost, and how fast they are.

    python -m tests.benchmarks.pages [cost] [share] [paint] [--rounds N] [--seconds S] [--models N]

``cost``: single rows of feedback over 8 connections to one model, in turns with and without twenty open pages of that
model. Each is a client that asks for what the page asks for, every two seconds, and does nothing with it, so that a
browser's own work on the same cores does not count as the service's. Printed are rows a second and CPU time of the
service per row, of each round, and the medians of the rounds' ratios.

``share``: ten such pages and ten of the list while one client sends 100 rows a second, so that all of the difference in
CPU time is theirs; once with pages of one model, once of ten. Exits with 1 where they take more than a twentieth of a
core.

``paint``: a service with ten thousand models, and the page at / in Chromium, with an empty cache: milliseconds from the
request to the first paint and to the fifty rows, bytes of all bodies.
"""

import argparse
import asyncio
import http.client
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from statistics import median
from time import perf_counter, sleep

from playwright.async_api import Browser, async_playwright

from tests.benchmarks import rows
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Load, Service
from tests.browser import many
from tests.browser.conftest import FLAGS, program
from tests.browser.visits import Visits

MODEL = "/models/m"
LIST = "/models?sort=worst&limit=50&totals=true"
POLL_S = 2.0
DRIFT = "drift?order=newest"
AGED = {"Cache-Control": "max-age=1"}
PAGES = 20
CONNECTIONS = 8
PACE = 100.0
"""Rows a second of ``share``."""
SHARE_MAX = 0.05
"""CPU seconds a second that pages may take."""
SHOWN = """() => new Promise((resolve) => {
    const look = () => {
        const paint = performance.getEntriesByName("first-contentful-paint")[0];
        if (paint && document.querySelectorAll("tbody tr").length === 50) {
            resolve([paint.startTime, performance.now()]);
        } else {
            setTimeout(look, 5);
        }
    };
    look();
})"""


@contextmanager
def opened(port: int, pages: Sequence[str]) -> Iterator[list[int]]:
    """Open pages, one after the other within the time between two looks, and the bytes that each has been sent so far.

    Args:
        port: of the service.
        pages: what each asks for first: ``LIST``, or the path of a model.
    """
    taken, over = [0] * len(pages), threading.Event()

    def look(at: int) -> None:
        over.wait(POLL_S * at / len(pages))
        page = _Page(port, pages[at])
        while not over.is_set():
            begun = perf_counter()
            page.look()
            taken[at] = page.taken
            over.wait(max(0.0, begun + POLL_S - perf_counter()))

    threads = [threading.Thread(target=look, args=(at,), daemon=True) for at in range(len(pages))]
    for thread in threads:
        thread.start()
    try:
        yield taken
    finally:
        over.set()
        for thread in threads:
            thread.join(10)


class _Page:
    """What an open page asks for (``service/pages/assets/model/documents.js``)."""

    def __init__(self, port: int, path: str) -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path, self._looks, self._tags = path, count(), {}
        self.taken = 0

    def look(self) -> None:
        """Look once."""
        changed = self._get(self._path)
        if self._path == LIST:
            return
        turn = next(self._looks)
        below = [("pending?limit=20", DRIFT, "log?limit=6", DRIFT, "snapshots", DRIFT)[turn % 6]]
        below.append("challengers" if changed else DRIFT)
        if turn % 3 == 0:
            below.append("weights")
        for name in below:
            self._get(f"{self._path}/{name}")

    def _get(self, path: str) -> bool:
        known = {"If-None-Match": self._tags[path]} if path in self._tags else {}
        self._client.request("GET", path, headers={**AGED, **known})
        answer = self._client.getresponse()
        self.taken += len(answer.read())
        if answer.status not in (200, 304):
            raise RuntimeError(f"{path}: {answer.status}")
        if (tag := answer.getheader("ETag")) is not None:
            self._tags[path] = tag
        return answer.status == 200


def cost(rounds: int, seconds: float) -> None:
    """Rows a second, and CPU per row, with twenty pages and without."""
    rates, cpus = [], []
    pages = [MODEL] * PAGES
    with Service() as service, Load() as load:
        service.create("m", rows.model({}))
        job = Job(service.port, "feedback", "/models/m/feedback", CONNECTIONS, seconds, warm_s=1.0)

        def measured() -> tuple[float, float]:
            before = service.used().service
            tally = load.run(job)
            return tally.rate, 1e6 * (service.used().service - before) / tally.acknowledged

        print(f"{'':8}{'rows/s':>20}{'us CPU per row':>24}{'KB/s sent':>12}")
        for number in range(rounds):
            found, sent = {}, 0
            for watched in (number % 2 == 0, number % 2 == 1):
                if watched:
                    with opened(service.port, pages) as taken:
                        found[True] = measured()
                        sent = sum(taken)
                else:
                    found[False] = measured()
            (plain, plain_cpu), (watched_rate, watched_cpu) = found[False], found[True]
            rates.append(watched_rate / plain)
            cpus.append(watched_cpu / plain_cpu)
            shown = f"{plain:>9.0f} {watched_rate:>9.0f}  {plain_cpu:>11.1f} {watched_cpu:>11.1f}"
            print(f"round {number + 1:<2}{shown}{sent / 1000 / (seconds + 1):>12.1f}", flush=True)
    print(f"{PAGES} pages: {median(rates):.3f} times the rows a second, {median(cpus):.3f} times the CPU per row")


def share(rounds: int, seconds: float, models: int) -> float:
    """CPU seconds a second that twenty pages take, ten of them of so many models in turn."""
    pages = [LIST] * (PAGES // 2) + [f"{MODEL}{at % models}" for at in range(PAGES // 2)]
    with Service() as service:
        feed = Feed(service, models)
        differences = []
        for number in range(rounds):
            found = {}
            for watched in (number % 2 == 0, number % 2 == 1):
                with opened(service.port, pages if watched else ()):
                    feed.send(1.0)
                    before, begun = service.used().service, perf_counter()
                    feed.send(seconds)
                    found[watched] = (service.used().service - before) / (perf_counter() - begun)
            differences.append(found[True] - found[False])
    print(f"pages of {models:2} models: {median(differences):.3f} CPU s/s at {PACE:.0f} rows/s", flush=True)
    return median(differences)


class Feed:
    """Single rows to some models in turn, at a fixed pace; each has learned some thousand rows before.

    Args:
        service: which has none of the models yet.
        models: how many.
    """

    def __init__(self, service: Service, models: int) -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        self._models, self._bodies, self._sent = models, rows.single(4096, 1), 0
        X, y = rows.draw(6000, 2)
        table = {"columns": list(rows.NAMES), "data": X.tolist(), "labels": [rows.LABELS[label] for label in y]}
        for at in range(models):
            service.create(f"m{at}", rows.model({}))
            self._post(f"/models/m{at}/feedback/batch", json.dumps(table).encode())

    def _post(self, path: str, body: bytes) -> None:
        self._client.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._client.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")

    def send(self, seconds: float) -> None:
        """Send for so long."""
        begun = perf_counter()
        for number in range(int(seconds * PACE)):
            self._post(f"/models/m{self._sent % self._models}/feedback", self._bodies[self._sent % len(self._bodies)])
            self._sent += 1
            sleep(max(0.0, begun + (number + 1) / PACE - perf_counter()))


async def paint(models: int, visits: int) -> None:
    """The page of ten thousand models."""
    with Service() as service:
        await many.create(f"unix://{service.socket}", models)
        async with async_playwright() as playwright:
            found = program()
            if found is None:
                sys.exit("needs a browser: apt install chromium")
            browser = await playwright.chromium.launch(executable_path=found, args=FLAGS)
            times = [await _visit(browser, f"http://127.0.0.1:{service.port}") for _ in range(visits)]
            await browser.close()
    first, shown, sizes = zip(*times, strict=True)
    print(f"{models} models, {visits} visits with an empty cache; median (worst)")
    print(f"first paint   {median(first):7.0f} ms ({max(first):.0f})")
    print(f"fifty rows    {median(shown):7.0f} ms ({max(shown):.0f})")
    print(f"bytes         {median(sizes) / 1000:7.1f} KB")


async def _visit(browser: Browser, url: str) -> tuple[float, float, int]:
    """Milliseconds to the first paint and to the rows, and bytes."""
    visits = Visits(browser, url)
    page = await visits.open("/", wait_until="commit")
    first, shown = await page.evaluate(SHOWN)
    received = visits.received[page]
    await visits.close()
    return first, shown, received


def main() -> int:
    """Run the parts that are named, or all; 1 where pages cost too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=("cost", "share", "paint", []), help="default: all")
    parser.add_argument("--rounds", type=int, default=6, help="of cost and share; and visits of paint")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement of cost and share")
    parser.add_argument("--models", type=int, default=10_000)
    given = parser.parse_args()
    if not given.parts or "cost" in given.parts:
        cost(given.rounds, given.seconds)
    shares = [0.0]
    if not given.parts or "share" in given.parts:
        shares = [share(given.rounds, given.seconds, models) for models in (1, 10)]
    if not given.parts or "paint" in given.parts:
        asyncio.run(paint(given.models, given.rounds))
    return int(max(shares) > SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
