"""``onepass show NAME``: a model in a page: scores beside baselines, the curve, drifts, challengers, experts."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from service.cli.connection import (
    Connection,
    carry_out,
    console,
    declare_json,
    declare_name,
    fitting,
    path_of,
    print_document,
    text,
)
from service.cli.connection import declare as declare_service
from service.cli.listing import ago
from service.cli.numbers import figure, percent, score, sparkline
from service.cli.values import labels_of, spelt
from service.replay import costs
from service.replay.wording import counted

DRIFTS = 5
EXPERTS = 6
FEATURES = 12
MEASURES = {
    "classification": ("accuracy", "balanced_accuracy", "kappa", "log_loss", "ece"),
    "regression": ("mse", "mae", "r2", "bias"),
}
SPANS = {
    "overall": "all rows",
    "paired": "rows the baseline predicted",
    "no_change": "no change",
    "last_value": "last value",
}
CURVE = {"classification": "accuracy", "regression": "mse"}
"""What the curve is of."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:  # noqa: ARG001  of the one command
    """Declare the options."""
    parser.description = "Show a model: scores beside baselines, their curve, drifts, challengers, experts."
    declare_name(parser)
    declare_service(parser)
    declare_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show it; the exit status."""
    return carry_out(options, _show)


def _show(connection: Connection, options: argparse.Namespace) -> None:
    response = connection.ask("GET", path_of(options.name))
    if options.json:
        print_document(response)
        return
    model, out = response.json(), console()
    features = connection.ask("GET", path_of(options.name, "features")).json()
    order = {"order": "newest", "limit": DRIFTS}
    drifts = connection.ask("GET", path_of(options.name, "drift"), params=order).json()["events"]
    beside = connection.ask("GET", path_of(options.name, "challengers")).json()["challengers"]
    _head(out, model, features)
    if model["rows"]:
        spans = _spans(model["metrics"])
        spared = [*(name for name in spans if name not in {"overall", "window"}), "window"]
        out.print(fitting(out, partial(_scores, model["config"]["task"], spans), spans, spared))
        for line in costs.said(model["metrics"]["overall"].get("costs")):
            out.print(text(line), soft_wrap=True)
        _curve(out, model["config"]["task"], model["metrics"])
    for title, lines in (
        ("experts", _experts(model["info"].get("experts") or [])),
        ("after the change of features", _experts(features["ensemble"] or [])),
        ("challengers", [_challenger(model["config"], one) for one in beside]),
        ("latest drifts", [_drift(event) for event in drifts]),
    ):
        if found := [*lines]:
            out.print(f"\n{title}", style="bold")
            out.print(grid(found))


def _head(out: Console, model: dict[str, Any], features: dict[str, Any]) -> None:
    config = model["config"]
    learner = f"{config['task']} by {config['algorithm']}"
    own = "" if (rows := model["info"].get("learner_rows")) is None else f" (its learner {rows:,})"
    state = f"{counted(model['rows'])}{own}, version {model['version']:,}, {model['phase']}"
    state += f", updated {_ago(model['updated'])}"
    out.print(text(model["name"], "bold"))
    lines = [("", learner), ("", state)]
    if config.get("description"):
        lines.append(("", config["description"]))
    lines.append(("features", _names(features["current"]) or "those of the first row"))
    if features["next"] is not None:
        lines.append(("next", f"{_names(features['next'])} ({counted(features['overlap_rows'])} of the overlap)"))
    if labels := labels_of(model):
        lines.append(("labels", _some([spelt(one) for one in labels])))
    out.print(grid([(f"{name}: {said}" if name else said,) for name, said in lines]))


def _names(features: list[Any]) -> str:
    return _some([one if isinstance(one, str) else f"{one['name']} ({one['type']})" for one in features])


def _some(names: list[str]) -> str:
    more = len(names) - FEATURES
    return ", ".join(names[:FEATURES]) + (f" and {more} more" if more > 0 else "")


def _spans(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All rows, the last ones, and the baselines; of a regression also the rows on which the baseline had a number."""
    paired = metrics.get("paired")
    beside = metrics["baselines"] if paired is None else {"paired": paired["overall"], **metrics["baselines"]}
    return {"overall": metrics["overall"], "window": metrics["window"], **beside}


