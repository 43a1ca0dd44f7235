"""uvicorn's HTTP/1.1 protocol with limits on heads, waiting requests and connections, and on slow bodies and answers.

    request line and headers, or trailers     HEAD_BYTES_MAX, HEAD_LINES_MAX     431, closed
    the time that they take                   HEAD_S                             closed
    the time of a TLS handshake               HEAD_S                             closed
    a connection that has sent nothing        HEAD_S                             closed
    a body                                    ``progress``                       408, closed
    an answer that the client does not read   ``progress``                       cut off
    requests that wait                        WAITING_MAX                        closed after the last answer
    a stream whose client sends no more       STREAM_S                           closed
    connections                               ``Gate``                           503 with Retry-After, closed

The parser itself has no limits: it collects header lines, and the parts of one, for as long as they come. And uvicorn
queues as many pipelined requests as one read of the socket holds, and then reads on; here nothing is read while a
request waits behind the current one.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic
from typing import Any, cast
from weakref import WeakSet

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from starlette.responses import Response
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.http import headers
from service.api.http.headers import NOSNIFF
from service.api.http.problems import problem
from service.errors import BadHead, ConnectionsFull, HeadTooLarge, OnepassError, TooLate
from service.server.one_write import Burst, Held
from service.server.progress import Progress, untaken_bytes
from service.server.unchunked import without_chunks

logger = logging.getLogger(__name__)
# Called for every request, where super() costs as much as they do.
_on_message_begin, _on_headers_complete = HttpToolsProtocol.on_message_begin, HttpToolsProtocol.on_headers_complete
_on_body, _on_message_complete = HttpToolsProtocol.on_body, HttpToolsProtocol.on_message_complete
_on_response_complete = HttpToolsProtocol.on_response_complete

HEAD_BYTES_MAX = 65_536
"""Of the path, names and values together. Input that makes no progress (one endless line, extensions of a chunk) is
refused a piece later: it may still become a head that is just short enough."""
HEAD_LINES_MAX = 100
PIECE_BYTES = 16_384  # how much the parser gets at once: what is still incomplete is checked in between
HEAD_S = 10.0  # from the first byte of a head (or from connecting) to its last
WAITING_MAX = 16  # requests that wait behind the current one; nothing after them is read
LINGER_S = 1.0
"""How long further input is read and dropped after the last answer: otherwise the client could lose the answer."""
STOP_STALL_S = 2.0  # replaces progress.STALL_S once the service stops
STREAM_S = 1.0  # pause between two checks whether the last answer of a connection is a stream
REFUSED_OPEN_MAX = 32  # excess connections that still get a 503; further ones are closed immediately
WARN_S = 10.0  # pause between two warnings that connections are refused


class Gate:
    """Limits the open connections and refuses the others; ``refused`` is called with the status of each refusal."""

    def __init__(self, connections_max: int, refused: Callable[[int], None]) -> None:
        self.connections_max, self.refused, self._silent_until = connections_max, refused, 0.0
        self._burst: Burst | None = None
        self.handshakes = WeakSet[object]()  # incomplete TLS handshakes; one that the loop gives up leaves by itself

    def burst(self, loop: asyncio.AbstractEventLoop) -> Burst:
        """The one ``Burst`` that writes the answers of all connections, which share a loop."""
        if self._burst is None:
            self._burst = Burst(loop)
        return self._burst

    def hopeless(self, count: int) -> bool:
        """Whether to close one of ``count`` connections immediately: REFUSED_OPEN_MAX others are being refused.

        Incomplete handshakes count as well.
        """
        if count + len(self.handshakes) - self.connections_max <= REFUSED_OPEN_MAX:
            return False
        self.full()
        self.refused(503)
        return True

    def full(self) -> ConnectionsFull:
        """The refusal of one connection too many; the log says so at most once in WARN_S."""
        if monotonic() >= self._silent_until:
            self._silent_until = monotonic() + WARN_S
            logger.warning(
                "%d connections are open, which is the limit (ONEPASS_CONNECTIONS_MAX, ulimit -n); more get 503",
                self.connections_max,
            )
        return ConnectionsFull("the maximum number of connections is open; this request was not read")


def bounded(gate: Gate) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn, one instance for each connection; the gate says how many there may be."""
    return type("BoundedProtocol", (_Bounded,), {"gate": gate})


class _Flow(FlowControl):
    """Keeps reading paused while requests wait, even if the current endpoint asks for more of its body."""

    waiting: Any = ()

    def resume_reading(self) -> None:
        if self.read_paused and not self.waiting and not self._transport.is_closing():
            super().resume_reading()


