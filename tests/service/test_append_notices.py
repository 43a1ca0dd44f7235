"""Listening to appends: the connection for it ends with the task that listens."""

import asyncio

from service.store.keys import ModelKeys
from service.store.log.append_notices import AppendNotices


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
