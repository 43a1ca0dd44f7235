"""What a comparison says: the algorithms by score beside the baselines, and the request that creates the best one."""

import json
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.replay import advice
from service.replay.client import path_of
from service.replay.report import MEASURES, Totals
from service.replay.wording import counted

SCORE = {"classification": "accuracy", "regression": "mse"}
SHOWN = {
    "classification": ("accuracy", "balanced_accuracy", "log_loss"),
    "regression": ("mse", "mae", "r2"),
}
"""Measures that the table shows, the score first."""
ADDRESS = "localhost:8000"
WIDTH = 120
"""Of the table, where it does not go to a terminal."""


class Entrant(NamedTuple):
    """An algorithm and what it has reached.

    Attributes:
        name: of its line.
        algorithm, params: of its configuration.
        metrics: as GET /models/{name}/metrics answers.
        difference: its paired loss beside the model's own, which has none.
        seconds_per_row: of the first rows, alone.
    """

    name: str
    algorithm: str
    params: dict[str, Any]
    metrics: dict[str, Any]
    difference: dict[str, Any] | None
    seconds_per_row: float

    @property
    def line(self) -> str:
        """How ``--algorithms`` would name it."""
        given = (
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in self.params.items()
        )
        return ":".join([self.algorithm, *given])


def ranked(entrants: Sequence[Entrant], task: str) -> list[Entrant]:
    """The best first; of equal ones the faster. What has no score yet is last."""

    def place(entrant: Entrant) -> tuple[bool, float, float]:
        score = entrant.metrics["overall"][SCORE[task]]
        loss = 0.0 if score is None else score if task == "regression" else -score
        return score is None, loss, entrant.seconds_per_row

    return sorted(entrants, key=place)


def curl(name: str, body: dict[str, Any]) -> str:
    """The command that creates a model."""
    return f"curl -X PUT {ADDRESS}/{path_of(name)} --json {shlex.quote(json.dumps(body))}"


class Outcome(NamedTuple):
    """A comparison.

    Attributes:
        title: the file and its label.
        model: the name of the model.
        entrants: the best first.
        totals: of the pass.
        create: the body of the request that creates the best one.
        chart: where it is, if anywhere.
    """

    title: str
    model: str
    entrants: list[Entrant]
    totals: Totals
    create: dict[str, Any]
    chart: str | None


def result(outcome: Outcome) -> dict[str, Any]:
    """The same as ``show`` says, for programs."""
    title, model, entrants, totals, create, chart = outcome
    lines = [
        {
            "name": entrant.name,
            "algorithm": entrant.algorithm,
            "params": entrant.params,
            **{measure: entrant.metrics["overall"][measure] for measure in SHOWN[totals.task]},
            "us_per_row": round(1e6 * entrant.seconds_per_row, 1),
            "difference": entrant.difference,
            "metrics": entrant.metrics,
        }
        for entrant in entrants
    ]
    return {
        "title": title,
        "task": totals.task,
        "rows": totals.rows,
        "seconds": round(totals.seconds, 3),
        "rows_per_s": round(totals.rows_per_s, 1),
        "score": SCORE[totals.task],
        "algorithms": lines,
        "baselines": entrants[0].metrics["baselines"],
        "winner": entrants[0].name,
        "warnings": advice.warnings(entrants, totals.task),
        "create": {"method": "PUT", "path": f"/{path_of(model)}", "body": create},
        "curl": curl(model, create),
        "chart": chart,
    }


def show(console: Console, outcome: Outcome) -> None:
    """Print the table, where the chart is, and the request."""
    title, model, entrants, totals, create, chart = outcome
    own = next(one.name for one in entrants if one.difference is None)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("algorithm", overflow="fold")
    for measure in SHOWN[totals.task]:
        table.add_column(measure.replace("_", " "), justify="right", no_wrap=True)
    if rarest := _rarest(entrants):
        table.add_column(escape(f"recall of {rarest:.20}"), justify="right", no_wrap=True)
    behind = f"squared error above {own}'s" if totals.task == "regression" else f"points behind {own}"
    for column in (behind, "us a row"):
        table.add_column(column, justify="right", no_wrap=True)
    for cells in _lines(entrants, totals.task):
        table.add_row(*cells)
    console.print(f"[bold]{escape(title)}", soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
    said = [
        f"{counted(totals.rows)} in {totals.seconds:.2f} s, in one pass",
        "in brackets: 95 % confidence at every row; us a row: of the first ones, alone, in batches through a service",
        *([] if chart is None else [f"chart: {chart}"]),
        *[
            f"{name.replace('_', ' ')} is better than every algorithm"
            for name in _better_baselines(entrants, totals.task)
        ],
        *[f"note: {warning}" for warning in advice.warnings(entrants, totals.task)],
        f"{entrants[0].line} was the best algorithm; this creates it:",
        "",
        curl(model, create),
    ]
    console.print("\n".join(said), soft_wrap=True, markup=False)


def _rarest(entrants: Sequence[Entrant]) -> str | None:
    """The class of the fewest rows, where it is rare."""
    return next(iter(advice.rare(entrants[0].metrics)), None)


def _better_baselines(entrants: Sequence[Entrant], task: str) -> list[str]:
    """Baselines that need no model and have the better score."""
    score, metrics = SCORE[task], entrants[0].metrics
    known = {name: each[score] for name, each in metrics["baselines"].items() if each[score] is not None}
    best = metrics["overall"][score]
    if best is None:
        return []
    return [name for name, each in known.items() if (each < best if task == "regression" else each > best)]


def _lines(entrants: Sequence[Entrant], task: str) -> list[list[str]]:
    """Algorithms and baselines, the best first."""
    score, measures, rarest = SCORE[task], SHOWN[task], _rarest(entrants)
    found: list[tuple[float | None, list[str]]] = []
    for entrant in entrants:
        overall = entrant.metrics["overall"]
        cells = [_cell(task, measure, overall) for measure in measures]
        cells += [] if rarest is None else [f"{overall['per_class'][rarest]['recall']:.2%}"]
        behind, time = _behind(entrant.difference, task), f"{1e6 * entrant.seconds_per_row:,.0f}"
        found.append((overall[score], [escape(entrant.line), *cells, behind, time]))
    for name, overall in entrants[0].metrics["baselines"].items():
        cells = [_cell(task, measure, overall) for measure in measures]
        found.append(
            (overall[score], [f"[dim]{name.replace('_', ' ')}", *cells, *([] if rarest is None else [""]), "", ""])
        )
    sign = 1.0 if task == "regression" else -1.0
    return [line for _, line in sorted(found, key=lambda one: (one[0] is None, sign * (one[0] or 0.0)))]


def _cell(task: str, measure: str, overall: dict[str, Any]) -> str:
    if measure not in overall:
        return ""
    value = overall[measure]
    return "undefined" if value is None else MEASURES[task][measure].format(value)


def _behind(difference: dict[str, Any] | None, task: str) -> str:
    """By how much its loss is above that of the model's own, and between what."""
    if difference is None or difference["mean"] is None:
        return ""
    form, unit = ("{:+.3g}", 1.0) if task == "regression" else ("{:+.1f}", 100.0)
    mean, low, high = (
        None if difference[end] is None else form.format(-unit * difference[end] + 0.0)
        for end in ("mean", "high", "low")
    )
    return f"{mean}" if low is None or high is None else f"{mean} ({low} to {high})"
