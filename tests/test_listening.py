"""A test's own server leaves no connection open, whenever it ends."""

import asyncio
import gc
import socket
import warnings

import pytest

from tests.listening import listening


async def _reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("rounds", range(6))
def test_a_connection_accepted_in_the_last_moment_is_closed(rounds: int) -> None:
    """Whatever the event loop has done of it: accepted it, made its protocol, begun its task."""

    async def ends_after(client: socket.socket) -> None:
        async with listening(_reads) as port:
            client.connect(("127.0.0.1", port))
            for _ in range(rounds):
                await asyncio.sleep(0)

    with socket.socket() as client, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(ends_after(client))
        gc.collect()
    assert [] == [str(one.message) for one in warned]
