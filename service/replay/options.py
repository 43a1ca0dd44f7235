"""The command lines of ``onepass replay`` and ``compare``. Loaded by every command, so it imports next to nothing."""

import argparse
import codecs
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.replay import costs, trust

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PLOTS = (".svg", ".png")
BATCH_MAX = 100_000
SUMMARY = "send a file of rows through a model, one by one, and show how good it was"
DETAILS = """\
Each row is predicted first, then learned; all figures are of predictions made before the label was known.
Columns are declared by what their first cells hold: numbers, true and false, times, or any strings (hashed categories).
Without --url a private service on a temporary directory is started, and ended with the replay."""
COMPARE_DETAILS = """\
One pass over the file through one model of a private service, which ends with the command: the first algorithm is the
model's own, the others learn the same rows as its challengers. Each row is predicted first, then learned. The request
that creates the best one is printed at the end."""
TASKS = ("classification", "regression")
CONTENDERS_MAX = 32
ADDRESS = "http://127.0.0.1:8000"
"""Of the service that is named where nobody has said which one."""
FLAGS = {"class_costs": "--cost LABEL=COST", "missing": "--missing", "task": "--task"}
"""Fields of a configuration beside its parameters, and how commands say them."""
STATUS = "Exit status: 0 done, 1 failed or refused (the reason on stderr), 2 usage, 128 + n ended by signal n."


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``onepass replay``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = DETAILS, STATUS
    say, key = parser.add_argument, key_of(os.environ)
    _file(parser)
    say("--algorithm", default="auto", metavar="ID", help="as GET /algorithms lists them (default: %(default)s)")
    say("--task", choices=TASKS, help="default: the algorithm's only, else regression where the label is any number")
    say("--param", action="append", type=param, default=[], metavar="NAME=VALUE", help="repeatable; JSON, else text")
    say("--url", type=service_url, help="a running service; default: a private one")
    say(
        "--key",
        metavar="SECRET",
        default=key,
        help="API key, scope admin; default: ONEPASS_API_KEY",
    )
    trust.declare(parser)
    say("--id", metavar="COLUMN", help="a column of ids: rows learned within a day are not learned again")
    say("--plot", type=_plot, metavar="FILE", help="write a chart there: .svg or .png")


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``onepass compare``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = COMPARE_DETAILS, STATUS
    parser.set_defaults(url=None, id=None)
    say = parser.add_argument
    _file(parser)
    listed = "ids of GET /algorithms, each maybe with parameters: dfop,dfop:forgetting_rate=0.01; default: a choice"
    say(
        "--url",
        dest="address",
        type=service_url,
        default=os.environ.get("ONEPASS_URL") or ADDRESS,
        help="a service, for the request at the end; no row is sent there; default: ONEPASS_URL, else %(default)s",
    )
    say("--algorithms", type=_contenders, default=(), metavar="A,B", help=listed)
    say("--task", choices=TASKS, help="default: regression where the label is any number, else classification")
    charts = parser.add_mutually_exclusive_group()
    charts.add_argument("--plot", type=_plot, metavar="FILE", help="the chart, .svg or .png; default: compare-NAME.svg")
    charts.add_argument("--no-plot", action="store_true", help="write no chart")


