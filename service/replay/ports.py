"""Ports of this machine that nobody listens on."""

import socket
from contextlib import suppress

PORTS = 100
"""How many after the first one are tried, before any other."""


def listener(host: str, first: int) -> socket.socket:
    """A socket that listens on a port, or on the next one that is free.

    Args:
        host: an address of this machine.
        first: the port that is tried first.

    Raises:
        OSError: the address is none of this machine.
    """
    for port in range(first, min(first + PORTS, 65536) if first else 0):
        with suppress(OSError):
            return _listening(host, port)
    return _listening(host, 0)


def _listening(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
    except OSError:
        found.close()
        raise
    return found
