"""Progress, as a bar in a terminal, else as a line every two seconds; and the table of scores and baselines."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from service.replay import costs
from service.replay.wording import counted

LINE_EVERY_S = 2.0
CLASSES_SHOWN = 10
MEASURES = {
    "classification": {
        "accuracy": "{:.2%}",
        "balanced_accuracy": "{:.2%}",
        **dict.fromkeys(("kappa", "kappa_temporal", "log_loss", "brier", "ece"), "{:.4f}"),
    },
    "regression": {**dict.fromkeys(("mse", "mae", "median_ae", "bias"), "{:.6g}"), "r2": "{:.4f}"},
}


def compared(metrics: dict[str, Any], span: str) -> dict[str, Any]:
    """The scores of a model that are compared with those of its baselines: squared and absolute errors on the rows that
    ``last_value`` predicted too, which the first is none of, where these are known; all others as they are.

    Args:
        metrics: as GET /models/{name}/metrics answers.
        span: "overall" or "window".
    """
    paired = (metrics.get("paired") or {}).get(span, {})
    errors = {measure: paired[measure] for measure in ("mse", "mae") if paired.get(measure) is not None}
    return {**metrics[span], **errors}


@dataclass(slots=True)
class Totals:
    """Counts and scores of this replay so far.

    Attributes:
        task: "classification" or "regression".
        rows: rows sent and acknowledged.
        known: rows of these that the service had learned before, by their ids.
        skipped: rows that were left out, having no label.
        version: the model's version after them.
        seconds: from the first batch to the last answer.
    """

    task: str
    rows: int = 0
    known: int = 0
    skipped: int = 0
    version: int = 0
    seconds: float = 0.0
    _scored: int = 0
    _loss: float = 0.0
    _started: float = field(default_factory=time.perf_counter)

    def add(self, answer: dict[str, Any], by_id: bool) -> None:
        """Count an acknowledged batch."""
        losses = [loss for loss in answer["losses"] if loss is not None]
        self.rows += len(answer["losses"])
        self.known += answer["duplicates"] if by_id else 0
        self.version = answer["version"]
        self._scored += len(losses)
        self._loss += sum(losses)
        self.seconds = time.perf_counter() - self._started

    @property
    def rows_per_s(self) -> float:
        """Throughput so far."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_out(self) -> list[str]:
        """What there is to say of rows that were left out."""
        return [f"{counted(self.skipped)} without a label left out"] if self.skipped else []

    def __str__(self) -> str:
        mean = self._loss / self._scored if self._scored else 0.0
        score = f"mse {mean:.6g}" if self.task == "regression" else f"accuracy {1 - mean:.2%}"
        return f"{counted(self.rows)}  {self.rows_per_s:,.0f} rows/s  {score}"


@contextmanager
def progress(console: Console, title: str, totals: Totals) -> Generator[Callable[[float | None], None]]:
    """A function that shows the totals; its argument is the part of the work that is done, 0 to 1, None if unknown."""
    if not console.is_terminal:
        yield _lines(console, totals)
        return
    columns = (TextColumn("[bold]{task.description}"), BarColumn(), TaskProgressColumn())
    rest = (TextColumn("{task.fields[totals]}"), TimeRemainingColumn(compact=True))
    with Progress(*columns, *rest, console=console) as bar:
        task = bar.add_task(escape(title), total=1.0, totals="")
        yield lambda done: bar.update(task, total=None if done is None else 1.0, completed=done, totals=str(totals))


def _lines(console: Console, totals: Totals) -> Callable[[float | None], None]:
    due = time.monotonic() + LINE_EVERY_S

    def show(done: float | None) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY_S
            console.print(str(totals) if done is None else f"{done:4.0%}  {totals}", soft_wrap=True)
            console.file.flush()

    return show


def result(title: str, model: str, metrics: dict[str, Any], totals: Totals) -> dict[str, Any]:
    """The same as ``table`` says, for programs.

    Args:
        title: file, algorithm, parameters.
        model: its name.
        metrics: as GET /models/{name}/metrics answers.
        totals: of this replay.
    """
    return {
        "title": title,
        "model": model,
        "task": totals.task,
        "rows": totals.rows,
        "known": totals.known,
        "skipped": totals.skipped,
        "version": totals.version,
        "seconds": round(totals.seconds, 3),
        "rows_per_s": round(totals.rows_per_s, 1),
        "metrics": metrics,
    }


def table(console: Console, title: str, metrics: dict[str, Any], totals: Totals) -> None:
    """Print the scores over every row that the model has ever learned.

    Args:
        console: the output.
        title: file, algorithm, parameters.
        metrics: as GET /models/{name}/metrics answers.
        totals: of this replay.
    """
    paired = metrics.get("paired")
    beside = {} if paired is None else {"model, rows of last value": paired["overall"]}
    columns = {"model": metrics["overall"], **beside, **metrics["baselines"]}
    shown = Table("over all rows", box=box.SIMPLE_HEAD)
    for name in columns:
        shown.add_column(name.replace("_", " "), justify="right")
    for measure, form in MEASURES[totals.task].items():
        cells = [_text(form, scores[measure]) if measure in scores else "" for scores in columns.values()]
        shown.add_row(measure.replace("_", " "), *cells)
    console.print(f"[bold]{escape(title)}", soft_wrap=True)
    console.print(shown)
    if classes := metrics["overall"].get("per_class"):
        console.print(_per_class(classes))
    lines = [f"{counted(totals.rows)} in {totals.seconds:.2f} s: {totals.rows_per_s:,.0f} rows/s", *totals.left_out]
    lines += costs.said(metrics["overall"].get("costs"))
    if totals.known:
        lines.append(f"{totals.known:,} of them had been learned before, by their ids; they were not learned again")
    if metrics["rows"] != totals.rows - totals.known:
        lines.append(
            f"the figures are of all {counted(metrics['rows'])} that the model has learned, not of these alone"
        )
    console.print("\n".join(lines), soft_wrap=True, markup=False)


def _per_class(classes: dict[str, dict[str, Any]]) -> Table:
    """Recall and precision of the classes; of many those of the lowest recall."""
    worst = sorted(classes, key=lambda name: (classes[name]["recall"] is None, classes[name]["recall"]))
    names = [*classes] if len(classes) <= CLASSES_SHOWN else worst[:CLASSES_SHOWN]
    title = "class" if len(names) == len(classes) else f"class ({CLASSES_SHOWN} of lowest recall)"
    shown = Table(title, "rows", "recall", "precision", box=box.SIMPLE_HEAD)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name in names:
        one = classes[name]
        cells = [_text("{:.2%}", one[measure]) for measure in ("recall", "precision")]
        shown.add_row(escape(name), f"{one['support']:,}", *cells)
    return shown


def _text(form: str, value: float | None) -> str:
    return "undefined" if value is None else form.format(value)
