"""The answer that carries a whole state."""

import asyncio
from collections.abc import Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.contract import Buffer

STATE = "application/octet-stream"
PIECE_BYTES = 2**20
"""Most bytes of a state that are handed to the connection at once."""


class StateFile(Response):
    """A state, sent in pieces as fast as the client takes them, with its length told before.

    Args:
        state: its bytes.
        headers: of the answer.
        sent: called when the state is held no longer, sent or not.
    """

    media_type = STATE

    def __init__(self, state: Buffer, headers: Mapping[str, str], sent: Callable[[], None]) -> None:
        self._state, self._sent = memoryview(state), sent
        super().__init__(headers={**headers, "Content-Length": str(len(state))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, len(self._state), PIECE_BYTES):
                piece = bytes(self._state[at : at + PIECE_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)  # a client that is gone takes pieces at once
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._sent()
