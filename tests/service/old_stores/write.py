"""Have the code of a checkout write a sample: a real service on an empty store, led through the stories over HTTP.

    git worktree add /tmp/old 5f6c672
    python -m tests.service.old_stores.write 4 --checkout /tmp/old

Without ``--checkout`` the present code writes the sample of its own format. A sample is written once, by the last code
of its format, and stays as it is: write it before the format is raised. Ids and tracked predictions are kept for thirty
years, so that they are known whenever the sample is read. The service is killed: what it does when it stops in good
order, a snapshot of every model for one, is not done.
"""

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from service.embedded import EmbeddedStore
from tests.deploy.balancers import free_port
from tests.service.old_stores.samples import Sample, Told, dump
from tests.service.old_stores.stories import Story, stories

ROOT = Path(__file__).resolve().parents[3]
THIRTY_YEARS_S = 10**9
PATIENCE_S = 300.0
SETTLED_S = 10.0
"""Answers to ids, summaries and drift events are stored soon after the row, by tasks of their own."""
SERVE = "import sys; from service.cli import main; sys.exit(main(['serve']))"
IDS_ASKED = 6
BACKUP_SINCE = 4


@contextlib.asynccontextmanager
async def serving(checkout: Path, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the checkout's service, which is killed at the end."""
    port = free_port()
    own = {"REDIS_URL": url, "PORT": port, "ID_TTL_S": THIRTY_YEARS_S, "PREDICTION_TTL_S": THIRTY_YEARS_S}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONEPASS_", "PYTHON"))}
    env = kept | {f"ONEPASS_{name}": str(value) for name, value in own.items()}
    service = subprocess.Popen([sys.executable, "-c", SERVE], cwd=checkout, env=env)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            async with asyncio.timeout(PATIENCE_S):
                while not await _ready(client):
                    assert service.poll() is None, "the service has ended"
                    await asyncio.sleep(0.1)
            yield client
    finally:
        service.kill()
        service.wait()


async def _ready(client: httpx.AsyncClient) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return (await client.get("/readyz")).status_code == 200
    return False


class Teller:
    """Leads the models of a service through their stories.

    Args:
        client: of the service.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request that works."""
        answer = await self._client.request(method, path, **({} if body is None else {"json": body}))
        assert answer.status_code in {200, 201}, f"{method} {path}: {answer.text}"
        return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.content

    async def live(self, story: Story) -> tuple[list[Any], list[Any]]:
        """A whole story: requests with ids and their answers, and the predictions that were tracked."""
        path = f"/models/{story.name}"
        await self.ask("PUT", path, story.config)
        asked, tracked = [], []
        for name, body in story.steps:
            method, _, rest = name.rpartition(" ")
            answer = await self.ask(method or "POST", f"{path}/{rest}".rstrip("/"), body)
            if isinstance(body, dict) and ("id" in body or "ids" in body):
                asked.append((name, body, answer))
            if isinstance(body, dict) and body.get("track"):
                tracked.append(answer)
        return asked[-IDS_ASKED:], tracked

    async def told(self, story: Story, asked: list[Any], tracked: list[Any]) -> Told:
        """All that clients see of a model."""
        path = f"/models/{story.name}"
        predictions = [await self.ask("POST", f"{path}/predict", {"features": probe}) for probe in story.probes]
        return Told(
            model=await self.ask("GET", f"{path}?consistency=strong"),
            features=await self.ask("GET", f"{path}/features") if story.probes else {},
            pending=(await self.ask("GET", f"{path}/pending"))["pending"],
            snapshots=(await self.ask("GET", f"{path}/snapshots"))["snapshots"],
            drift=(await self.ask("GET", f"{path}/drift"))["events"],
            predictions=predictions,
            asked=asked,
            tracked=tracked,
            state=await self.ask("GET", f"{path}/state"),
        )


async def sample(checkout: Path, version: int, url: str) -> Sample:
    """The sample of a format, by the code of the checkout."""
    async with serving(checkout, url) as client:
        teller, lived = Teller(client), {}
        for story in stories(version):
            lived[story.name] = (story, *await teller.live(story))
        await asyncio.sleep(SETTLED_S)
        models = {name: await teller.told(*of) for name, of in lived.items()}
        backup = await teller.ask("GET", "/backup") if version >= BACKUP_SINCE else None
    return Sample(version, _commit(checkout), models, backup, await dump(url))


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Write one sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the sample: the format of its states first, as 3 or 3-first")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the code that writes it; this one by default")
    options = parser.parse_args()
    found = re.match(r"\d+", options.name)
    assert found is not None, "the name begins with the format"
    with tempfile.TemporaryDirectory() as folder:
        store = EmbeddedStore(Path(folder) / "store", "everysec")
        try:
            asyncio.run(sample(options.checkout.resolve(), int(found[0]), store.start())).write(options.name)
        finally:
            store.stop()


if __name__ == "__main__":
    main()
