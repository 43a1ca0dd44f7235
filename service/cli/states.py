"""``onepass export`` and ``onepass import``: a model's whole state as a file, of any size."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx

from service.cli.connection import (
    Connection,
    Refused,
    carry_out,
    console,
    declare_json,
    declare_name,
    path_of,
    pieces,
    print_document,
)
from service.cli.connection import declare as declare_service
from service.cli.overwriting import ask_for_model, keep_file
from service.replay.wording import counted

STATE = "application/octet-stream"
TIMEOUT = httpx.Timeout(60.0, read=600.0, write=600.0)
"""The service computes the state of a large model for a while, and checks one that comes."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    declare_name(parser)
    parser.add_argument(
        "file", metavar="FILE", help="a safetensors file; -: standard " + ("output" if name == "export" else "input")
    )
    declare_service(parser)
    if name == "export":
        parser.description = "Write the state of a model to a file: all that predictions and learning depend on."
        parser.add_argument("--force", action="store_true", help="write over a file that is there")
        parser.add_argument("--json", action="store_true", help="print {name, file, bytes}")
    else:
        parser.description = (
            "Make a model of a state that was exported, or go on with it in a model of its configuration, in place of "
            "what that has learned."
        )
        parser.add_argument("--yes", action="store_true", help="do not ask before the state of a model is replaced")
        declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """Export or import; the exit status."""
    return carry_out(options, _export if options.command == "export" else _import)


def _export(connection: Connection, options: argparse.Namespace) -> None:
    keep_file(options.file, options.force)
    with connection.stream("GET", path_of(options.name, "state"), timeout=TIMEOUT) as response:
        try:
            with _written(options.file) as out:
                size = sum(out.write(piece) for piece in response.iter_bytes(2**20))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Refused(f"{options.file}: {error.strerror}") from None
    if options.file == "-":
        return
    if options.json:
        print(json.dumps({"name": options.name, "file": options.file, "bytes": size}))
    else:
        console().print(f"{options.name}: {size:,} bytes in {options.file}", soft_wrap=True)


@contextmanager
def _written(name: str) -> Iterator[IO[bytes]]:
    """A file that is there whole or not at all; ``-`` is standard output, and what is no file is written as it is."""
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


def _confirm(connection: Connection, name: str) -> None:
    """Ask before a model goes on with another state, if it has learned anything."""
    try:
        rows = connection.ask("GET", path_of(name)).json()["rows"]
    except Refused as refused:
        if refused.status != httpx.codes.NOT_FOUND:
            raise
        return
    if rows:
        ask_for_model(name, rows, "replace")


def _import(connection: Connection, options: argparse.Namespace) -> None:
    headers = {"Content-Type": STATE}
    try:
        with sys.stdin.buffer if options.file == "-" else Path(options.file).open("rb") as file:
            if options.file != "-":
                headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
            if not options.yes:
                _confirm(connection, options.name)
            path = path_of(options.name, "state")
            response = connection.ask("PUT", path, content=pieces(file), headers=headers, timeout=TIMEOUT)
    except OSError as error:
        raise Refused(f"{options.file}: {error.strerror}") from None
    if options.json:
        print_document(response)
        return
    state, made = response.json(), response.status_code == httpx.codes.CREATED
    done = "made of" if made else "goes on with"
    console().print(f"{options.name} {done} {options.file}: {counted(state['rows'])}, version {state['version']:,}")
