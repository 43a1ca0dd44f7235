"""The way of one row through the code: ``python -m tests.benchmarks.row_path [--list]``.

One POST /feedback and one POST /predict are sent with a key to the app in this process, after a model has learned a few
thousand rows; by then most rows no longer enter the sample for explanations. Every call of a Python function in core/
and service/ is counted with a profile hook (a coroutine that is resumed counts again). Printed are the files that take
part, the calls in them, and how often one file hands over to another; ``--list`` adds the calls of each file. The
numbers depend on nothing but the code.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from service.app import build
from service.embedded import EmbeddedStore
from service.settings import Settings
from tests.benchmarks.harness import rows
from tests.benchmarks.harness.processes import KEY

ROOT = Path(__file__).resolve().parents[2]
COUNTED = tuple(f"{ROOT / folder}/" for folder in ("core", "service"))
WARM_ROWS, PARAMS = 3_000, {"forgetting_rate": "auto"}
QUIET_S = 1.2
"""Lets the background tasks finish, so that the summary of once a second does not ride with the counted row."""


class Calls:
    """Calls of Python functions in core/ and service/, in their order, as the paths of their files."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """The profile hook."""
        if event == "call" and (path := frame.f_code.co_filename).startswith(COUNTED):
            self.paths.append(path)

    def report(self, route: str, listed: bool) -> None:
        """Print what was counted."""
        moves = sum(one != other for one, other in zip(self.paths, self.paths[1:], strict=False))
        counts = Counter(self.paths)
        print(f"{route:10} {len(counts):3} files  {len(self.paths):4} calls  {moves:4} moves from one file to another")
        if listed:
            for path, count in counts.most_common():
                print(f"  {count:4}  {Path(path).relative_to(ROOT)}")


async def measure(url: str, listed: bool) -> None:
    """Warm a model, then count one request of each kind."""
    app: Any = build(Settings(redis_url=url, api_keys=f"bench:{KEY}:read+learn+admin"))
    given = {"headers": {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}, "base_url": "http://m"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), **given) as client,
    ):

        async def ask(method: str, path: str, body: bytes) -> None:
            (await client.request(method, f"/models/m{path}", content=body)).raise_for_status()

        await ask("PUT", "", rows.to_json(rows.model(PARAMS)))
        *warm, last = rows.single(WARM_ROWS + 1, 1)
        for number, body in enumerate(warm):
            await ask("POST", "/feedback", body[:-1] + b',"id":"row-%d"}' % number)
        first, second = rows.asked(2, 2)
        await ask("POST", "/predict", first)
        await asyncio.sleep(QUIET_S)
        for route, body in (("feedback", last[:-1] + b',"id":"row"}'), ("predict", second)):
            calls = Calls()
            sys.setprofile(calls)
            await ask("POST", f"/{route}", body)
            sys.setprofile(None)
            calls.report(route, listed)


def main() -> None:
    """Start a private store, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="the calls of each file")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder:
        store = EmbeddedStore(Path(folder), "everysec")
        try:
            asyncio.run(measure(store.start(), listed))
        finally:
            store.stop()


if __name__ == "__main__":
    main()
