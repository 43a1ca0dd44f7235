"""The certificate of the service: from files, read again when they change.

Nothing else of the service is imported here: files that cannot be used are told before kernels are compiled.
"""

import asyncio
import logging
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
LOOK_S = 5.0
"""How often the files are looked at: renewed certificates are used by the connections that come then."""
ALPN = ["http/1.1"]
NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: an expired certificate is accepted."""
FLIGHTS_MAX = 4
"""How often each end of a handshake goes on: TLS 1.2 takes three times."""


class Certificates:
    """What the service shows, and what it asks for.

    Args:
        certificate: PEM file of the certificate and those that lead to its authority.
        key: PEM file of its private key; None: it is in the same file.
        clients: PEM file of the authorities of clients, who need a certificate then; None: they need none.

    Attributes:
        context: for the next connection.
        expires: the end of the certificate's last day, in seconds since 1970; None where it cannot be told.

    Raises:
        ValueError: files that cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None = None, clients: Path | None = None) -> None:
        self._certificate, self._key, self._clients = certificate, key, clients
        self._failed = ""
        self._seen = self._signature()
        self.context, self.expires = self._read()

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
            self.context, self.expires = self._read()
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

    def _read(self) -> tuple[ssl.SSLContext, float | None]:
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
        expires = _expires(context, self._certificate.read_text("latin-1"))
        if self._clients is not None:
            try:
                context.load_verify_locations(self._clients)
            except ssl.SSLError:
                raise ValueError(f"ONEPASS_TLS_CA: {self._clients} holds no PEM certificate") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context, expires


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


def _expires(server: ssl.SSLContext, pem: str) -> float | None:
    """When the certificate that a context shows expires, as a client of it reads it; None where it reads none.

    The ``ssl`` module shows a certificate to who has verified it: a handshake in memory, by a client that trusts this
    one, expired or not.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cadata=pem)
        ends = client.wrap_bio(here, there), server.wrap_bio(there, here, server_side=True)
        for end in FLIGHTS_MAX * ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        shown: Any = ends[0].getpeercert()
        return ssl.cert_time_to_seconds(shown["notAfter"])
    except (OSError, ValueError, LookupError) as error:
        logger.warning("the last day of the certificate cannot be told: %s", type(error).__name__)
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
