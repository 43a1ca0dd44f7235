"""Waiting for what a service does by itself."""

import asyncio
import inspect


async def until(look, within_s=60.0):
    """What ``look`` finds in the end, awaited where it has to be; how long that takes decides nothing."""
    async with asyncio.timeout(within_s):
        while True:
            found = look()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)
