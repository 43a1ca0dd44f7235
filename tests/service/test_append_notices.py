"""Listening to appends: who gets a notice, and that the connection for it ends with the task that listens."""

import asyncio

import pytest

from service.store.keys import ModelKeys
from service.store.log.append_notices import AppendNotice, AppendNotices
from service.store.log.appends import SegmentIn
from tests.service.store_fixtures import INCARNATION


@pytest.mark.parametrize("segments", [(SegmentIn(b"row"),), (SegmentIn(b"row"), SegmentIn(b"row"))])
async def test_no_notice_is_sent_where_nobody_else_listens(model, segments):
    """A process that listens alone gets none of its own appends; as soon as another one listens, both get them."""
    connection, channel = model.connection, ModelKeys("m", "").notices
    own, other = AppendNotices(connection, "w1"), AppendNotices(connection, "w2")
    told: asyncio.Queue[AppendNotice] = asyncio.Queue()
    tasks = []

    async def listen(notices, heard):
        begun = asyncio.Event()
        notices.want("m")
        tasks.append(asyncio.create_task(notices.listen(heard, lambda _: begun.set())))
        await begun.wait()

    async with asyncio.timeout(10):
        assert "m" not in own.subscribed
        await model.append(*segments)
        await listen(own, told.put_nowait)
        assert "m" in own.subscribed
        await model.append(*segments, listening=1)
        await connection.ask(("PUBLISH", channel, f"{INCARNATION} 9 w9.1"))
        assert AppendNotice("m", INCARNATION, 9, "w9.1") == await told.get()

        await listen(other, told.put_nowait)
        await model.append(*segments, listening=1)
        assert [AppendNotice("m", INCARNATION, 3, "w1-3")] * 2 == [await told.get(), await told.get()]
        own.drop("m")
        assert "m" not in own.subscribed
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_listener_that_is_cancelled_twice_leaves_no_connection(connection):
    """Once by its task group and once by a loop that ends, the second time while it ends its own task."""
    notices, begun = AppendNotices(connection, "w1"), asyncio.Event()
    notices.want("m")
    listening = asyncio.create_task(notices.listen(lambda _: None, lambda _: begun.set()))
    async with asyncio.timeout(10):
        await begun.wait()
        channel = ModelKeys("m", "").notices
        assert [1] == await connection.listeners([channel])
        for _ in range(2):
            listening.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(listening, return_exceptions=True)
        while [0] != await connection.listeners([channel]):
            await asyncio.sleep(0.01)
