"""One pass of a file through a model and its challengers: each row is predicted by all of them, then learned."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import httpx

from service.client.display import counted
from service.client.failures import Failed
from service.client.replay.chart import Curve
from service.client.replay.file_options import FileOptions
from service.client.replay.report import COST, SCORE, Entrant, compared, measure_of
from service.client.replay.table import Batch, Table
from service.client.session import Refused, Session, path_of

LINE_EVERY_S = 2.0
SAMPLES, SAMPLED_ROWS = 200, 50
"""Most points of a curve of costs, and most rows between two: the service keeps no history of costs."""


@dataclass(slots=True)
class Progress:
    """Rows that were sent and acknowledged, and how well they were predicted; told from time to time."""

    task: str
    out: TextIO
    rows: int = 0
    known: int = 0
    version: int = 0
    seconds: float = 0.0
    _loss: float = 0.0
    _scored: int = 0
    _told: float = 0.0
    _began: float = field(default_factory=time.perf_counter)

    def add(self, answer: Mapping[str, Any], part: float | None, by_id: bool) -> None:
        """Count the answer to a batch, up to which this part of the file has been read."""
        losses = [loss for loss in answer["losses"] if loss is not None]
        self.rows, self.version = self.rows + len(answer["losses"]), answer["version"]
        self.known += answer["duplicates"] if by_id else 0
        self._scored, self._loss = self._scored + len(losses), self._loss + sum(losses)
        self.seconds = time.perf_counter() - self._began
        if self.seconds - self._told > LINE_EVERY_S:
            self._told, mean = self.seconds, self._loss / max(self._scored, 1)
            score = f"mse {mean:.6g}" if self.task == "regression" else f"accuracy {1 - mean:.2%}"
            print(f"{'' if part is None else f'{part:4.0%}  '}{self}  {score}", file=self.out, flush=True)

    def __str__(self) -> str:
        rate = self.rows / max(self.seconds, 1e-9)
        return f"{counted(self.rows)} in {self.seconds:.2f} s: {rate:,.0f} rows/s"


class FilePass:
    """A file, and the model of a service that it goes through, with its challengers."""

    def __init__(self, session: Session, given: FileOptions, entrants: Sequence[Entrant], task: str) -> None:
        self._session, self._given, self._entrants = session, given, entrants
        self.progress = Progress(task, given.out)
        self._samples: list[tuple[int, list[Entrant]]] = []

    def run(self, table: Table, row_id: str | None, sampled: bool) -> list[Entrant]:
        """Send every row; what each algorithm has reached then.

        Raises:
            Failed: a batch is refused, told by the lines of the file; or the service cannot be reached.
        """
        size, stride = min(self._given.batch, SAMPLED_ROWS) if sampled else self._given.batch, 1
        for number, batch in enumerate(table.batches(size, self._given.limit)):
            self.progress.add(self._learned(batch, row_id), table.part, by_id=row_id is not None)
            if sampled and number % stride == 0:
                self._samples.append((self.progress.rows, self._reached()))
            if len(self._samples) > SAMPLES:
                del self._samples[::2]
                stride *= 2
        return self._reached()

    def _learned(self, batch: Batch, row_id: str | None) -> Any:
        name, label = self._given.model, self._given.label
        params = {"label": label} | ({} if row_id is None else {"id": row_id})
        headers = {"Content-Type": "text/csv; charset=utf-8"} | (self._session.fresh_key() if row_id is None else {})
        path = path_of(name, "feedback", "batch")
        try:
            return self._session.ask("POST", path, params=params, headers=headers, content=batch.body)
        except Refused as refused:
            last = batch.first + len(batch.lines) - 1
            said = f"rows {batch.first} to {last}: {refused.told(batch.located(refused.errors))}"
            if refused.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
                said += "\n  a smaller --batch may do"
            if self._given.task is None and "is not a label" in said:
                said += "\n  where the label is a number: --task regression"
            at = batch.columns.index(label)
            if not self._given.skip_unlabelled and any(not row[at].strip() for row in batch.cells):
                said += "\n  rows without a label: --skip-unlabelled leaves them out"
            if self.progress.rows:
                said += f"\n  {counted(self.progress.rows)} before that: learned by model {name}"
            raise Failed(said) from None

    def _reached(self) -> list[Entrant]:
        """The algorithms with their metrics of now."""
        path, params = path_of(self._given.model), {"min_version": self.progress.version}
        own = self._session.ask("GET", f"{path}/metrics", params=params)
        listed = (
            self._session.ask("GET", f"{path}/challengers", params=params)["challengers"] if self._entrants[1:] else []
        )
        found = {one["name"]: one for one in listed}
        return [self._entrants[0]._replace(metrics=own)] + [
            one._replace(metrics=found[one.name]["metrics"], difference=found[one.name]["difference"])
            for one in self._entrants[1:]
        ]

    def curves(self, entrants: Sequence[Entrant]) -> tuple[dict[str, Curve], dict[str, Curve]]:
        """The scores over the last rows: of algorithms, and of baselines."""
        metrics, task = entrants[0].metrics, self.progress.task
        if measure_of(metrics, task) == COST:
            costs = [(rows, {one.name: one.metrics["window"]["costs"] for one in now}) for rows, now in self._samples]
            own: dict[str, Curve] = {
                one.line: [(rows, now[one.name]["mean"]) for rows, now in costs] for one in entrants
            }
            return own, {"cheapest constant answer": [(rows, now[entrants[0].name]["constant"]) for rows, now in costs]}
        measure, known = SCORE[task], "last_value" if task == "regression" else "no_change"
        baselines = {known.replace("_", " "): _history(metrics, known, metrics["window"]["baselines"][known][measure])}
        if "majority" in metrics["baselines"]:
            share = metrics["baselines"]["majority"][measure]
            baselines["majority, all rows"] = [(0, share), (metrics["rows"], share)]
        own = {one.line: _history(one.metrics, measure, compared(one.metrics, "window")[measure]) for one in entrants}
        if len(entrants) == 1:
            baselines["model, all rows so far"] = _history(metrics, "overall", compared(metrics)[measure])
        return own, baselines


def _history(metrics: Mapping[str, Any], name: str, now: float | None) -> Curve:
    """One of the numbers of each point of the history, and that of now; errors on the rows of the baseline."""
    names = [{"mse": "paired", "overall": "paired_overall"}.get(name, name), name]
    past = [point for point in metrics["history"] if point["row"] < metrics["rows"]]
    points = [
        (point["row"], next((point[each] for each in names if point.get(each) is not None), None)) for point in past
    ]
    return [*points, (metrics["rows"], now)]