def _file(parser: argparse.ArgumentParser) -> None:
    """What is said of a file, and how it is sent."""
    say, missing = parser.add_argument, ("error", "zero", "mean")
    say("file", type=Path, metavar="FILE", help="CSV with a header line, also as gzip, or Parquet; -: standard input")
    say("--label", required=True, metavar="COLUMN", help="the column that holds the label")
    say("--skip-unlabelled", action="store_true", help="leave out rows whose label is empty; default: refused")
    say("--name", type=model_name, help="name of the model; default: from the file's name")
    say("--batch", type=_count(BATCH_MAX), default=500, metavar="ROWS", help="rows per request; default: 500")
    say("--limit", type=_count(2**53), metavar="ROWS", help="stop after so many rows")
    say("--sep", type=_separator, default=",", metavar="CHAR", help="between cells of CSV, or tab; default: a comma")
    say("--encoding", type=_encoding, default="utf-8-sig", metavar="NAME", help="of CSV, e.g. latin-1; default: utf-8")
    say("--missing", choices=missing, default="error", help="what an empty cell becomes; default: error")
    say("--categorical", type=_columns, default=(), metavar="A,B", help="list all categories of these: read twice")
    costs.declare(parser)
    say("--lags", type=int, choices=range(11), default=0, metavar="K", help="last rows as columns; default: 0")
    say("--drop", type=_columns, default=(), metavar="A,B", help="columns to leave out")
    say("--json", action="store_true", help="print the result as one JSON object; progress goes to stderr")


def key_of(environment: Mapping[str, str]) -> str | None:
    """The API key that the environment has."""
    return environment.get("ONEPASS_API_KEY") or None


def default_name(file: Path) -> str:
    """A model name made from a file's name: ``data/my stream.csv.gz`` gives ``my-stream``."""
    stem = file.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:64].rstrip("._-") or "replay"


def _need(fine: object, text: str, fault: str) -> None:
    if not fine:
        raise argparse.ArgumentTypeError(f"{text!r} {fault}")


def pair(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as JSON or else as text."""
    name, equals, value = text.partition("=")
    _need(name and equals, text, "is not NAME=VALUE")
    with suppress(ValueError):
        return name, json.loads(value, parse_constant=str)  # NaN and Infinity stay text: JSON has no such numbers
    return name, value


def param(text: str) -> tuple[str, Any]:
    """The same of an algorithm's parameter; what is a flag of its own is none."""
    name, value = pair(text)
    _need(name not in FLAGS, text, f"is no parameter of an algorithm: {FLAGS.get(name)} says it")
    return name, value


def _contenders(text: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Algorithms with their parameters: ``dfop,dfop:forgetting_rate=0.01:scaling=robust``."""
    found = []
    for each in text.split(","):
        algorithm, *params = each.split(":")
        _need(algorithm, text, "names no algorithm between two commas")
        found.append((algorithm, dict(map(param, params))))
    _need(len(found) <= CONTENDERS_MAX, text, f"has more than {CONTENDERS_MAX} algorithms")
    _need(all(each not in found[:at] for at, each in enumerate(found)), text, "names one algorithm twice")
    return tuple(found)


def _separator(text: str) -> str:
    found = "\t" if text in ("tab", "\\t") else text
    _need(len(found) == 1 and found not in '"\r\n', text, "is not one character between cells, or tab")
    return found


def _encoding(text: str) -> str:
    fine: object = False
    with suppress(LookupError, ValueError):
        fine = codecs.lookup(text)._is_text_encoding  # noqa: SLF001  no public name
    _need(fine, text, "is not an encoding of text that Python knows, such as utf-8, latin-1 or cp1252")
    return "utf-8-sig" if codecs.lookup(text).name == "utf-8" else text


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _count(most: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        fine = text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= most
        _need(fine, text, f"is not a number of rows from 1 to {most}")
        return int(text)

    return count


def model_name(text: str) -> str:
    """A name that a model can have."""
    _need(NAME.fullmatch(text), text, f"is not a model name: {NAME.pattern}")
    return text


def service_url(text: str) -> str:
    """The address of a service, without a slash at its end."""
    fine: object = False
    with suppress(ValueError):
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    _need(fine, text, "is not http://HOST[:PORT]")
    return text.rstrip("/")


def _plot(text: str) -> Path:
    path = Path(text)
    _need(path.suffix.lower() in PLOTS, text, f"does not end in {' or '.join(PLOTS)}")
    _need(path.absolute().parent.is_dir(), text, "is in no directory that exists")  # said before the replay
    return path
