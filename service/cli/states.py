"""``onepass export`` and ``onepass import``: the whole state of a model as a file, or of all models as a tar."""

import argparse
import json
import os
import sys
from pathlib import Path

import httpx

from service.cli import all_states
from service.cli.connection import (
    Connection,
    Misused,
    Refused,
    carry_out,
    console,
    declare_json,
    pieces,
    print_document,
)
from service.cli.connection import declare as declare_service
from service.cli.overwriting import ask_for_model, keep_file
from service.cli.state_files import put_state, rows_of, state_of, written
from service.replay.options import model_name
from service.replay.wording import counted

EXPORT = """\
Write the state of a model to a file, or with --all those of all models to a tar: all that predictions and learning
depend on. Remembered ids and tracked predictions are not part of a state."""
IMPORT = """\
Make a model of a state that was exported, or go on with it in a model of its configuration, in place of what that has
learned. Without NAME the file is a tar of many: a model that has the state already is skipped, so that the same command
goes on after an interruption; one that has learned anything else is refused, and the others go on."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    parser.add_argument("name", nargs="?", type=model_name, metavar="NAME", help="name of the model")
    declare_service(parser)
    if name == "export":
        parser.description = EXPORT
        parser.add_argument("file", metavar="FILE", help="a safetensors file, or a tar; -: standard output")
        parser.add_argument("--all", action="store_true", help="all models, in place of NAME")
        parser.add_argument("--force", action="store_true", help="write over a file that is there")
        parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    else:
        parser.description = IMPORT
        parser.add_argument(
            "file", metavar="FILE", help="a safetensors file (-: standard input), or without NAME a tar"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask before the state of NAME is replaced")
        parser.add_argument("--overwrite", action="store_true", help="of a tar: replace models that have another state")
        declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """Export or import; the exit status."""
    return carry_out(options, _export if options.command == "export" else _import)


def _export(connection: Connection, options: argparse.Namespace) -> None:
    if options.all == (options.name is not None):
        raise Misused("it takes NAME FILE, or --all FILE for all models")
    keep_file(options.file, options.force)
    if options.all:
        all_states.export(connection, options.file, options.json)
        return
    with state_of(connection, options.name) as state, written(options.file) as out:
        size = sum(out.write(piece) for piece in state)
    if options.file == "-":
        return
    if options.json:
        print(json.dumps({"name": options.name, "file": options.file, "bytes": size}))
    else:
        console().print(f"{options.name}: {size:,} bytes in {options.file}", soft_wrap=True)


def _import(connection: Connection, options: argparse.Namespace) -> None:
    if options.name is None:
        if options.yes or options.file == "-":
            raise Misused("a tar is a FILE, and its models are replaced by --overwrite; with NAME it is one state")
        all_states.bring(connection, options.file, options.overwrite, options.json)
    elif options.overwrite:
        raise Misused("--overwrite is for a tar; --yes replaces NAME")
    else:
        _import_one(connection, options)


def _import_one(connection: Connection, options: argparse.Namespace) -> None:
    try:
        with sys.stdin.buffer if options.file == "-" else Path(options.file).open("rb") as file:
            size = None if options.file == "-" else os.fstat(file.fileno()).st_size
            if not options.yes and (rows := rows_of(connection, options.name)):
                ask_for_model(options.name, rows, "replace")
            response = put_state(connection, options.name, pieces(file), size)
    except OSError as error:
        raise Refused(f"{options.file}: {error.strerror}") from None
    if options.json:
        print_document(response)
        return
    state, made = response.json(), response.status_code == httpx.codes.CREATED
    done = "made of" if made else "goes on with"
    console().print(f"{options.name} {done} {options.file}: {counted(state['rows'])}, version {state['version']:,}")
