"""``onepass replay``, ``compare`` and ``evaluate``: files through one model, or through several algorithms at once."""

import csv
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import httpx
from typer import BadParameter, FileTextWrite, Option

from service.client import private
from service.client.display import counted, grid, spelt
from service.client.failures import Failed
from service.client.options import Params, matching, model_name, param_of
from service.client.replay import chart, report
from service.client.replay.file_pass import FileOptions, FilePass
from service.client.replay.report import Entrant
from service.client.replay.table import ReadOptions, Table
from service.client.session import Refused, Running, Service, Session, Url, path_of

CONTENDERS_MAX = 32
USUAL = {
    "classification": "auto,dfop,dfop:scaling=robust:random_features=100,rls,dynamic_odm,vigo,vigow,fesl_c,ga2m",
    "regression": "auto,dfop,dfop:scaling=robust:random_features=100,rls,fesl_c,ga2m",
}
"""The default of compare by task: of each family the algorithms that differ most."""

MEANS = ("accuracy", "log_loss", "mse", "mae", "bias")
"""Metrics that are means over the rows with a prediction, so that those of several requests can be combined."""

of_columns = matching("(?!sparse_dfop$).*", "for files: it learns named sparse rows, which are sent as JSON")


def entrants_of(text: str) -> list[Entrant]:
    """Parse algorithms with parameters, and name each: ``dfop,dfop:forgetting_rate=0.01`` are dfop and dfop-2."""
    found: list[Entrant] = []
    for each in text.split(","):
        algorithm, *params = each.split(":")
        if not algorithm:
            raise BadParameter(f"{text!r} names no algorithm between two commas")
        of_columns(algorithm)
        same = sum(one.algorithm == algorithm for one in found)
        found.append(Entrant(f"{algorithm}-{same + 1}" if same else algorithm, algorithm, dict(map(param_of, params))))
    return found


def replay(
    *,
    given: FileOptions,
    algorithm: Annotated[
        str | None,
        Option(metavar="ID", callback=of_columns, help="One of GET /algorithms, except sparse_dfop; default: auto."),
    ] = None,
    param: Params = None,
    row_id: Annotated[str | None, Option("--id", metavar="COLUMN", help="Row ids; each is learned once.")] = None,
    predictions: Annotated[
        FileTextWrite | None,
        Option(metavar="OUT.csv", encoding="utf-8", help="Write label, prediction, probabilities and loss; slower."),
    ] = None,
    service: Running,
) -> None:
    """Send a file through a model, in order, and show how well it predicts.

    Each row is predicted first, then learned; all figures are of predictions made before the label was known. The first
    cells of a column decide how it is read: as numbers, also with a decimal comma, true and false, times, dates, or
    strings (hashed categories). Without --url a private service in a temporary directory does the work. A model that
    exists already continues as it is; options that describe it must agree with it.
    """
    if predictions is not None and Path(predictions.name).resolve() == given.file.resolve():
        raise BadParameter("--predictions is the file that is read")
    table = Table(given, row_id)
    sessions = private.session() if service.url is None else service.session(patient=True)
    writer = None if predictions is None else csv.writer(predictions)  # fails if the file cannot be written
    with sessions as session:
        there = session.found(given.model) or {"rows": 0, "config": {}}
        config, before = there["config"], there["rows"]
        if config:
            _check_agreed(session, given, table, config, Entrant("", algorithm or "", dict(param or ())))
            table.declare(session.declared(given.model))
            algorithm, given = config["algorithm"], replace(given, cost=[*(config.get("class_costs") or {}).items()])
        given.say(f"{table}")
        entrant = Entrant(algorithm or "auto", algorithm or "auto", dict(param or ()))
        done = FilePass(session, given, table, config or given.body(table, given.task), [entrant], writer)
        if not config:
            done.create()
        if before:
            given.say(f"{given.model} has learned {counted(before)} already: continuing from there")
        done.run()
    document, metrics = _reported(done), done.entrants[0].metrics
    if before or done.known:
        given.say(f"the figures are of all {counted(metrics['rows'])} that the model has learned")
    if given.as_json:
        print(json.dumps({**document, "model": given.model, "metrics": metrics}))


