"""A model's state on its way between a service and a file."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

import httpx

from service.cli.connection import Connection, Refused, path_of

STATE = "application/octet-stream"
TIMEOUT = httpx.Timeout(60.0, read=600.0, write=600.0)
"""The service computes the state of a large model for a while, and checks one that comes."""


@contextmanager
def state_of(
    connection: Connection, name: str, params: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Iterator[bytes]]:
    """A model's state in pieces.

    Raises:
        Refused: the service refuses, or breaks off.
    """
    with connection.stream("GET", path_of(name, "state"), params=params, timeout=TIMEOUT) as response:
        yield response.iter_bytes(2**20)


def put_state(connection: Connection, name: str, state: Iterable[bytes], size: int | None) -> httpx.Response:
    """Have a model go on with a state; one that is not there is made of it (201).

    Args:
        connection: the service.
        name: of the model.
        state: its bytes.
        size: their number; None: it is not known.

    Raises:
        Refused: the service refuses it.
    """
    headers = {"Content-Type": STATE} | ({} if size is None else {"Content-Length": str(size)})
    return connection.ask("PUT", path_of(name, "state"), content=state, headers=headers, timeout=TIMEOUT)


def rows_of(connection: Connection, name: str) -> int:
    """How many rows a model has learned; 0 where there is none."""
    try:
        return int(connection.ask("GET", path_of(name)).json()["rows"])
    except Refused as refused:
        if refused.status != httpx.codes.NOT_FOUND:
            raise
        return 0


@contextmanager
def written(name: str) -> Iterator[IO[bytes]]:
    """A file that is there whole or not at all; ``-`` is standard output, and what is no file is written as it is.

    Raises:
        Refused: it cannot be written.
    """
    try:
        with _part(name) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from None


@contextmanager
def _part(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdout.buffer
        return
    target = Path(name)
    if target.exists() and not target.is_file():
        with target.open("wb") as out:
            yield out
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
