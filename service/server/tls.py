"""TLS: certificates from files, read again when they change, and handshakes within the bounds of every connection.

uvicorn would let a server handshake by itself, a minute for each connection, before any of them is counted. Here the
connection is the server's from its first byte: it is one of those that ``Gate`` counts, its handshake takes HEAD_S at
most, and what it carries then is given to the protocol that serves it without TLS.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

from service.server.http_protocol import HEAD_S, LINGER_S, Gate

logger = logging.getLogger(__name__)
LOOK_S = 5.0
"""How often the files are looked at: renewed certificates are used by the connections that come then."""
ALPN = ["http/1.1"]


class Certificates:
    """What the service shows, and what it asks for.

    Args:
        certificate: PEM file of the certificate and those that lead to its authority.
        key: PEM file of its private key; None: it is in the same file.
        clients: PEM file of the authorities of clients, who need a certificate then; None: they need none.

    Attributes:
        context: for the next connection.

    Raises:
        ValueError: files that cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None = None, clients: Path | None = None) -> None:
        self._certificate, self._key, self._clients = certificate, key, clients
        self._failed = ""
        self._seen = self._signature()
        self.context = self._read()

    async def run(self, look_s: float = LOOK_S) -> None:
        """Follow the files until cancelled; what cannot be used changes nothing, and is said once."""
        while True:
            await asyncio.sleep(look_s)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take what the files hold, if they have changed.

        A certificate and its key are rarely written at once: what does not fit together is looked at again.
        """
        found = self._signature()
        if found == self._seen:
            return
        try:
            self.context = self._read()
        except ValueError as error:
            if str(error) != self._failed:
                logger.error("the certificate cannot be read again, the one before stays in use: %s", error)  # noqa: TRY400
            self._failed = str(error)
            return
        self._seen, self._failed = found, ""
        logger.info("the certificate was read again")

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """What tells whether the files are the same; mounted secrets are links that move."""
        return [None if file is None else _stamp(file) for file in (self._certificate, self._key, self._clients)]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(ALPN)
        names = ("ONEPASS_TLS_CERT", "ONEPASS_TLS_KEY", "ONEPASS_TLS_CA")
        for name, file in zip(names, (self._certificate, self._key, self._clients), strict=True):
            if file is not None:
                _readable(name, file)
        try:
            context.load_cert_chain(self._certificate, self._key, _no_password)
        except ssl.SSLError as error:
            at = f"ONEPASS_TLS_CERT, ONEPASS_TLS_KEY: {self._certificate} and {self._key or 'the key in it'}"
            raise ValueError(f"{at} are no PEM certificate and its private key ({error.reason or 'not PEM'})") from None
        if self._clients is not None:
            try:
                context.load_verify_locations(self._clients)
            except ssl.SSLError:
                raise ValueError(f"ONEPASS_TLS_CA: {self._clients} holds no PEM certificate") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def from_settings(certificate: Path | None, key: Path | None, clients: Path | None) -> Certificates | None:
    """The certificates of the settings; None: the service speaks plain HTTP.

    Raises:
        ValueError: settings or files that cannot be used.
    """
    if certificate is not None:
        return Certificates(certificate, key, clients)
    for name, file in (("ONEPASS_TLS_KEY", key), ("ONEPASS_TLS_CA", clients)):
        if file is not None:
            raise ValueError(f"{name}: there is no certificate: set ONEPASS_TLS_CERT as well")
    return None


def _readable(name: str, file: Path) -> None:
    try:
        file.read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: {file} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    """What OpenSSL calls for a key that is encrypted; it would ask the terminal."""
    raise ValueError(
        "ONEPASS_TLS_KEY: the private key is encrypted; write it without a password, readable by its owner"
    )


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


# ------------------------------------------------------------------------------------------------ connections


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
