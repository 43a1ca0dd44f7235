"""A file as the options of a command describe it, and its pass through a model: each row is predicted, then learned."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import Annotated, Any

import httpx
from typer import BadParameter, Option

from service.client.display import counted, spelt
from service.client.failures import Failed, Interrupted
from service.client.options import Costs, Missing, Task, model_name
from service.client.replay import chart
from service.client.replay.chart import Curve
from service.client.replay.report import COST, Entrant, compared
from service.client.replay.table import CSV_TYPE, Batch, ReadOptions, Table
from service.client.session import Refused, Session, document_of, path_of

LINE_EVERY_S = 2.0
SAMPLED_ROWS, SAMPLED_FACTOR = 50, 1.02
"""Fewest rows, and growth of rows, between two points of a curve of costs: the service keeps no history of costs."""
PLOTS = (".svg", ".png")
PREDICTION_COLUMNS = ("row", "label", "prediction", "probabilities", "loss")


def _plot(path: Path | None) -> Path | None:
    """Check that a chart can be drawn and written there, before anything starts."""
    if path is not None and (lacking := chart.lacking()):
        raise Failed(lacking)
    if path is not None and (path.suffix.lower() not in PLOTS or not path.absolute().parent.is_dir()):
        raise BadParameter(f"{str(path)!r} does not end in {' or '.join(PLOTS)}, or its directory does not exist")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions(ReadOptions):
    """A file, how to read it, and the model that learns it."""

    task: Annotated[Task | None, Option(help="Default: regression for fractions or many numbers.")] = None
    name: Annotated[str | None, Option("--name", callback=model_name, help="Model name; default: the file's.")] = None
    cost: Costs = None
    missing: Annotated[Missing | None, Option(help="Fill gaps; default: mean if the first rows have any.")] = None
    lags: Annotated[int, Option(min=0, max=10, help="Add the values of this many last rows as columns.")] = 0
    batch: Annotated[int, Option(min=1, max=100_000, help="Rows per request.")] = 500
    plot: Annotated[Path | None, Option(metavar="FILE", callback=_plot, help="Draw a chart: .svg or .png.")] = None

    @property
    def model(self) -> str:
        """The name of the model: ``data/my stream.csv.gz`` makes ``my-stream``."""
        stem = self.file.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
        return self.name or re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:64].rstrip("._-") or "replay"

    def body(self, table: Table, task: str | None) -> dict[str, Any]:
        """The file's part of a configuration; prints whether labels that are numbers are treated as classes."""
        label, costs = table.columns[self.label], dict(self.cost or ())
        taken = task or ("classification" if costs else label.task)
        if task is None and label.notation.kind == "number":
            other = "classification" if taken == "regression" else "regression"
            self.say(f"  {self.label} holds numbers: treated as a {taken}; --task {other} treats them otherwise")
        missing = self.missing or ("mean" if any(column.gaps for column in table.features) else None)
        body = {"task": taken, "features": [column.feature for column in table.features], "missing": missing}
        return {name: value for name, value in {**body, "lags": self.lags, "class_costs": costs}.items() if value}


