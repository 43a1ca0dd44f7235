"""The table at the end: what the model scored on every row it has ever learned, beside what asks for no model."""

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.replay.progress import Tally

MEASURES = {
    "classification": ("accuracy", "kappa", "kappa_temporal", "log_loss"),
    "regression": ("mse", "mae", "r2"),
}


def show(console: Console, title: str, metrics: dict[str, Any], task: str, tally: Tally) -> None:
    """Print it.

    Args:
        console: where to.
        title: file, algorithm, parameters.
        metrics: as GET /models/{name}/metrics answers.
        task: "classification" or "regression".
        tally: of this replay.
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("over all rows")
    columns = {"model": metrics["overall"], **metrics["baselines"]}
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for measure in MEASURES[task]:
        table.add_row(
            measure.replace("_", " "), *(_text(measure, scores.get(measure, "")) for scores in columns.values())
        )
    console.print(f"[bold]{escape(title)}", highlight=False, soft_wrap=True)
    console.print(table)
    for line in _lines(metrics["rows"], tally):
        console.print(line, highlight=False, soft_wrap=True)


def _lines(rows: int, tally: Tally) -> list[str]:
    lines = [f"{tally.rows:,} rows in {tally.seconds:.2f} s: {tally.rows_per_s:,.0f} rows/s"]
    if tally.known:
        lines.append(f"{tally.known:,} of them had been learned before, by their ids; they were not learned again")
    if rows != tally.rows - tally.known:
        lines.append(f"the figures are of all {rows:,} rows that the model has learned, not of these alone")
    return lines


def _text(measure: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ("undefined" if value is None else "")
    if measure == "accuracy":
        return f"{value:.2%}"
    return f"{value:.6g}" if measure in ("mse", "mae") else f"{value:.4f}"
