"""What a comparison says: the algorithms by score beside the baselines, and the request that creates the best one."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.replay import advice, costs
from service.replay.client import path_of
from service.replay.options import key_of
from service.replay.report import MEASURES, Totals, compared
from service.replay.wording import counted

SCORE = {"classification": "accuracy", "regression": "mse"}
COST = "mean_cost"
"""The score where missing a class has a cost: what answers have cost a row."""
SHOWN = {
    "classification": ("accuracy", "balanced_accuracy", "log_loss"),
    "regression": ("mse", "mae", "r2"),
}
"""Measures that the table shows, the score first."""
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
    """The best first, errors on the rows of the baseline; of equal ones the faster. What has no score yet is last."""

    def place(entrant: Entrant) -> tuple[bool, float, float]:
        measure = measures(entrant.metrics, task)[0]
        score = value_of(compared(entrant.metrics, "overall"), measure)
        return score is None, _loss(measure, score), entrant.seconds_per_row

    return sorted(entrants, key=place)


def measures(metrics: Mapping[str, Any], task: str) -> tuple[str, ...]:
    """What the table shows, the score first: with costs of classes these."""
    return (COST, *SHOWN[task]) if "costs" in metrics["overall"] else SHOWN[task]


def value_of(scores: Mapping[str, Any], measure: str) -> float | None:
    """One of the scores of a span."""
    value: float | None = scores["costs"]["mean"] if measure == COST else scores[measure]
    return value


def _loss(measure: str, score: float | None) -> float:
    """A score as what is to be small."""
    return 0.0 if score is None else -score if measure == SCORE["classification"] else score


def curl(address: str, name: str, body: dict[str, Any]) -> str:
    """The command that creates a model; the key, where the environment has one, is not told."""
    key = ' -H "Authorization: Bearer $ONEPASS_API_KEY"' if key_of(os.environ) else ""
    url = f"{address.removeprefix('http://')}/{path_of(name)}"
    return f"curl -X PUT {shlex.quote(url)}{key} --json {shlex.quote(json.dumps(body))}"


class Outcome(NamedTuple):
    """A comparison.

    Attributes:
        title: the file and its label.
        model: the name of the model.
        address: of the service that the request is for.
        entrants: the best first.
        totals: of the pass.
        create: the body of the request that creates the best one.
        chart: where it is, if anywhere.
    """

    title: str
    model: str
    address: str
    entrants: list[Entrant]
    totals: Totals
    create: dict[str, Any]
    chart: str | None


def result(outcome: Outcome) -> dict[str, Any]:
    """The same as ``show`` says, for programs."""
    title, model, address, entrants, totals, create, chart = outcome
    shown = measures(entrants[0].metrics, totals.task)
    lines = [
        {
            "name": entrant.name,
            "algorithm": entrant.algorithm,
            "params": entrant.params,
            **{measure: value_of(entrant.metrics["overall"], measure) for measure in shown},
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
        "skipped": totals.skipped,
        "seconds": round(totals.seconds, 3),
        "rows_per_s": round(totals.rows_per_s, 1),
        "score": shown[0],
        "algorithms": lines,
        "baselines": entrants[0].metrics["baselines"],
        "winner": entrants[0].name,
        "warnings": _warnings(outcome),
        "create": {"method": "PUT", "path": f"/{path_of(model)}", "body": create},
        "curl": curl(address, model, create),
        "chart": chart,
    }


def show(console: Console, outcome: Outcome) -> None:
    """Print the table, where the chart is, and the request."""
    title, model, address, entrants, totals, create, chart = outcome
    own = next(one.name for one in entrants if one.difference is None)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("algorithm", overflow="fold")
    shown = measures(entrants[0].metrics, totals.task)
    for measure in shown:
        table.add_column(measure.replace("_", " "), justify="right", no_wrap=True)
    if rarest := _rarest(entrants):
        table.add_column(escape(f"recall of {rarest:.20}"), justify="right", no_wrap=True)
    behind = f"squared error above {own}'s" if totals.task == "regression" else f"points behind {own}"
    paired = [] if shown[0] == COST else [behind]
    for column in (*paired, "us a row"):
        table.add_column(column, justify="right", no_wrap=True)
    for cells in _lines(entrants, totals.task):
        table.add_row(*cells)
    console.print(f"[bold]{escape(title)}", soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
    brackets = "in brackets: 95 % confidence of all together, at every row; " * bool(paired)
    said = [
        f"{counted(totals.rows)} in {totals.seconds:.2f} s, in one pass",
        *totals.left_out,
        f"{brackets}us a row: of the first ones, alone, in batches through a service",
        *(["errors leave out the first row, which last value cannot predict"] if totals.task == "regression" else []),
        *([] if chart is None else [f"chart: {chart}"]),
        *[
            f"{name.replace('_', ' ')} is better than every algorithm"
            for name in _better_baselines(entrants, totals.task)
        ],
        *[f"note: {warning}" for warning in _warnings(outcome)],
        f"{entrants[0].line} was the best algorithm; this creates it:",
        "",
        curl(address, model, create),
    ]
    console.print("\n".join(said), soft_wrap=True, markup=False)


def _warnings(outcome: Outcome) -> list[str]:
    """What to know of the figures, and of costs of labels that there are none of."""
    entrants, given = outcome.entrants, outcome.create.get("class_costs", {})
    return [
        *advice.warnings(entrants, outcome.totals.task),
        *costs.without_effect(given, entrants[0].metrics),
    ]


def _rarest(entrants: Sequence[Entrant]) -> str | None:
    """The class of the fewest rows, where it is rare."""
    return next(iter(advice.rare(entrants[0].metrics)), None)


def _better_baselines(entrants: Sequence[Entrant], task: str) -> list[str]:
    """Baselines that need no model and have the better score."""
    score, metrics = SCORE[task], entrants[0].metrics
    if measures(metrics, task)[0] == COST:
        return []  # they are told by their accuracy
    known = {name: each[score] for name, each in metrics["baselines"].items() if each[score] is not None}
    best = compared(metrics, "overall")[score]
    if best is None:
        return []
    return [name for name, each in known.items() if (each < best if task == "regression" else each > best)]


def _lines(entrants: Sequence[Entrant], task: str) -> list[list[str]]:
    """Algorithms and baselines, the best first."""
    shown, rarest = measures(entrants[0].metrics, task), _rarest(entrants)
    found: list[tuple[float | None, list[str]]] = []
    for entrant in entrants:
        overall = compared(entrant.metrics, "overall")
        cells = [_cell(task, measure, overall) for measure in shown]
        cells += [] if rarest is None else [f"{overall['per_class'][rarest]['recall']:.2%}"]
        cells += [] if shown[0] == COST else [_behind(entrant.difference, task)]
        line = [escape(entrant.line), *cells, f"{1e6 * entrant.seconds_per_row:,.0f}"]
        found.append((value_of(overall, shown[0]), line))
    for name, scores in _baselines(entrants[0].metrics).items():
        cells = [_cell(task, measure, scores) for measure in shown]
        cells += [""] * (len(found[0][1]) - 1 - len(cells))
        found.append((value_of(scores, shown[0]) if cells[0] else None, [f"[dim]{escape(name)}", *cells]))
    return [line for _, line in sorted(found, key=lambda one: (one[0] is None, _loss(shown[0], one[0])))]


def _baselines(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The baselines by what the table calls them; with costs also the answer that would have cost least."""
    found = {name.replace("_", " "): scores for name, scores in metrics["baselines"].items()}
    own = metrics["overall"].get("costs")
    return found if own is None else {f"always {own['label']}": {"costs": {"mean": own["constant"]}}, **found}


def _cell(task: str, measure: str, scores: Mapping[str, Any]) -> str:
    if ("costs" if measure == COST else measure) not in scores:
        return ""
    value, form = value_of(scores, measure), "{:.4g}" if measure == COST else MEASURES[task][measure]
    return "undefined" if value is None else form.format(value)


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