@dataclass(slots=True)
class FilePass:
    """A pass of a file through a model: how it is sent, and what has been acknowledged."""

    session: Session
    given: FileOptions
    table: Table
    body: dict[str, Any]  # of the model, without its algorithm
    entrants: list[Entrant]  # the model's own algorithm, then its challengers
    writer: Any = None  # of csv, for --predictions
    rows: int = 0
    known: int = 0  # rows whose ids had been learned, by an earlier pass or by a try without an answer
    version: int = 0
    seconds: float = 0.0
    _made: str | None = None  # the incarnation of the model, if this pass has created it
    _constant: list[tuple[int, float]] = field(default_factory=list)  # curve of the cheapest constant answer

    def create(self) -> None:
        """Create the model with its challengers; ``Failed`` names the one of several algorithms that is refused."""
        for at, one in enumerate(self.entrants):
            path = path_of(self.given.model, *(("challengers", one.name) if at else ()))
            try:
                answer = self.session.request("PUT", path, json=one.body | self.body)
            except Refused as refused:
                if len(self.entrants) == 1:
                    raise
                raise Failed(f"{one.algorithm}: {refused}") from None
            if not at and answer.status_code == httpx.codes.CREATED:
                self._made = document_of(answer).get("incarnation")

    def run(self) -> None:
        """Send every row, then get the metrics of each algorithm.

        ``Failed`` names the lines that were refused or malformed; it and ``Interrupted`` say what was learned before.
        """
        try:
            self._send()
        except Failed as failed:
            raise Failed(f"{failed}{self._so_far or self._undone(failed.__context__)}") from None
        except Interrupted as interrupted:
            so_far = self._so_far and f"{self._so_far}; the last request may have been learned as well"
            raise Interrupted(*interrupted.args, so_far) from None
        self._measure()

    @property
    def _so_far(self) -> str:
        """How many rows a model that stays has learned, and how to continue; empty if there are none."""
        if not (self.rows and self.session.stays):
            return ""
        how = "the same command continues" if "id" in self.table.queries else "continue with the rows after them"
        return f"\n  {counted(self.rows)} before that: learned by model {self.given.model}; {how}"

    def _undone(self, why: BaseException | None) -> str:
        """Delete the model if this pass created it and its first rows are refused: other options would not fit it."""
        if self._made and not self.rows and isinstance(why, Refused) and why.status < 500 and self.session.stays:
            with suppress(Failed):
                there = self.session.found(self.given.model)
                if there and (there["incarnation"], there["version"]) == (self._made, 0):
                    self.session.request("DELETE", path_of(self.given.model))
                    return f"\n  model {self.given.model} had learned nothing: it is deleted"
        return ""

    def _send(self) -> None:
        is_class, sampled = self.body["task"] == "classification", self.given.plot is not None and self.given.cost
        size = min(self.given.batch, SAMPLED_ROWS) if sampled else self.given.batch
        asks = self.writer is not None and is_class  # only predict answers with probabilities
        if self.writer is not None:
            self.writer.writerow(PREDICTION_COLUMNS)
        began, told_s, sample_at, losses = time.perf_counter(), 0.0, 0.0, list[float]()
        for batch in self.table.batches(1 if asks else size):
            share = self._share(batch) if asks else ""
            answer = batch.send(self.session, path_of(self.given.model, "feedback", "batch"), self.table.queries)
            if self.writer is not None:
                self.writer.writerows(self._lines(batch, answer, share))
            losses += [one for one in answer["losses"] if one is not None]
            self.rows, self.version = self.rows + len(batch.rows), answer["version"]
            self.known += answer["duplicates"] if "id" in self.table.queries else 0
            self.seconds = time.perf_counter() - began
            if self.seconds - told_s > LINE_EVERY_S:
                told_s, mean = self.seconds, sum(losses) / max(len(losses), 1)
                self.given.say(f"{self}  accuracy {1 - mean:.2%}" if is_class else f"{self}  mse {mean:.6g}")
                losses.clear()
            if sampled and self.rows >= sample_at:
                sample_at = SAMPLED_FACTOR * self.rows
                self._measure()
                for one in self.entrants:
                    one.costs.append((self.rows, one.metrics["window"]["costs"]["mean"]))
                self._constant.append((self.rows, self.entrants[0].metrics["window"]["costs"]["constant"]))

    def __str__(self) -> str:
        return f"{counted(self.rows)} in {self.seconds:.2f} s: {self.rows / max(self.seconds, 1e-9):,.0f} rows/s"

    def _lines(self, batch: Batch, answer: Any, share: str) -> Iterable[Sequence[Any]]:
        """The lines of ``PREDICTION_COLUMNS`` for a batch and its answer; ``share`` is of its only row, or empty."""
        labels = [cells[self.given.label] for cells, _ in batch.rows]
        predictions = ["" if one is None else spelt(one) for one in answer["predictions"]]
        shares = repeat("" if answer["duplicates"] else share)  # a repeated row was known when it was predicted
        return zip(count(batch.first), labels, predictions, shares, answer["losses"], strict=False)

    def _share(self, batch: Batch) -> str:
        """The probabilities of a row that is not learned yet, as JSON; empty if it is refused: feedback says why."""
        path, row = path_of(self.given.model, "predict", "batch"), self.table.written(batch.rows, self.table.features)
        try:
            found = self.session.ask("POST", path, headers=CSV_TYPE, content=row)
        except Refused:
            return ""
        shares = dict(zip(map(spelt, found["classes"]), found["probabilities"][0], strict=True))
        return json.dumps(shares, ensure_ascii=False) if shares else ""

    def _measure(self) -> None:
        """Get the current metrics of the algorithms."""
        path, params = path_of(self.given.model), {"min_version": self.version}
        challengers = self.session.ask("GET", f"{path}/challengers", params=params)["challengers"]
        found = {one["name"]: one for one in challengers}
        found[self.entrants[0].name] = {"metrics": self.session.ask("GET", f"{path}/metrics", params=params)}
        for one in self.entrants:
            one.metrics, one.difference = found[one.name]["metrics"], found[one.name].get("difference")

    def curves(self) -> tuple[dict[str, Curve], dict[str, Curve]]:
        """The scores over the last rows of algorithms and of baselines."""
        entrants, metrics, measure = self.entrants, self.entrants[0].metrics, self.entrants[0].measure
        if measure == COST:
            return {one.line: one.costs for one in entrants}, {"cheapest constant answer": self._constant}
        own = {one.line: _history(one.metrics, measure, compared(one.metrics, "window")[measure]) for one in entrants}
        latest = {name: scores[measure] for name, scores in metrics["window"]["baselines"].items() if name != "served"}
        known = {name.replace("_", " "): _history(metrics, name, score) for name, score in latest.items()}
        if len(entrants) == 1:
            known["model, all rows so far"] = _history(metrics, "overall", compared(metrics)[measure])
        return own, known


def _history(metrics: Mapping[str, Any], name: str, now: float | None) -> Curve:
    """A number of each point of the history, then the current one; errors are of the rows of the baseline."""
    paired = {"mse": "paired", "overall": "paired_overall"}.get(name, name)
    past = [point for point in metrics["history"] if point["row"] < metrics["rows"]]
    values = [point.get(name) if point.get(paired) is None else point[paired] for point in past]
    return [*zip([point["row"] for point in past], values, strict=True), (metrics["rows"], now)]
