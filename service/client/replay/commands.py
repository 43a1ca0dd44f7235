"""``onepass replay`` and ``compare``: a file through one model, or through several algorithms side by side."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter, Option

from service.client import private
from service.client.display import counted
from service.client.failures import Failed
from service.client.models import cost_lines
from service.client.options import Params, costs_of, params_of
from service.client.replay import chart, report
from service.client.replay.file_options import FileOptions, Plot
from service.client.replay.file_pass import FilePass
from service.client.replay.report import Entrant
from service.client.replay.table import Table
from service.client.session import Refused, Running, Service, Session, Url, path_of

PATIENCE_S, PRIVATE_PATIENCE_S = 60.0, 5.0
"""How long a batch is sent again to a service that is not available; it is learned once."""
CONTENDERS_MAX = 32
USUAL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("dfop", {}),
    ("dfop", {"scaling": "robust", "random_features": 100}),
    ("rls", {}),
    ("dynamic_odm", {}),
    ("vigo", {}),
    ("vigow", {}),
    ("fesl_c", {}),
    ("ga2m", {}),
)
"""What is compared where nothing is asked for: of each family those that differ most, as far as the task allows."""


def replay(
    *,
    given: FileOptions,
    algorithm: Annotated[str, Option(metavar="ID", help="As GET /algorithms lists them.")] = "auto",
    param: Params = None,
    row_id: Annotated[str | None, Option("--id", metavar="COLUMN", help="Ids: a row is learned once.")] = None,
    plot: Plot = None,
    service: Running,
) -> None:
    """Send a file through a model, row by row, and show how good it was.

    Each row is predicted first, then learned; all figures are of predictions made before the label was known. How each
    column is written is told by its first cells: numbers, also with a decimal comma, true and false, times, dates, or
    strings (hashed categories). Without --url a private service on a temporary directory is started, and ended.
    """
    if plot is not None:
        chart.check()
    entrant, table = Entrant(algorithm, algorithm, params_of(param)), given.table(row_id)
    with ExitStack() as ends:
        session = _session(ends) if service.url is None else ends.enter_context(service.session(PATIENCE_S))
        there = session.found(given.model)
        listed = session.ask("GET", "algorithms")["algorithms"]
        tasks: list[str] = next((one["tasks"] for one in listed if one["id"] == algorithm), [])
        task = given.task or (there["config"]["task"] if there else tasks[0] if len(tasks) == 1 else None)
        body = given.body(table, task)
        before = session.ask("PUT", path_of(given.model), json=entrant.body | body)["rows"]
        if before:
            print(f"{given.model} has learned {counted(before)} already: going on from there", file=given.out)
        done = FilePass(session, given, [entrant], body["task"])
        (entrant,) = done.run(table, row_id, sampled=plot is not None and "class_costs" in body)
    metrics = entrant.metrics
    document = _told(given, table, done, [entrant], plot)
    if before or done.progress.known:
        print(f"the figures are of all {counted(metrics['rows'])} that the model has learned", file=given.out)
    if given.as_json:
        print(json.dumps({**document, "model": given.model, "metrics": metrics}))


def compare(
    *,
    given: FileOptions,
    algorithms: Annotated[str, Option(metavar="A,B:PARAM=VALUE", help="Default: a choice of all families.")] = "",
    plot: Plot = None,
    no_plot: Annotated[bool, Option("--no-plot", help="Draw no chart; default: compare-NAME.svg.")] = False,
    url: Url = None,
) -> None:
    """Send a file through several algorithms at once, and show which was best.

    One pass through one model of a private service: the first algorithm is the model's own, the others learn the same
    rows as its challengers. It ends with the request that creates the best one, at the service of --url or ONEPASS_URL.
    """
    asked = _asked(algorithms)
    plot = None if no_plot else plot or Path(f"compare-{given.model}.svg")
    if plot is not None:
        chart.check()
    table = given.table()
    with ExitStack() as ends:
        session = _session(ends, ONEPASS_CHALLENGERS_MAX=str(CONTENDERS_MAX))
        body = given.body(table, given.task)
        entrants = asked or _usual(session.ask("GET", "algorithms")["algorithms"], body["task"])
        for at, one in enumerate(entrants):
            path = path_of(given.model, *(("challengers", one.name) if at else ()))
            try:
                session.ask("PUT", path, json=one.body if at else one.body | body)
            except Refused as refused:
                raise Failed(f"{one.algorithm}: {refused}") from None
        done = FilePass(session, given, entrants, body["task"])
        entrants = done.run(table, None, sampled=plot is not None and "class_costs" in body)
        features = session.ask("GET", path_of(given.model, "features"))["current"]
        labels = session.ask("GET", path_of(given.model))["info"].get("labels")
    entrants = report.ranked(entrants, body["task"])
    document = _told(given, table, done, entrants, plot)
    best = entrants[0]
    # Features and labels are those of the file: with them declared a mistyped name or label is refused, not learned.
    create = best.body | body | {"features": features} | ({"labels": labels} if labels else {})
    request = _curl(Service(url).address, given.model, create)
    verdict = f"{best.line} was the best algorithm"
    if report.not_beaten(best.metrics, body["task"]):
        verdict = f"no algorithm is better than an answer that needs no model; {best.line} was the best of them"
    print(f"{verdict}; this creates it:\n\n{request}", file=given.out)
    if given.as_json:
        path = f"/{path_of(given.model)}"
        create_request = {"method": "PUT", "path": path, "body": create}
        print(json.dumps({**document, "winner": best.name, "create": create_request, "curl": request}))


def _session(ends: ExitStack, **settings: Any) -> Session:
    """A private service."""
    url = ends.enter_context(private.service(**settings))
    return ends.enter_context(Session(url, patience_s=PRIVATE_PATIENCE_S, private=True))


def _asked(text: str) -> list[Entrant]:
    """Algorithms with their parameters: ``dfop,dfop:forgetting_rate=0.01:scaling=robust``."""
    found: list[Entrant] = []
    for each in text.split(",") if text else ():
        algorithm, *params = each.split(":")
        found.append(Entrant(algorithm, algorithm, params_of(params)))
    lines = [one.line for one in found]
    if "" in lines or len({*lines}) < len(lines) or len(lines) > CONTENDERS_MAX:
        said = f"{text!r} names no algorithm, or one twice, or more than {CONTENDERS_MAX}"
        raise BadParameter(said, param_hint="--algorithms")
    return _named(found)


def _usual(catalogue: Sequence[Mapping[str, Any]], task: str) -> list[Entrant]:
    """Of ``USUAL`` what learns the task and has the parameters."""
    known = {entry["id"]: entry["params"]["properties"] for entry in catalogue if task in entry["tasks"]}
    return _named(
        [Entrant(own, own, params) for own, params in USUAL if {*params} <= {*known.get(own, ())} and own in known]
    )


def _named(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Each with a name of its own: dfop, dfop-2."""
    found: list[Entrant] = []
    for one in entrants:
        same = sum(each.algorithm == one.algorithm for each in found)
        found.append(one._replace(name=f"{one.algorithm}-{same + 1}" if same else one.algorithm))
    return found