def _scores(task: str, spans: dict[str, dict[str, Any]], shown: list[str]) -> Table:
    """A line for each measure, a column for each span that is shown."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in shown:
        head = f"last {spans[name]['rows']:,}" if name == "window" else SPANS.get(name, name)
        table.add_column(head, justify="right", no_wrap=True)
    for measure in MEASURES[task]:
        shares = task == "classification" and measure.endswith("accuracy")
        cells = [spans[name].get(measure) for name in shown]
        told = [score(task, cell) if shares else figure(cell) for cell in cells]
        table.add_row(measure.replace("_", " "), *told)
    return table


def _curve(out: Console, task: str, metrics: dict[str, Any]) -> None:
    measure = CURVE[task]
    found = [point for point in metrics["history"] if point.get(measure) is not None]
    if len(found) < 2:
        return
    values = [point[measure] for point in found]
    best = max(values) if task == "classification" else min(values)
    said = f"best {score(task, best)}, now {score(task, values[-1])}"
    out.print(f"{sparkline(values)}  {said}, rows {found[0]['row']:,} to {found[-1]['row']:,}", soft_wrap=True)


def _experts(experts: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Those that say most."""
    by_weight = sorted(experts, key=lambda one: -one["weight"])
    for one in by_weight[:EXPERTS]:
        own = next((f"{name} {figure(one[name])}" for name in ("mse", "loss") if name in one), "")
        own = f"accuracy {percent(one['accuracy'])}" if one.get("accuracy") is not None else own
        yield one["expert"], f"weight {percent(one['weight'])}", own
    if len(by_weight) > EXPERTS:
        rest = by_weight[EXPERTS:]
        yield f"and {len(rest)} more", f"weight {percent(sum(one['weight'] for one in rest))}"


def _challenger(config: dict[str, Any], one: dict[str, Any]) -> tuple[str, ...]:
    difference, task = one["difference"], config["task"]
    own = one["metrics"]["overall"].get(CURVE[task])
    unit = "cost a row" if config.get("class_costs") else "points" if task == "classification" else "squared error"
    lead = "no row compared yet"
    if difference["mean"] is not None:
        words = "ahead" if (difference["low"] or 0) > 0 else "behind" if (difference["high"] or 0) < 0 else "open"
        mean, low, high = (_lead(unit, difference[name]) for name in ("mean", "low", "high"))
        bounds = "" if difference["low"] is None else f" ({low} to {high})"
        lead = f"{words}: {mean}{bounds} {unit} over {counted(difference['rows'])}"
    promotes = "promoted once ahead" if one["promote"] == "auto" else ""
    return one["name"], one["config"]["algorithm"], score(task, own), lead, promotes


def _lead(unit: str, difference: float | None) -> str:
    """By how much a challenger's loss is less: in points of accuracy, or as it is."""
    if difference is None:
        return "?"
    return f"{100 * difference:+.1f}" if unit == "points" else f"{difference:+.4g}"


def _drift(event: dict[str, Any]) -> tuple[str, ...]:
    of = "" if event["class"] is None else f"class {event['class']}"
    moved = ", ".join(one["name"] for one in event["features"][:3])
    whose = "" if event["challenger"] is None else f"of {event['challenger']}"
    return f"row {event['row']:,}", event["kind"], of, moved, event["action"], whose, _ago(event["time"])


def _ago(time: str) -> str:
    return ago(time, datetime.now(UTC))


def grid(lines: list[tuple[str, ...]]) -> Table:
    """Lines of cells, below each other."""
    grid = Table.grid(padding=(0, 2))
    for cells in lines:
        grid.add_row(*(text(cell) for cell in ("", *cells)))
    return grid
