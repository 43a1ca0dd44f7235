"""What a server says to whoever connects before it hangs up: Redis in protected mode says DENIED, to all commands."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis import exceptions

from service.store.redis.redis_errors import unavailable

WAIT_S = 0.5
"""A server that lets clients in says nothing until it is asked."""


async def refusal(where: Mapping[str, Any]) -> str | None:
    """Why a server lets nobody in, for the operator; None: it does not say, or listens on a Unix socket.

    Args:
        where: the library's arguments of a connection.
    """
    if "host" not in where:
        return None
    said = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(where["host"], int(where.get("port", 6379)))
            try:
                said = await reader.read(256)
            finally:
                writer.close()
    meant = unavailable(exceptions.ResponseError(said.removeprefix(b"-").decode(errors="replace")))
    return None if meant is None else meant.detail
