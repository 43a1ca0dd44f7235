"""What is seen meanwhile: a bar in a terminal, else a line every two seconds."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 2.0


@dataclass(slots=True)
class Tally:
    """What has been learned so far in this replay.

    Attributes:
        score: what a mean loss is shown as: "accuracy" or "mse".
        rows: rows sent and acknowledged.
        known: rows of these that the service had learned before, by their ids.
        version: the model's version after them.
    """

    score: str
    rows: int = 0
    known: int = 0
    version: int = 0
    _scored: int = 0
    _loss: float = 0.0
    _started: float = field(default_factory=time.perf_counter)
    _seconds: float = 0.0

    def add(self, answer: dict[str, Any], by_id: bool) -> None:
        """Count an acknowledged batch."""
        losses = [loss for loss in answer["losses"] if loss is not None]
        self.rows += len(answer["losses"])
        self.known += answer["duplicates"] if by_id else 0
        self.version = answer["version"]
        self._scored += len(losses)
        self._loss += sum(losses)
        self._seconds = time.perf_counter() - self._started

    @property
    def seconds(self) -> float:
        """From the first batch to the last answer."""
        return self._seconds

    @property
    def rows_per_s(self) -> float:
        """Throughput so far."""
        return self.rows / self._seconds if self._seconds > 0 else 0.0

    def __str__(self) -> str:
        mean = self._loss / self._scored if self._scored else 0.0
        shown = f"{1 - mean:.4f}" if self.score == "accuracy" else f"{mean:.6g}"
        return f"{self.rows:,} rows  {self.rows_per_s:,.0f} rows/s  {self.score} {shown}"


class Show(Protocol):
    """Shows how far a replay has come."""

    def __call__(self, done: float) -> None:
        """Show the tally; ``done`` is the part of the work that is behind us, 0 to 1."""


@contextmanager
def shown(console: Console, title: str, tally: Tally) -> Generator[Show]:
    """A bar where the console is a terminal, else lines."""
    if not console.is_terminal:
        yield _lines(console, tally)
        return
    with Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[tally]}"),
        TimeRemainingColumn(compact=True),
        console=console,
    ) as progress:
        task = progress.add_task(escape(title), total=1.0, tally="")
        yield lambda done: progress.update(task, completed=done, tally=str(tally))


def _lines(console: Console, tally: Tally) -> Show:
    due = time.monotonic() + LINE_EVERY_S

    def show(done: float) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY_S
            console.print(f"{done:4.0%}  {tally}", highlight=False, soft_wrap=True)
            console.file.flush()

    return show
