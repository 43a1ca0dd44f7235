"""Connections over TLS, which share their certificates.

To read those of the system takes tens of milliseconds of the event loop, so it is done again only when a file changes.
"""

import os
import ssl
from pathlib import Path
from typing import Any

from redis.asyncio.connection import RedisSSLContext, SSLConnection

_Stamp = tuple[int, int] | None
_kept: dict[tuple[tuple[str, str], ...], tuple[list[_Stamp], RedisSSLContext]] = {}


class TlsConnection(SSLConnection):
    """The client library's connection; those with the same options share one context while no file has changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"ssl_password": "", **options})  # without one OpenSSL asks at the terminal and waits
        key = tuple(sorted((name, str(value)) for name, value in options.items() if name.startswith("ssl_")))
        own, system = self.ssl_context, ssl.get_default_verify_paths()
        files = (own.certfile, own.keyfile, own.ca_certs, own.ca_path, system.cafile, system.capath)
        stamps = [_stamp(path) for path in files]
        if key not in _kept or _kept[key][0] != stamps:
            _kept[key] = stamps, own
        self.ssl_context = _kept[key][1]


def _stamp(path: str | None) -> _Stamp:
    """Differs after a file was written or replaced; None if there is none."""
    try:
        found = Path(path or os.devnull).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
