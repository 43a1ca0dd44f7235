"""``onepass create``, ``predict``, ``feedback``, ``delete``; and how typed text becomes values of features."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
from typer import Argument, Option, echo

from service.client.display import counted, described, spelt
from service.client.failures import Failed, Misused
from service.client.models import labels_of
from service.client.options import Costs, Json, Missing, Name, Params, Task, Yes, json_or_text, model_name, pair_of
from service.client.session import Service, Session, path_of

STDIN = "-"
HIDDEN = ("incarnation", "durability")  # fields of an answer that only --json prints


def _features_of(text: str) -> list[Any]:
    parts = [each.rpartition(":") for each in text.split(",")]
    return [{"name": name, "type": kind} if colon else kind for name, colon, kind in parts]


def _labels_of(text: str) -> list[Any]:
    return [json_or_text(each) for each in text.split(",")]


Values = Annotated[
    list[str] | None,
    Argument(metavar="NAME=VALUE...", help="Features; empty: missing. Or -: the body as JSON from stdin."),
]


def create(
    *,
    name: Name,
    task: Annotated[Task | None, Option(help="What to predict.")] = None,
    algorithm: Annotated[str | None, Option(metavar="ID", help="Default: auto.")] = None,
    param: Params = None,
    features: Annotated[
        Any, Option(metavar="A,B:TYPE", parser=_features_of, help="Numbers, or TYPE boolean, categorical or time.")
    ] = None,
    labels: Annotated[Any, Option(metavar="A,B", parser=_labels_of, help="The classes, if they are known.")] = None,
    cost: Costs = None,
    missing: Annotated[Missing | None, Option(help="What a missing value becomes; default: error.")] = None,
    config: Annotated[
        str | None, Option(metavar="FILE", help="The whole body as JSON, - for stdin; other options change it.")
    ] = None,
    as_json: Json = False,
    service: Service,
) -> None:
    """Create a model. Only --task is required: the algorithm is then auto, and the first row determines the features.

    Repeating the command changes nothing.
    """
    body = {} if config is None else _json(config)
    if not isinstance(body, dict):
        raise Failed(f"{config}: is not a JSON object")
    given = {"task": task, "algorithm": algorithm, "missing": missing, "features": features, "labels": labels}
    body |= {field: value for field, value in given.items() if value is not None}
    for field, own in (("params", param), ("class_costs", cost)):
        if own:
            body[field] = {**(body.get(field) or {}), **dict(own)}
    with service.session() as session:
        response = session.request("PUT", path_of(name), json=body)
    made = response.json()["config"]
    done = "created" if response.status_code == httpx.codes.CREATED else "exists already, as asked"
    echo(response.content if as_json else f"{name} {done}: {made['task']} by {made['algorithm']}")


def delete(
    *,
    names: Annotated[list[Any], Argument(metavar="NAME...", parser=model_name, help="Names of models.")],
    yes: Yes = False,
    as_json: Json = False,
    service: Service,
) -> None:
    """Delete models, with their logs, snapshots and ids."""
    deleted: list[str] = []
    try:
        with service.session(patient=True) as session:
            for name in names:
                if not yes:
                    confirm(f"delete {name}", session.ask("GET", path_of(name))["rows"])
                session.request("DELETE", path_of(name))
                deleted.append(name)
    finally:
        if deleted:
            print(json.dumps({"deleted": deleted}) if as_json else "\n".join(f"{name} deleted" for name in deleted))


def confirm(action: str, rows: int) -> None:
    """Ask before an action, such as "delete NAME", that loses rows a model has learned.

    ``Failed`` if the answer is no, ``Misused`` if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise Misused(f"{action}: it has learned {counted(rows)}; --yes confirms it")
    try:
        answer = input(f"{action[:1].upper()}{action[1:]} and the {counted(rows)} that it has learned? [y/N] ")
    except EOFError:
        answer = ""
        print()
    if answer.lower() not in ("y", "yes"):
        raise Failed(f"{action}: not done")


