"""Certificates as options of uvicorn, which reads the files once, when it starts.

This module imports nothing else of the service, so that unusable files are reported before kernels are compiled.
"""

import ssl
from pathlib import Path
from typing import Any


def options(certificate: Path | None, key: Path | None, clients: Path | None) -> dict[str, Any]:
    """The arguments of ``uvicorn.Config`` for https; empty if the service speaks plain HTTP.

    All are PEM files: the ``certificate`` and its chain; its private ``key``, None if it is in the same file; and the
    authorities of ``clients``, whose certificates are then required. ``ValueError`` for a file that cannot be used.
    """
    given = {"ONEPASS_TLS_CERT": certificate, "ONEPASS_TLS_KEY": key, "ONEPASS_TLS_CA": clients}
    for name, file in given.items():
        if file is None:
            continue
        if certificate is None:
            raise ValueError(f"{name}: there is no certificate; set ONEPASS_TLS_CERT as well")
        try:
            file.read_bytes()
        except OSError as error:
            raise ValueError(f"{name}: {file} cannot be read: {error.strerror}") from None
    if certificate is None:
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        at = f"ONEPASS_TLS_CERT, ONEPASS_TLS_KEY: {certificate} and {key or 'the key in it'}"
        raise ValueError(f"{at} are not a PEM certificate and its private key ({error.reason or 'not PEM'})") from None
    found = {"ssl_certfile": certificate, "ssl_keyfile": key}
    if clients is None:
        return found
    try:
        context.load_verify_locations(clients)
    except ssl.SSLError:
        raise ValueError(f"ONEPASS_TLS_CA: {clients} contains no PEM certificate") from None
    return {**found, "ssl_ca_certs": str(clients), "ssl_cert_reqs": ssl.CERT_REQUIRED}


def _no_password() -> str:
    """OpenSSL calls this for an encrypted key; by default it would ask in the terminal."""
    raise ValueError(
        "ONEPASS_TLS_KEY: the private key is encrypted; store it without a password, readable only by its owner"
    )
