"""Bounds on TLS handshakes: their time and their number. Before its handshake a connection has no protocol.

A handshake that never ends would hold a file descriptor and memory for a minute, and ``Gate`` would not know of it.
"""

import ssl
from asyncio import AbstractEventLoop
from collections.abc import Collection
from functools import partial

from service.server import http_protocol
from service.server.http_protocol import Gate


def bound(context: ssl.SSLContext, gate: Gate, connections: Collection[object], loop: AbstractEventLoop) -> None:
    """Bound the handshakes of a context and of all servers that a loop starts; ``connections`` are past theirs."""
    context.sslobject_class = type("Counted", (_Counted,), {"gate": gate, "connections": connections})
    listen = partial(loop.create_server, ssl_handshake_timeout=http_protocol.HEAD_S)
    loop.create_server = listen  # type: ignore[method-assign]  # uvicorn, which calls it, has no such option


class _Counted(ssl.SSLObject):
    """The TLS state of one connection: the loop makes it first of all, and calls ``do_handshake`` as bytes come."""

    gate: Gate
    connections: Collection[object]

    def do_handshake(self) -> None:
        """Go on with the handshake; ``SSLError``, at which the loop closes, if there are too many connections."""
        begun = self in self.gate.handshakes
        self.gate.handshakes.discard(self)
        if not begun and self.gate.hopeless(len(self.connections) + 1):
            raise ssl.SSLError("the maximum number of connections is open")
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            self.gate.handshakes.add(self)
            raise
