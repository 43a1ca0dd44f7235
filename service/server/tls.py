"""TLS: handshakes within the bounds of every connection.

uvicorn would let a server handshake by itself, a minute for each connection, before any of them is counted. Here the
connection is the server's from its first byte: it is one of those that ``Gate`` counts, its handshake takes HEAD_S at
most, and what it carries then is given to the protocol that serves it without TLS.
"""

import asyncio
import logging
from typing import Any

from service.server.certificates import Certificates
from service.server.http_protocol import HEAD_S, LINGER_S, Gate

logger = logging.getLogger(__name__)


def secured(plain: type[asyncio.Protocol], gate: Gate, certificates: Certificates) -> type[asyncio.Protocol]:
    """The protocol for uvicorn to make one of for each connection, which serves by ``plain`` what it deciphers.

    Args:
        plain: of ``http_protocol.bounded``.
        gate: how many connections there may be.
        certificates: what they are made with.
    """
    serving = type("SecuredProtocol", (_Closing, plain), {})
    return type("HandshakeProtocol", (_Handshake,), {"serving": serving, "gate": gate, "certificates": certificates})


class _Closing:
    """What is served by TLS: a transport that is being closed still delivers what its client has sent."""

    transport: asyncio.Transport

    def data_received(self, data: bytes) -> None:
        """Take a request, unless the answer would go nowhere."""
        if not self.transport.is_closing():
            super().data_received(data)  # type: ignore[misc]  # the protocol's, which stands behind this one


class _Handshake(asyncio.Protocol):
    """One connection until it is secure; it takes a place among the connections meanwhile."""

    serving: type[Any]
    gate: Gate
    certificates: Certificates

    def __init__(self, *, server_state: Any, **how: Any) -> None:
        self._server, self._how = server_state, how
        self._early, self._lost = bytearray(), False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin the handshake."""
        if self.gate.hopeless(len(self._server.connections) + 1):
            transport.abort()
            return
        transport.pause_reading()  # what is read now TLS would miss; uvloop reads once all the same
        self.transport = transport
        self._server.connections.add(self)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._secure(loop, transport))
        loop.call_soon(self._hand_over, transport)  # behind the first step of the task

    async def _secure(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        try:
            secure = await loop.start_tls(
                transport,
                self,
                self.certificates.context,
                server_side=True,
                ssl_handshake_timeout=HEAD_S,
                ssl_shutdown_timeout=LINGER_S,
            )
        except OSError as error:  # the client speaks something else, does not trust us, or has gone
            logger.debug("a handshake failed: %s", getattr(error, "reason", None) or type(error).__name__)
            secure = None
        finally:
            self._server.connections.discard(self)
        if secure is not None and not self._lost:
            serving = self.serving(server_state=self._server, **self._how)
            secure.set_protocol(serving)
            serving.connection_made(secure)
            if self._early:
                serving.data_received(bytes(self._early))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        """Give to TLS what was read before it took the connection over, as the loop gives it what it reads."""
        early, self._early = memoryview(bytes(self._early)), bytearray()
        protocol: Any = transport.get_protocol()  # a BufferedProtocol, which uvloop's does not say of itself
        while early and protocol is not self and not transport.is_closing():
            room = protocol.get_buffer(len(early))
            taken = min(len(room), len(early))
            room[:taken], early = early[:taken], early[taken:]
            protocol.buffer_updated(taken)

    def data_received(self, data: bytes) -> None:
        """Keep what came too early: before TLS took over, or with the end of the handshake."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  whatever it was
        """The client has gone, or the server stops."""
        self._lost = True

    def shutdown(self) -> None:
        """Hang up: what uvicorn asks of every connection when it stops."""
        if self.transport is not None:
            self.transport.abort()