def _told(
    given: FileOptions, table: Table, done: FilePass, entrants: Sequence[Entrant], plot: Path | None
) -> dict[str, Any]:
    """Print the tables and what they mean, draw the chart; the same as a document."""
    task, metrics, progress = done.progress.task, entrants[0].metrics, done.progress
    title = f"{table.name}: {given.label if len(entrants) > 1 else entrants[0].line}"
    warnings = report.notes(entrants, task, costs_of(given.cost))
    lines = [
        title,
        report.scores(entrants, task),
        *([report.classes(metrics)] if len(entrants) == 1 else []),
        f"{progress}",
    ]
    if table.skipped:
        lines.append(f"{counted(table.skipped)} without a label left out")
    if progress.known:
        lines.append(
            f"{counted(progress.known)} of them had been learned before, by their ids, and were not learned again"
        )
    if task == "regression":
        lines.append("errors leave out the first row, which last value cannot predict")
    lines += cost_lines(metrics["overall"].get("costs")) + [f"note: {warning}" for warning in warnings]
    if plot is not None:
        curves, baselines = done.curves(entrants)
        measure = report.measure_of(metrics, task)
        words = f"{measure.replace('_', ' ')} of the last {metrics['window']['size']:,} of {metrics['rows']:,} rows"
        below = f"{words}, each predicted before its label was known"
        chart.write(plot, (title, below), measure, curves, baselines, metrics["marks"] if len(entrants) == 1 else ())
        lines.append(f"chart: {plot}")
    print("\n".join(lines), file=given.out)
    return {
        "title": title,
        "task": task,
        "rows": progress.rows,
        "known": progress.known,
        "skipped": table.skipped,
        "version": progress.version,
        "seconds": round(progress.seconds, 3),
        "score": report.measure_of(metrics, task),
        "algorithms": [one.document(task) for one in entrants],
        "baselines": metrics["baselines"],
        "warnings": warnings,
        "chart": plot and str(plot),
    }


def _curl(address: str, name: str, body: Mapping[str, Any]) -> str:
    """The command that creates a model; the key, where the environment has one, is not told."""
    key = ' -H "Authorization: Bearer $ONEPASS_API_KEY"' if os.environ.get("ONEPASS_API_KEY") else ""
    url = f"{address.removeprefix('http://')}/{path_of(name)}"
    return f"curl -X PUT {shlex.quote(url)}{key} --json {shlex.quote(json.dumps(body))}"