def _check_agreed(
    session: Session, given: FileOptions, table: Table, config: Mapping[str, Any], entrant: Entrant
) -> None:
    """``Failed`` unless a model that exists has, or was created with, what the options say as far as they are given."""
    said = {"algorithm": entrant.algorithm, "class_costs": dict(given.cost or ()), "lags": given.lags}
    said |= {"task": given.task, "missing": given.missing}
    said = {name: value for name, value in said.items() if value} | entrant.params
    has = {"lags": 0, **config, **config["params"]}
    if wrong := [f"{name} is {json.dumps(has.get(name))}" for name in said if has.get(name) != said[name]]:
        own = replace(entrant, algorithm=entrant.algorithm or config["algorithm"])
        first = own.body | given.body(table, given.task)
        try:
            session.ask("PUT", path_of(given.model), json=first)  # changes nothing: 200 if it was created like this
        except Refused as refused:
            if refused.status >= httpx.codes.TOO_MANY_REQUESTS:  # it could not tell
                raise
            how = "without these options it continues; --name makes another model"
            text = f"model {given.model} exists with another configuration: {', '.join(wrong)}; {how}"
            raise Failed(text) from None


def compare(
    *,
    given: FileOptions,
    algorithms: Annotated[
        Any, Option(metavar="A,B:PARAM=VALUE", parser=entrants_of, help="Default: some of every family.")
    ] = None,
    no_plot: Annotated[bool, Option("--no-plot", help="Do not draw compare-NAME.svg.")] = False,
    url: Url = None,
) -> None:
    """Send a file through several algorithms at once, and show which is best.

    One pass through one model of a private service: the first algorithm is the model's own, the others learn the same
    rows as its challengers. The last line is the request that creates the best one at --url or ONEPASS_URL.
    """
    if no_plot:
        given = replace(given, plot=None)
    elif given.plot is None and (lacking := chart.lacking()):
        given.say(f"no chart is drawn; {lacking}")
    elif given.plot is None:
        given = replace(given, plot=Path(f"compare-{given.model}.svg"))
    table = Table(given)
    given.say(f"{table}")
    with private.session(ONEPASS_CHALLENGERS_MAX=str(CONTENDERS_MAX)) as session:
        body = given.body(table, given.task)
        done = FilePass(session, given, table, body, algorithms or entrants_of(USUAL[body["task"]]))
        done.create()
        done.run()
        labels = session.ask("GET", path_of(given.model))["info"].get("labels")
    done.entrants.sort(key=lambda one: one.loss)
    document, best = _reported(done), done.entrants[0]
    # Features and labels are those of the file: with them declared a mistyped name or label is refused, not learned.
    create = best.body | body | ({"labels": labels} if labels else {})
    if "class_costs" in create:  # that of a label which no row has would be refused
        seen = {*map(spelt, labels or ())}
        create["class_costs"] = {name: cost for name, cost in body["class_costs"].items() if name in seen} or None
    request = _curl(Service(url).address, given.model, create)
    verdict = f"{best.line} was the best algorithm"
    if report.not_beaten(best):
        verdict = f"no algorithm is better than the best baseline; {best.line} was the best of them"
    given.say(f"{verdict}; this creates it:\n\n{request}")
    if given.as_json:
        create_request = {"method": "PUT", "path": f"/{path_of(given.model)}", "body": create}
        print(json.dumps({**document, "winner": best.name, "create": create_request, "curl": request}))


