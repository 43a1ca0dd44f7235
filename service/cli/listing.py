"""``onepass models``: a table of the models, each with its score beside that of the best baseline."""

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from rich import box
from rich.table import Table

from service.cli.connection import (
    Connection,
    carry_out,
    console,
    declare_json,
    fitting,
    print_document,
    text,
)
from service.cli.connection import declare as declare_service
from service.cli.numbers import figure, score

LIMIT = 100
LIMIT_MAX = 1000
SORTS = ("name", "rows", "updated", "worst")
COLUMNS: dict[str, Literal["left", "right"]] = {
    "model": "left",
    "algorithm": "left",
    "rows": "right",
    "rows/s": "right",
    "score": "right",
    "baseline": "right",
    "phase": "left",
    "last drift": "left",
    "challengers": "left",
    "updated": "left",
}
SPARED = ("updated", "algorithm", "rows/s", "phase", "challengers", "last drift", "baseline")
"""What a narrow terminal goes without, in this order."""
_PAST = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def declare(name: str, parser: argparse.ArgumentParser) -> None:  # noqa: ARG001  of the one command
    """Declare the options."""
    parser.description = "List the models: rows, score beside that of the best baseline, phase of a change of features."
    declare_service(parser)
    say = parser.add_argument
    say("--sort", choices=SORTS, default="name", help="worst: against its baseline; default: name")
    say("--search", metavar="TEXT", help="only names that contain this")
    say("--limit", type=_limit, default=LIMIT, metavar="N", help=f"at most {LIMIT_MAX}; default: {LIMIT}")
    say("--cursor", metavar="CURSOR", help="the next page, as the one before names it")
    declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """List them; the exit status."""
    return carry_out(options, _list)


def _limit(given: str) -> int:
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= LIMIT_MAX):
        raise argparse.ArgumentTypeError(f"{given!r} is not a number from 1 to {LIMIT_MAX}")
    return int(given)


def _list(connection: Connection, options: argparse.Namespace) -> None:
    wanted = {"sort": options.sort, "limit": options.limit, "search": options.search, "cursor": options.cursor}
    response = connection.ask("GET", "models", params={name: value for name, value in wanted.items() if value})
    if options.json:
        print_document(response)
        return
    page, out = response.json(), console()
    if not page["models"]:
        out.print("no models" if options.search is None else f"no model's name contains {options.search}")
        return
    out.print(fitting(out, partial(_table, page["models"]), COLUMNS, SPARED))
    if page["next"] is not None:
        out.print(f"there are more: --cursor {page['next']}", soft_wrap=True)


def _table(models: list[dict[str, Any]], shown: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in shown:
        table.add_column(head, justify=COLUMNS[head], no_wrap=True)
    now = datetime.now(UTC)
    for model in models:
        style = "red" if model["phase"] == "down" else ""
        cells = dict(zip(COLUMNS, _cells(model, now), strict=True))
        table.add_row(*(text(cells[head], style) for head in shown))
    return table


def _cells(model: dict[str, Any], now: datetime) -> tuple[str, ...]:
    drift, beside = model["drift"], model["challengers"]
    own = "score" if model.get("paired_score") is None else "paired_score"  # of the same rows as the baseline
    scores = [score(model["task"], model[name]) for name in (own, "baseline")]
    if model.get("mean_cost") is not None:  # accuracy is what such a model gives up
        scores = [f"cost {figure(model[name])}" for name in ("mean_cost", "baseline_cost")]
    return (
        model["name"],
        model["algorithm"],
        "" if model["rows"] is None else f"{model['rows']:,}",
        figure(model["rows_per_s"]),
        *scores,
        model["phase"],
        "" if drift is None else ago(drift["time"], now),
        f"{beside}, {model['ahead']} ahead" if model["ahead"] else str(beside or ""),
        ago(model["updated"], now),
    )


def ago(time: str, now: datetime) -> str:
    """How long a time (RFC 3339) is past, in the largest unit."""
    seconds = int((now - datetime.fromisoformat(time)).total_seconds())
    return next((f"{seconds // size} {unit} ago" for size, unit in _PAST if seconds >= size), "now")
