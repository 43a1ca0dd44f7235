"""``onepass create`` and ``onepass delete``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import httpx

from service.cli.connection import (
    Connection,
    Refused,
    carry_out,
    console,
    declare_json,
    declare_name,
    path_of,
    print_document,
)
from service.cli.connection import declare as declare_service
from service.cli.overwriting import ask_for_model
from service.cli.values import guessed
from service.replay import costs
from service.replay.options import TASKS, model_name, param

TYPES = ("number", "boolean", "categorical", "time")
DETAILS = """\
Create a model. --task is all that it needs: the algorithm is auto then, the features are those of the first row, and
the labels come as they come. The same command again changes nothing."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    if name == "delete":
        parser.add_argument("names", nargs="+", type=model_name, metavar="NAME", help="names of models")
        declare_service(parser)
        parser.description = "Delete models, with their logs, snapshots and ids."
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--json", action="store_true", help="print {deleted: [names]}")
        parser.set_defaults(steps=_delete)
        return
    declare_name(parser)
    declare_service(parser)
    parser.description = DETAILS
    say = parser.add_argument
    say("--task", choices=TASKS, help="what there is to predict")
    say("--algorithm", metavar="ID", help="as GET /algorithms lists them; default: auto")
    say("--param", action="append", type=param, default=[], metavar="NAME=VALUE", help="repeatable; JSON, else text")
    kinds = ", ".join(TYPES[1:])
    say("--features", type=_features, metavar="A,B:TYPE", help=f"numbers, or of a TYPE: {kinds}")
    say("--labels", type=_labels, metavar="A,B", help="the classes, where they are known")
    costs.declare(parser)
    say("--missing", choices=("error", "zero", "mean"), help="what a missing value becomes; default: error")
    say("--config", metavar="FILE", help="the whole body as JSON, - for standard input; the others change it")
    parser.set_defaults(steps=_create)
    declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """Create or delete; the exit status."""
    return carry_out(options, options.steps)


def _features(given: str) -> list[Any]:
    found: list[Any] = []
    for each in given.split(","):
        name, colon, kind = each.rpartition(":")
        if not colon:
            found.append(each)
        elif kind in TYPES:
            found.append(name if kind == "number" else {"name": name, "type": kind})
        else:
            raise argparse.ArgumentTypeError(f"{kind!r} is not a type: {', '.join(TYPES)}")
    return found


def _labels(given: str) -> list[Any]:
    return [guessed(each) for each in given.split(",")]


def _create(connection: Connection, options: argparse.Namespace) -> None:
    body = {} if options.config is None else read_json(options.config)
    if not isinstance(body, dict):
        raise Refused(f"{options.config}: is no JSON object")
    named = ("task", "algorithm", "features", "labels", "missing")
    body |= {name: value for name in named if (value := getattr(options, name)) is not None}
    if options.param:
        body["params"] = dict(body.get("params") or {}) | dict(options.param)
    if options.cost:
        body["class_costs"] = dict(body.get("class_costs") or {}) | dict(options.cost)
    response = connection.ask("PUT", path_of(options.name), json=body)
    if options.json:
        print_document(response)
        return
    model = response.json()
    config = model["config"]
    done = "created" if response.status_code == httpx.codes.CREATED else "is there already, as asked"
    console().print(f"{options.name} {done}: {config['task']} by {config['algorithm']}", soft_wrap=True)


def _delete(connection: Connection, options: argparse.Namespace) -> None:
    for name in options.names:
        if not options.yes:
            ask_for_model(name, connection.ask("GET", path_of(name)).json()["rows"], "delete")
        connection.ask("DELETE", path_of(name))
        if not options.json:
            console().print(f"{name} deleted")
    if options.json:
        print(json.dumps({"deleted": options.names}))


def read_json(name: str) -> Any:
    """A JSON document from a file, or from standard input for ``-``.

    Raises:
        Refused: it cannot be read, or is no JSON.
    """
    try:
        return json.loads(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from None
    except ValueError as error:
        raise Refused(f"{'standard input' if name == '-' else name} is no JSON: {error}") from None
