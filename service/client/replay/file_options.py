"""What replay and compare are told of a file: where it is, what its columns mean, and how it is sent."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from service.client.options import Costs, model_name
from service.client.replay.columns import described
from service.client.replay.table import Table

PLOTS = (".svg", ".png")
Task = Literal["classification", "regression"]
Missing = Literal["error", "zero", "mean"]


def _plot(path: Path | None) -> Path | None:
    """See before anything starts that a chart can be written."""
    if path is not None and (path.suffix.lower() not in PLOTS or not path.absolute().parent.is_dir()):
        raise BadParameter(f"{str(path)!r} does not end in {' or '.join(PLOTS)}, or is in no directory that exists")
    return path


def _separator(text: str | None) -> str | None:
    if text is not None and len(text) != 1 and text != "tab":
        raise BadParameter(f"{text!r} is neither one character nor tab")
    return "\t" if text == "tab" else text


Plot = Annotated[Path | None, Option("--plot", metavar="FILE", callback=_plot, help="Draw a chart: .svg or .png.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """A file and how it is read and sent."""

    file: Annotated[Path, Argument(metavar="FILE", help="CSV with a header, also as gzip, or Parquet; -: stdin.")]
    label: Annotated[str, Option(metavar="COLUMN", help="The column that holds the label.")]
    task: Annotated[Task | None, Option(help="Default: regression where labels are any numbers.")] = None
    name: Annotated[str | None, Option("--name", callback=model_name, help="Of the model; default: the file's.")] = None
    cost: Costs = None
    missing: Annotated[Missing | None, Option(help="What gaps become; default: mean if the first rows have any.")] = (
        None
    )
    lags: Annotated[int, Option(min=0, max=10, help="So many last rows as columns.")] = 0
    drop: Annotated[str, Option(metavar="A,B", help="Columns to leave out.")] = ""
    skip_unlabelled: Annotated[bool, Option("--skip-unlabelled", help="Leave out rows without a label.")] = False
    limit: Annotated[int | None, Option(min=1, help="Stop after so many rows.")] = None
    batch: Annotated[int, Option(min=1, max=100_000, help="Rows per request.")] = 500
    sep: Annotated[str | None, Option(callback=_separator, help="Between cells: a character, or tab.")] = None
    encoding: Annotated[str | None, Option(help="Of CSV; default: as its beginning tells.")] = None
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON; all else goes to stderr.")] = False

    def say(self, text: str) -> None:
        """Print what people read."""
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    @property
    def model(self) -> str:
        """The name of the model: ``data/my stream.csv.gz`` makes ``my-stream``."""
        stem = self.file.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
        return self.name or re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:64].rstrip("._-") or "replay"

    def table(self, row_id: str | None = None) -> Table:
        """The file, with a column of ids if it has one; how it is read is printed."""
        apart = {self.label: "label", **({} if row_id is None else {row_id: "id"})}
        dropped = [name for name in self.drop.split(",") if name]
        table = Table(self.file, apart, dropped, self.sep, self.encoding)
        if self.skip_unlabelled:
            table.skip_unlabelled(self.label)
        self.say(f"{table.name}: {table.form}\n{described(table.columns, apart, dropped)}")
        return table

    def body(self, table: Table, task: str | None) -> dict[str, Any]:
        """What a configuration has of the file; how labels that are numbers are taken is printed."""
        label, costs = table.columns[self.label], dict(self.cost or ())
        taken = task or ("classification" if costs else label.task)
        if task is None and label.notation.kind == "number":
            other = "classification" if taken == "regression" else "regression"
            self.say(f"  {self.label} holds numbers, which makes a {taken}; --task {other} is the other")
        missing = self.missing or ("mean" if any(column.gaps for column in table.features) else None)
        body = {"task": taken, "features": [column.feature for column in table.features], "missing": missing}
        return {name: value for name, value in {**body, "lags": self.lags, "class_costs": costs}.items() if value}
