"""``onepass predict`` and ``onepass feedback``: one row, typed or as JSON."""

import argparse
from typing import Any

from service.cli.connection import (
    Connection,
    Misused,
    carry_out,
    console,
    declare_json,
    declare_name,
    path_of,
    print_document,
)
from service.cli.connection import declare as declare_service
from service.cli.create import read_json
from service.cli.explanation import table
from service.cli.numbers import figure, percent
from service.cli.show import grid
from service.cli.values import label, labels_of, row, spelt

STANDARD_INPUT = "-"
ROWS = (
    "as the model's features are declared: load=0.3 day=mon; empty: missing; -: the request's body as JSON from stdin"
)


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    declare_name(parser)
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE", help=ROWS)
    declare_service(parser)
    say = parser.add_argument
    if name == "predict":
        parser.description = "Predict one row; nothing changes."
        say("--track", action="store_true", help="keep it for its label: prints a prediction id")
        say("--explain", action="store_true", help="say why")
        say(
            "--interval",
            type=float,
            metavar="SHARE",
            help="regression: where that share of the labels will be, e.g. 0.9",
        )
    else:
        parser.description = "Teach a model one row, or the label of a tracked prediction."
        say("--label", metavar="LABEL", help="what was right")
        say("--id", metavar="ID", help="your own id of the row: sent again it is learned once")
        say("--prediction-id", metavar="ID", help="of a tracked prediction, in place of values")
        say("--weight", type=float, metavar="X", help="how many times the row counts")
    declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """Send the row; the exit status."""
    return carry_out(options, _predict if options.command == "predict" else _feedback)


def _predict(connection: Connection, options: argparse.Namespace) -> None:
    if options.values == [STANDARD_INPUT]:
        return _send(connection, options, read_json(STANDARD_INPUT))
    asked = {"track": options.track, "explain": options.explain, "interval": options.interval}
    given = _typed(options.values)
    body: dict[str, Any] = {"features": row(_features(connection, options.name), given)}
    return _send(connection, options, body | {name: value for name, value in asked.items() if value})


def _feedback(connection: Connection, options: argparse.Namespace) -> None:
    if options.values == [STANDARD_INPUT]:
        return _send(connection, options, read_json(STANDARD_INPUT))
    if options.label is None:
        raise Misused("needs --label: what was right")
    told = {"id": options.id, "prediction_id": options.prediction_id, "weight": options.weight}
    body = {name: value for name, value in told.items() if value is not None}
    if given := _typed(options.values):
        body["features"] = row(_features(connection, options.name), given)
    model = connection.ask("GET", path_of(options.name)).json()
    body["label"] = label(model["config"]["task"], labels_of(model), options.label)
    return _send(connection, options, body)


def _typed(values: list[str]) -> dict[str, str]:
    """Values by name as they were typed."""
    found: dict[str, str] = {}
    for given in values:
        name, equals, value = given.partition("=")
        if not (name and equals):
            raise Misused(f"{given!r} is not NAME=VALUE")
        if name in found:
            raise Misused(f"{name} is there twice")
        found[name] = value
    return found


def _features(connection: Connection, name: str) -> list[Any]:
    """The features in use, and in an overlap the next ones too."""
    spaces = connection.ask("GET", path_of(name, "features")).json()
    return [*(spaces["next"] or ()), *spaces["current"]]


def _send(connection: Connection, options: argparse.Namespace, body: Any) -> None:
    """Send a row, or a batch: a list of rows, or a table."""
    batch = isinstance(body, list) or (isinstance(body, dict) and bool({"columns", "rows"} & body.keys()))
    parts = (options.command, "batch") if batch else (options.command,)
    response = connection.ask("POST", path_of(options.name, *parts), json=body)
    if options.json or batch:
        print_document(response)
    else:
        answer, out = response.json(), console()
        explanation = answer.pop("explanation", None)
        out.print(grid([*_lines(answer)]))
        if explanation is not None and (shown := table(explanation)) is not None:
            out.print(shown)


def _lines(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """An answer, a line for each thing that it says; probabilities from the greatest on."""
    shown: list[tuple[str, ...]] = []
    for name, value in answer.items():
        if name in ("incarnation", "durability"):
            continue
        if name == "probabilities" and value is not None:
            best = sorted(value.items(), key=lambda one: -one[1])
            shown += [
                ("" if at else "probabilities", f"{label} {percent(share)}") for at, (label, share) in enumerate(best)
            ]
        else:
            shown.append((name.replace("_", " "), _said(value)))
    return shown


def _said(value: Any) -> str:
    """A value of an answer; several of them in one line."""
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return figure(value) if isinstance(value, float) else "-" if value is None else spelt(value)
