"""How long the committer lets an append wait for a store that does not answer; time is simulated."""

import asyncio
import random

from service.errors import StoreDown
from service.runtime.commit.committer import CommitLimits, Committer, Ticket
from service.runtime.stats import Stats
from service.store.log.appends import Append, Appended, SegmentIn
from tests.simulator.clock import Loop

TIMEOUT_S = 2.0
LIMITS = CommitLimits(100, 100, id_ttl_ms=1000, ids_max=100, read_bytes_max=1000, timeout_s=TIMEOUT_S)


class FrozenLog:
    """A store that takes everything and answers nothing."""

    def node_key(self, name: str) -> str:
        return ""

    async def append(self, appends, safety, large_bytes):
        await asyncio.sleep(TIMEOUT_S)
        return [StoreDown("the store did not answer in time")] * len(appends)


class Model:
    """A model with one request."""

    name = "m"

    def __init__(self) -> None:
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def next_append(self) -> Ticket:
        append = Append("m", "inc", 0, "inc", "w", 1, "w-1", (SegmentIn(b"row"),), 1000, 100, 1000)
        return Ticket(self, append)

    def lost(self, error: StoreDown) -> None:
        self.ended.set_result(asyncio.get_running_loop().time())


def waits() -> float:
    """How long a request waits that comes half a second after the store has frozen."""

    async def run() -> float:
        async def ping() -> None:
            await asyncio.sleep(TIMEOUT_S)
            raise StoreDown("the store did not answer in time")

        committer = Committer(FrozenLog(), Stats(), LIMITS, ping=ping)
        running = asyncio.create_task(committer.run())
        await asyncio.sleep(0.5)
        model = Model()
        committer.ready(model)
        ended = await model.ended
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return ended - 0.5

    loop = Loop(random.Random(0), thread_s=0.0)
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


class TakingLog(FrozenLog):
    """A store that takes everything at once."""

    async def append(self, appends, safety, large_bytes):
        return [Appended("ok", 1, "w-1", 1, 0, ())] * len(appends)


class Broken(Model):
    """A model that fails when it is told that its request has been appended."""

    def landed(self, result: Appended) -> None:
        raise ZeroDivisionError


class Sound(Model):
    """A model that does not."""

    def landed(self, result: Appended) -> None:
        self.ended.set_result(0.0)


async def test_a_model_that_fails_leaves_none_behind_it_waiting():
    """Those before it have their answers; it and those behind it are told that nothing will come."""
    committer = Committer(TakingLog(), Stats(), LIMITS, ping=None)
    models = [Sound(), Broken(), Sound()]
    for model in models:
        committer.ready(model)
    running = asyncio.create_task(committer.run())
    async with asyncio.timeout(5):
        ended = [await model.ended for model in models]
        assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], ZeroDivisionError)
    assert [True, False, False] == [at == 0.0 for at in ended]


def test_a_request_waits_for_the_store_as_long_as_the_setting_says():
    """Once, not twice."""
    assert TIMEOUT_S <= waits() < TIMEOUT_S + 0.1
