"""``onepass backup`` and ``onepass restore``: all models of a service as a file, and back."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from service.cli.backup_file import BackupFile, opened
from service.cli.connection import Connection, Misused, Refused, carry_out, console, pieces, print_document
from service.cli.connection import declare as declare_service
from service.cli.overwriting import keep_file
from service.store.backup.frames import Damaged

BACKUP = "application/octet-stream"
TIMEOUT = httpx.Timeout(60.0, read=600.0, write=600.0)
"""The service waits for its store, and checks large states."""
STATUS = "Exit status: 0 done, 1 refused, failed or not whole (the reason on stderr), 2 usage."
MAKE = """\
Write all models to a file: each at one version, with its remembered ids and tracked predictions. Learning goes on
meanwhile. What has come is in FILE.part until it is whole; the same command within a day goes on where it broke off.
A FILE that is there is kept, unless --force is given."""
BRING_BACK = """\
Bring the models of a backup into a service. Models that are there at the same version are skipped, so that the same
command goes on after an interruption; those that are there at another version stay as they are, and are named."""
Shown = Callable[[int, str], None]
"""Shows how many bytes have gone by, and what else is known."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    make = name == "backup"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = MAKE if make else BRING_BACK
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the backup; -: standard " + ("output, which cannot be continued" if make else "input"),
    )
    declare_service(parser)
    parser.epilog = STATUS
    if make:
        parser.add_argument("--force", action="store_true", help="replace a FILE that is there, once this one is whole")
    parser.add_argument("--models", metavar="PATTERN", default="*", help="only models of such names: 'a*'")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(options: argparse.Namespace) -> int:
    """Back up or restore; the exit status."""
    return carry_out(options, _backup if options.command == "backup" else _restore)


# ---------------------------------------------------------------- backup


def _backup(connection: Connection, options: argparse.Namespace) -> None:
    if options.file == "-" and options.json:
        raise Misused("--json does not go with standard output, where the backup goes")
    keep_file(options.file, options.force)
    try:
        with opened(options.file, options.models) as file:
            _received(connection, options, file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused(f"{options.file}: {error.strerror}") from None
    _done(options, file)


def _received(connection: Connection, options: argparse.Namespace, file: BackupFile) -> None:
    """Take in what the file lacks.

    Raises:
        Refused: the service refuses, or the backup breaks off.
    """
    contents = file.contents
    if contents.finished:
        return
    if contents.last:
        print(f"{options.file} goes on behind {contents.last}: {_models(contents.models)} are whole", file=sys.stderr)
    asked = {"models": options.models, **({"after": contents.last} if contents.last else {})}
    try:
        with (
            _progress("backup", None) as shown,
            connection.stream("GET", "backup", params=asked, timeout=TIMEOUT) as response,
        ):
            for piece in response.iter_raw(2**20):
                file.write(piece)
                shown(file.size, _models(contents.models))
        if not contents.finished:
            raise Damaged("it ends before its end")
    except (Refused, Damaged) as error:
        more = "; the same command goes on from there" if options.file != "-" else ""
        whole = f"{_models(contents.models)} are whole{more}"
        raise Refused(f"{error}\n  {whole}" if contents.models else str(error)) from None


def _done(options: argparse.Namespace, file: BackupFile) -> None:
    contents = file.contents
    left_out = [{"name": one.name, "detail": one.detail} for one in contents.left_out]
    if options.json:
        told = {"file": options.file, "models": contents.models, "bytes": file.size, "left_out": left_out}
        print(json.dumps(told))
    elif options.file != "-":
        console().print(f"{_models(contents.models)}, {file.size:,} bytes in {options.file}", soft_wrap=True)
    if left_out:
        lines = [f"  {one['name']}: {one['detail']}" for one in left_out]
        raise Refused("\n".join([f"{_models(len(left_out))} could not be read and are not in it", *lines]))


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count:,} models"


# ---------------------------------------------------------------- restore


def _restore(connection: Connection, options: argparse.Namespace) -> None:
    headers = {"Content-Type": BACKUP}
    try:
        with sys.stdin.buffer if options.file == "-" else Path(options.file).open("rb") as file:
            size = None
            if options.file != "-":
                size = os.fstat(file.fileno()).st_size
                headers["Content-Length"] = str(size)
            with _progress("restore", size) as shown:
                sent = _sent(file, shown)
                asked = {"models": options.models}
                response = connection.ask(
                    "POST", "restore", params=asked, content=sent, headers=headers, timeout=TIMEOUT
                )
    except OSError as error:
        raise Refused(f"{options.file}: {error.strerror}") from None
    if options.json:
        print_document(response)
    else:
        done = response.json()
        restored, skipped = (_models(len(done[what])) for what in ("restored", "skipped"))
        console().print(f"{restored} restored, {skipped} there already", soft_wrap=True)
        for one in done["left_out"]:
            print(f"not in the backup: {one['name']}: {one['detail']}", file=sys.stderr)


def _sent(file: IO[bytes], shown: Shown) -> Iterator[bytes]:
    size = 0
    for piece in pieces(file):
        yield piece
        size += len(piece)
        shown(size, "")


@contextmanager
def _progress(title: str, total: int | None) -> Generator[Shown]:
    """Shows on a terminal how far it is, on stderr."""
    out = Console(stderr=True, highlight=False, markup=False)
    if not out.is_terminal:
        yield lambda _size, _known: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    rest = (TextColumn("{task.fields[known]}"), TimeElapsedColumn())
    with Progress(*columns, *rest, console=out, transient=True) as bar:
        task = bar.add_task(title, total=total, known="")
        yield lambda size, known: bar.update(task, completed=size, known=known)