def _reported(done: FilePass) -> dict[str, Any]:
    """Print the tables with notes and draw the chart; return the same as a document."""
    given, table, entrants, metrics = done.given, done.table, done.entrants, done.entrants[0].metrics
    title = f"{table.name}: {given.label if entrants[1:] else entrants[0].line}"
    measure, warnings = entrants[0].measure, report.notes(entrants, dict(given.cost or ()))
    own = report.own_of(entrants)
    tables = [report.scores(entrants), "" if entrants[1:] else report.classes(metrics)]
    lines = [title, "\n\n".join(filter(None, tables)), "", f"{done}"]
    if table.skipped:
        lines.append(f"{counted(table.skipped)} without a label left out")
    if done.known:
        lines.append(
            f"{counted(done.known)} of them had been learned already, by an earlier run or an unanswered request"
        )
    if done.body["task"] == "regression":
        but = ", except your model's" if own.metrics.get("served") else ""
        lines.append(f"errors leave out the first row, which last value cannot predict{but}")
        if entrants[1:]:
            lines.append("the last column caps each squared error at 4 times the variance of the labels before its row")
    lines += report.served_lines(own.metrics, own.line if entrants[1:] else "Onepass")
    lines += report.cost_lines(metrics["overall"].get("costs")) + [f"note: {warning}" for warning in warnings]
    if given.plot is not None:
        words = f"{measure.replace('_', ' ')} of the last {metrics['window']['size']:,} of {metrics['rows']:,} rows"
        below = f"{words}, each predicted before its label was known"
        chart.write(given.plot, (title, below), measure, *done.curves(), () if entrants[1:] else metrics["marks"])
        lines.append(f"chart: {given.plot}")
    given.say("\n".join(lines))
    return {
        "title": title,
        "task": done.body["task"],
        "rows": done.rows,
        "known": done.known,
        "skipped": table.skipped,
        "version": done.version,
        "seconds": round(done.seconds, 3),
        "score": measure,
        "algorithms": [one.document() for one in entrants],
        "baselines": own.metrics["baselines"],
        "warnings": warnings,
        "chart": given.plot and str(given.plot),
    }


def _curl(address: str, name: str, body: Mapping[str, Any]) -> str:
    """The curl command that creates a model; it takes the key, if there is one, from the environment variable."""
    key = ' -H "Authorization: Bearer $ONEPASS_API_KEY"' if os.environ.get("ONEPASS_API_KEY") else ""
    url = f"{address.removeprefix('http://')}/{path_of(name)}"
    return f"curl -X PUT {shlex.quote(url)}{key} --json {shlex.quote(json.dumps(body, ensure_ascii=False))}"


def evaluate(
    *,
    given: ReadOptions,
    model: Annotated[str, Option(metavar="NAME", callback=model_name, help="The model to score.")],
    batch: Annotated[int, Option(min=1, max=100_000, help="Rows per request.")] = 10_000,
    service: Service,
) -> None:
    """Score a model on a file, such as a holdout set, without learning it.

    The model predicts all rows as it is. More rows than --batch take several requests; metrics that are not means over
    rows, such as kappa, are then left out.
    """
    table = Table(given)
    with service.session(patient=True) as session:
        table.declare(session.declared(model))
        given.say(f"{table}")
        path = path_of(model, "evaluate")
        answers = [part.send(session, path, table.queries) for part in table.batches(batch)]
    metrics, version = combined([one["metrics"] for one in answers]), answers[-1]["version"]
    given.say(f"\n{model}, version {version}: {counted(metrics['rows'])} scored, none learned")
    served = {f"served {name}": value for name, value in metrics.get("served", {}).items()}
    shown = {name: value for name, value in (metrics | served).items() if isinstance(value, int | float)}
    given.say(grid([(name, f"{value:.6g}") for name, value in shown.items()]))
    if given.as_json:
        print(json.dumps({"model": model, "rows": metrics["rows"], "metrics": metrics, "version": version}))


def combined(parts: Sequence[Any]) -> dict[str, Any]:
    """Combine the metrics of the parts of a file; several parts keep ``MEANS`` only, weighted by predicted rows."""
    first = parts[0]
    if len(parts) == 1:
        return {**first}
    found = {name: sum(one[name] for one in parts) for name in ("rows", "unscored") if name in first}
    for name in (name for name in MEANS if name in first):
        known = [one for one in parts if one[name] is not None]
        sizes = [one["rows"] - one.get("unscored", 0) for one in known]
        found[name] = fmean([one[name] for one in known], sizes) if known else None
    if "served" in first:
        found["served"] = combined([one["served"] for one in parts])
    return found
