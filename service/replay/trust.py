"""What a client of an https service trusts, and what it shows: --ca and --client-cert."""

import argparse
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from service.replay import Failed


def declare(parser: argparse._ActionsContainer, environment: Mapping[str, str] = os.environ) -> None:
    """Declare the options."""
    parser.add_argument(
        "--ca",
        type=_file,
        metavar="FILE",
        default=environment.get("ONEPASS_CA") or None,
        help="PEM file of authorities that an https service is trusted by; default: ONEPASS_CA, else the usual ones",
    )
    parser.add_argument(
        "--client-cert",
        type=_file,
        metavar="FILE",
        default=environment.get("ONEPASS_CLIENT_CERT") or None,
        help="PEM file of a certificate and its key, for a service that asks for one; default: ONEPASS_CLIENT_CERT",
    )


def context(ca: Path | None, client_cert: Path | None) -> ssl.SSLContext | None:
    """What connections are made with; None: as usual.

    Raises:
        Failed: a file is not what it should be.
    """
    if ca is None and client_cert is None:
        return None
    try:
        found = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise Failed(f"--ca {ca}: {_reason(error)}") from None
    if client_cert is not None:
        try:
            found.load_cert_chain(client_cert)
        except OSError as error:
            raise Failed(f"--client-cert {client_cert}: {_reason(error)}") from None
    return found


def _reason(error: OSError) -> str:
    return "is not PEM, or not all of it" if isinstance(error, ssl.SSLError) else str(error.strerror)


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no file")
    return path