class _Bounded(HttpToolsProtocol):
    """One connection.

    To refuse a request, a callback of the parser raises the error, which stops the parser.
    """

    gate: Gate
    deaf = False  # whether to ignore all further input
    in_work: RequestResponseCycle  # the request being answered, if others wait behind it

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._late: asyncio.TimerHandle | None = None
        self._refusal: OnepassError | None = None
        self.headers = []  # None in uvicorn, until the first request
        self._in_head = self._in_body = self._extra = False
        self._stale_bytes = self._body_bytes = 0

    # ---------------------------------------------------------------- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._held = Held(transport, self.gate.burst(self.loop), self.loop)
        held = cast("asyncio.Transport", self._held)
        super().connection_made(held)
        self.flow = _Flow(held)
        self.flow.waiting = self.pipeline
        self._body = Progress(self.loop, lambda: self._body_bytes, self._body_stalled)
        self._answer = Progress(self.loop, lambda: -untaken_bytes(transport), self._answer_stalled)
        if self.gate.hopeless(len(self.connections)):
            transport.abort()
            return
        self._extra = len(self.connections) > self.gate.connections_max
        self._close_after(LINGER_S if self._extra else HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._unset_keepalive_if_required()  # uvicorn forgets it if the client has reset the connection
        self._body.end()
        self._answer.end()
        if self.pipeline:  # uvicorn tells only the last request
            self._tell_gone(self.in_work)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn always closes
        """Whether to stay open until the request that has been read in full is answered.

        A client that has left for good looks the same. An answer of unknown length may have no end, so it ends here.
        """
        self._held.flush()  # the loop closes the transport, which then takes nothing more
        if not self._answering or not self.transport.can_write_eof():  # TLS has no half-closed connections
            return False
        if self.cycle.chunked_encoding or self._in_body:
            return False
        self.deaf, self.cycle.keep_alive = True, False  # uvicorn closes after the answer
        self.loop.call_later(STREAM_S, self._end_stream)
        return True

    def _end_stream(self) -> None:
        if not self.transport.is_closing():
            if self.cycle.chunked_encoding:
                self.transport.close()
            else:
                self.loop.call_later(STREAM_S, self._end_stream)

    def shutdown(self) -> None:
        """Close after the answers under way; what makes no progress ends sooner now, so that nobody delays the stop."""
        super().shutdown()
        self._body.shorten(STOP_STALL_S)
        if self.transport.can_write_eof():  # under TLS the loop does not count what the socket has yet to send
            self._answer.shorten(STOP_STALL_S)
            if self.transport.get_write_buffer_size():
                self._answer.begin()  # also the end of an answer, which no longer pauses writing

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer.end()  # a stop may have begun it when there was less to take
        self._answer.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer.end()

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            if self.deaf or self.transport.is_closing():  # under TLS a transport that is being closed still delivers
                return
            self._feed(data if len(data) <= PIECE_BYTES else data[at : at + PIECE_BYTES])

    def _feed(self, data: bytes) -> None:
        self._stale_bytes += len(data)  # the callbacks set it to 0 whenever bytes become part of a request
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserError:  # what the parser, or one of the callbacks below, rejects
            if not self.deaf:
                self._refuse(self._refusal or BadHead("this is not an HTTP/1.1 request"))
        except HttpParserUpgrade as wish:
            self._read_without_upgrade(data[wish.args[0] :])
            return
        if self.deaf:
            return
        if self._stale_bytes > HEAD_BYTES_MAX + PIECE_BYTES or len(self.headers) > HEAD_LINES_MAX:
            self._refuse(self._too_large())
        elif self._in_body:  # perhaps the rest of one whose request has been answered
            self._body.begin()
        elif self._in_head or not self._answering:
            self._await_head()
        elif self._body.begun:
            self._body.end()

    def _await_head(self) -> None:
        """Bound the time until the next head is complete, or until it begins if only the rest of a body came."""
        if self._body.begun and not self._in_head:  # the body's bytes ended the keep-alive pause after the answer
            pause_s, close = self.timeout_keep_alive, self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(pause_s, close)
        elif self._late is None:
            self._close_after(HEAD_S)
        self._body.end()

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Read a head again without its ``Upgrade``, which makes the parser skip the body; servers may ignore it.

        Java's client asks for HTTP/2 in this way with every request.
        """
        parser = self.parser
        head = b"%s %s HTTP/%s\r\n" % (parser.get_method(), self.url, parser.get_http_version().encode())
        lines = [b"%s: %s\r\n" % line for line in self.scope["headers"] if line[0] != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self._feed(b"".join([head, *lines, b"\r\n", rest]))

    def _should_upgrade(self) -> bool:
        """Whether uvicorn leaves a head alone as an upgrade; not for CONNECT, which the parser also takes for one."""
        return self.parser.get_method() != b"CONNECT"

    # ---------------------------------------------------------------- what the parser finds

    def on_message_begin(self) -> None:
        if self._answering:
            if not self.pipeline:
                self.in_work = self.cycle
            elif len(self.pipeline) >= WAITING_MAX:
                self.deaf, self.cycle.keep_alive = True, False  # closed after the last request that was read
                self._held.linger_s = LINGER_S
                raise OverflowError("the maximum number of requests is waiting")
        _on_message_begin(self)
        self._in_head, self._stale_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._refusal = self._wrong_head()
        if self._refusal is not None:
            raise self._refusal
        if self._late is not None:
            self._in_time()
        self._in_head, self._stale_bytes = False, 0
        if self.url[:1] != b"/" and not (target := parse_url(self.url)).path:  # http://host
            self.url = b"/?" + (target.query or b"")
        _on_headers_complete(self)
        if self.scope["http_version"] == "1.0":
            without_chunks(self.scope, self.cycle)
        self.headers, self._in_body, self._held.linger_s = [], True, LINGER_S  # lines from now on are trailers

    def on_message_complete(self) -> None:
        if self.headers and (len(self.headers) > HEAD_LINES_MAX or _size(self.headers) > HEAD_BYTES_MAX):  # trailers
            self._refusal = self._too_large()
            raise self._refusal
        self._in_body, self._held.linger_s = False, 0.0
        _on_message_complete(self)

    def _wrong_head(self) -> OnepassError | None:
        if self._extra:
            if len(self.connections) > self.gate.connections_max:
                return self.gate.full()
            self._extra = False
        may_be_long = self._stale_bytes > HEAD_BYTES_MAX - PIECE_BYTES  # counts all pieces of the head but the first
        if len(self.headers) > HEAD_LINES_MAX or (may_be_long and len(self.url) + _size(self.headers) > HEAD_BYTES_MAX):
            return self._too_large()
        wrong = _ambiguous(self.headers, self.parser.get_http_version())
        return BadHead(wrong) if wrong else None

    def on_body(self, body: bytes) -> None:
        self._stale_bytes = 0
        self._body_bytes += len(body)
        _on_body(self, body)

    def on_response_complete(self) -> None:
        """Begin the next request; after the last one, resume reading."""
        if len(self.tasks) == 1:  # there is no other answer to wait for
            self._held.flush()
        if self.pipeline:
            self.in_work = self.pipeline[-1][0]
        _on_response_complete(self)
        if self.flow.read_paused:
            self.flow.resume_reading()

    # ---------------------------------------------------------------- what makes no progress

    def _body_stalled(self) -> None:
        if not self._in_body or self.transport.is_closing():
            return
        if self.flow.read_paused:  # the endpoint is behind, or requests wait before this one
            self._body.begin()
        else:
            self._refuse(TooLate(f"the body arrived too slowly: almost nothing in {self._body.stall_s:g} s"))

    def _answer_stalled(self) -> None:
        if self.transport.get_write_buffer_size():
            logger.info("disconnected a slow reader: it took almost nothing in %g s", self._answer.stall_s)
            self.transport.abort()

    # ---------------------------------------------------------------- the end

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    @staticmethod
    def _too_large() -> HeadTooLarge:
        return HeadTooLarge(
            f"over {HEAD_LINES_MAX} headers or trailers, or over {HEAD_BYTES_MAX} bytes of them and the request line"
        )

    def _refuse(self, error: OnepassError) -> None:
        """Answer with a problem and close; only close if another answer is under way or this request's has begun."""
        self.deaf, self._held.linger_s = True, LINGER_S
        self._in_time()
        if self._answering:
            if self.pipeline and self._in_body:  # in the body of the last one that waits
                self.pipeline.popleft()  # it has not begun
                self.cycle = self.pipeline[0][0] if self.pipeline else self.in_work
                self.cycle.keep_alive = False  # uvicorn closes after the answer
                return
            if not self._in_body:  # the error is in a later request
                self.cycle.keep_alive = False  # uvicorn closes after the answer
                return
            self._tell_gone(self.cycle)  # the error is in its own body
        if self._in_body and self.cycle.response_started:
            self.transport.close()
            return
        answer = problem(error)
        self.gate.refused(answer.status_code)
        self._held.write(_bytes(answer))
        self._held.close()

    @staticmethod
    def _tell_gone(request: RequestResponseCycle) -> None:
        """Tell the endpoint of a request that the client is gone."""
        request.disconnected = True
        request.message_event.set()

    def _close_after(self, seconds: float) -> None:
        self._late = self.loop.call_later(seconds, self._too_late)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if self._answering:
            self._close_after(HEAD_S)  # the late head belongs to a later request
        elif not self.transport.is_closing():
            self.transport.close()


def _size(lines: list[tuple[bytes, bytes]]) -> int:
    """The bytes of names and values."""
    return sum([len(name) + len(value) for name, value in lines])


def _ambiguous(headers: list[tuple[bytes, bytes]], version: str) -> str:
    """Why other readers, such as proxies, may see another host or another end of the request; empty if they cannot."""
    hosts, codings = 0, []
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings.append(value.lower())
    if hosts > 1 or (not hosts and version == "1.1"):
        return "an HTTP/1.1 request needs exactly one Host header"
    if codings and (codings != [b"chunked"] or version != "1.1"):
        return "the only supported Transfer-Encoding is chunked, in HTTP/1.1"
    return ""


def _bytes(answer: Response) -> bytes:
    own = ((headers.REQUEST_ID, headers.new_id()), NOSNIFF, (b"connection", b"close"))
    lines = [b"HTTP/1.1 %d %s" % (answer.status_code, HTTPStatus(answer.status_code).phrase.encode())]
    lines += [b"%s: %s" % pair for pair in [*answer.raw_headers, *own]]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])
