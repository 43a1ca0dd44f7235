"""A bound on pipelined requests: uvicorn queues as many as one read of the socket holds, and then reads on.

Nothing is read while a request waits behind the one in work. One more than WAITING_MAX closes the connection behind the
last of their answers; neither it nor what follows is read.
"""

from typing import Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.server.burst import Held

_on_response_complete = HttpToolsProtocol.on_response_complete  # for every request; super() costs as much as it does

WAITING_MAX = 16
LINGER_S = 1.0
"""How long a refused connection is read on, unheeded: closed with bytes unread, its client would lose the answer."""


class _Flow(FlowControl):
    """Reading stays paused while requests wait, also where the endpoint in work would have more of its client."""

    waiting: Any = ()

    def resume_reading(self) -> None:
        if self.read_paused and not self.waiting and not self._transport.is_closing():
            super().resume_reading()


class BoundedPipeline(HttpToolsProtocol):
    """A connection whose requests wait in bounded number.

    Attributes:
        deaf: nothing that still comes is to be parsed.
        in_work: the request that is answered, where others wait behind it.
    """

    deaf = False
    in_work: RequestResponseCycle

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self.flow.waiting = self.pipeline

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request in work; uvicorn tells the last one."""
        if self.pipeline:
            self.in_work.disconnected = True
            self.in_work.message_event.set()
        super().connection_lost(exc)

    def check_room(self) -> None:
        """Note that a request comes before the one in work is answered; stop the parser where as many wait as may."""
        if not self.pipeline:
            self.in_work = self.cycle
        elif len(self.pipeline) >= WAITING_MAX:
            self.last_answer()
            raise OverflowError("the maximum number of requests is waiting")

    def last_answer(self) -> None:
        """Close behind the answer to the last request that was read."""
        self.deaf, self.cycle.keep_alive = True, False
        cast("Held", self.transport).linger(LINGER_S)

    def on_response_complete(self) -> None:
        """Begin the next request; read on behind the last."""
        if self.pipeline:
            self.in_work = self.pipeline[-1][0]
        _on_response_complete(self)
        if self.flow.read_paused:
            self.flow.resume_reading()
