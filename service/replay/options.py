"""The command line of ``onepass replay``. Loaded by every command, so it imports next to nothing."""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PLOTS = (".svg", ".png")
BATCH_MAX = 100_000
SUMMARY = "send a CSV file through a model, row by row, and show how good it was"
DETAILS = """\
Each row is predicted first, then learned; all figures are of predictions made before the label was known.
Without --url a private service on a temporary directory is started, and ended with the replay."""
STATUS = "Exit status: 0 done, 1 failed or refused (the reason on stderr), 2 usage, 128 + n ended by signal n."


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; the fields are the options."""

    file: Path
    label: str
    algorithm: str
    task: str | None
    param: dict[str, Any]
    url: str | None
    key: str | None
    name: str
    batch: int
    limit: int | None
    missing: str
    categorical: tuple[str, ...]
    drop: tuple[str, ...]
    id: str | None
    plot: Path | None


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = DETAILS, STATUS
    say = parser.add_argument
    say("file", type=Path, metavar="FILE", help="CSV with a header line, UTF-8; gzip is recognised")
    say("--label", required=True, metavar="COLUMN", help="the column that holds the label")
    say("--algorithm", required=True, metavar="ID", help="as GET /algorithms lists them, e.g. dfop")
    say(
        "--task",
        choices=("classification", "regression"),
        help="default: the algorithm's only one, else classification",
    )
    say(
        "--param",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=VALUE",
        help="may be repeated; JSON, else text",
    )
    say("--url", type=_url, help="a running service; default: a private one")
    say("--key", metavar="SECRET", help="API key with the scope admin; default: the environment variable ONEPASS_KEY")
    say("--name", type=_name, help="name of the model; default: from the file's name")
    say("--batch", type=_count(BATCH_MAX), default=500, metavar="ROWS", help="rows per request; default: 500")
    say("--limit", type=_count(2**53), metavar="ROWS", help="stop after so many rows")
    say(
        "--missing",
        choices=("error", "zero", "mean"),
        default="error",
        help="what an empty cell becomes; default: error",
    )
    say("--categorical", type=_columns, default=(), metavar="A,B", help="columns of categories; the file is read twice")
    say("--drop", type=_columns, default=(), metavar="A,B", help="columns to leave out")
    say("--id", metavar="COLUMN", help="a column of ids: rows learned within a day are not learned again")
    say("--plot", type=_plot, metavar="FILE", help="write a chart there: .svg or .png")


def parse(found: argparse.Namespace, environ: dict[str, str]) -> Options:
    """The options, with the defaults that depend on others."""
    given = {name: getattr(found, name) for name in Options.__slots__}
    given["param"] = dict(found.param)
    given["name"] = found.name or default_name(found.file)
    given["key"] = found.key or environ.get("ONEPASS_KEY") or None
    return Options(**given)


def default_name(file: Path) -> str:
    """A model name made from a file's name: ``data/my stream.csv.gz`` gives ``my-stream``."""
    stem = file.name.removesuffix(".gz").removesuffix(".csv")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:64].rstrip("._-") or "replay"


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, _value(value)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)  # NaN and Infinity stay text: JSON has no such numbers
    except ValueError:
        return text


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _count(most: int) -> Any:
    def count(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:20]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows from 1 to {most}")
        return int(text)

    return count


def _name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a model name: {NAME.pattern}")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine:
        raise argparse.ArgumentTypeError(f"{text!r} is not http://HOST[:PORT]")
    return text.rstrip("/")


def _plot(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in PLOTS:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {' or '.join(PLOTS)}")
    if not path.absolute().parent.is_dir():  # found out now, not after the replay
        raise argparse.ArgumentTypeError(f"{text!r}: there is no such directory")
    return path