def predict(
    *,
    name: Name,
    values: Values = None,
    track: Annotated[bool, Option("--track", help="Keep it until its label comes; prints its id.")] = False,
    explain: Annotated[bool, Option("--explain", help="Explain the prediction.")] = False,
    interval: Annotated[
        Any | None,
        Option(metavar="SHARE", parser=json_or_text, help="Regression: bounds with this share of labels, e.g. 0.9."),
    ] = None,
    as_json: Json = False,
    service: Service,
) -> None:
    """Predict one row; nothing changes."""
    asked = {"track": track or None, "explain": explain or None, "interval": interval}
    with service.session() as session:
        if values == [STDIN]:
            body = _from_stdin(asked)
        else:
            body = {option: value for option, value in asked.items() if value is not None}
            body["features"] = _row(session, name, values)
        _send(session, name, "predict", body, as_json)


def feedback(
    *,
    name: Name,
    values: Values = None,
    label: Annotated[str | None, Option(help="The true label.")] = None,
    row_id: Annotated[str | None, Option("--id", help="Your id of the row; a repeated id is not learned.")] = None,
    prediction_id: Annotated[str | None, Option(metavar="ID", help="A tracked prediction, in place of values.")] = None,
    weight: Annotated[Any | None, Option(metavar="NUMBER", parser=json_or_text, help="Weight of the row.")] = None,
    as_json: Json = False,
    service: Service,
) -> None:
    """Teach a model one row, or the label of a tracked prediction."""
    given = {"id": row_id, "prediction_id": prediction_id, "weight": weight}
    with service.session() as session:
        if values == [STDIN]:
            body = _from_stdin(given | {"label": label})
        else:
            if label is None:
                raise Misused("--label, the true label, is missing")
            body = {option: value for option, value in given.items() if value is not None}
            if values:
                body["features"] = _row(session, name, values)
            model = session.ask("GET", path_of(name))
            body["label"] = typed_label(model["config"]["task"], labels_of(model), label)
        _send(session, name, "feedback", body, as_json)


def _from_stdin(options: Mapping[str, Any]) -> Any:
    """The whole body from standard input; ``Misused`` names an option that would not be sent with it."""
    for option, value in options.items():
        if value is not None:
            raise Misused(f"--{option.replace('_', '-')} cannot be combined with -: put it into the body")
    return _json(STDIN)


def _json(name: str) -> Any:
    """A JSON document from a file, or from standard input for ``-``."""
    try:
        return msgspec.json.decode(sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise Failed(f"{name} cannot be read as JSON: {error}") from None


def _send(session: Session, name: str, verb: str, body: Any, as_json: bool) -> None:
    """Send a row, or a batch (a list of rows, or a table), and print the answer."""
    batch = isinstance(body, list) or (isinstance(body, dict) and bool({"columns", "rows"} & body.keys()))
    response = session.request("POST", path_of(name, verb, *(["batch"] if batch else [])), json=body)
    shown = {own: value for own, value in response.json().items() if own not in HIDDEN}
    echo(response.content if as_json or batch else described(shown))


# ------------------------------------------------------------------------------------------------ typed values


def _row(session: Session, name: str, values: list[str] | None) -> dict[str, Any]:
    """The features of a row, converted as the current features declare them, and in an overlap the next ones."""
    given: dict[str, str] = {}
    for feature, text in map(pair_of, values or ()):
        if feature in given:
            raise Misused(f"{feature} is given twice")
        given[feature] = text
    known = session.declared(name)
    return {feature: typed_value(known.get(feature, {}), text) for feature, text in given.items()}


def typed_value(feature: Mapping[str, Any], given: str) -> Any:
    """Convert a typed text as its feature declares, if it is declared; the service refuses what does not fit."""
    kind = feature.get("type")
    if kind == "categorical":
        return next((one for one in feature.get("categories", ()) if spelt(one) == given), given)
    if given == "":
        return None  # missing, like an empty cell of CSV
    return json_or_text(given.lower() if kind == "boolean" else given)


def typed_label(task: str, labels: Iterable[Any], given: str) -> Any:
    """Convert a typed label: a number, a known label by its text, or a guess that is neither null nor a fraction."""
    looks = json_or_text(given)
    if task == "regression":
        return looks
    return next((one for one in labels if spelt(one) == given), looks if isinstance(looks, int | str) else given)
