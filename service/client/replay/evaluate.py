"""``onepass evaluate``: a file of labelled rows scored by a model that does not learn them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from service.client.display import counted, grid
from service.client.failures import Failed
from service.client.options import model_name
from service.client.replay.columns import described
from service.client.replay.file_pass import separator
from service.client.replay.table import Table
from service.client.session import Refused, Service, path_of

MEANS = ("accuracy", "log_loss", "mse", "mae", "bias")
"""Metrics of several requests that their rows, those with a prediction, have a mean of."""


def evaluate(
    *,
    file: Annotated[Path, Argument(metavar="FILE", help="CSV with a header, also as gzip, or Parquet; -: stdin.")],
    model: Annotated[str, Option(metavar="NAME", callback=model_name, help="Of the model.")],
    label: Annotated[str, Option(metavar="COLUMN", help="The column that holds the label.")],
    drop: Annotated[str, Option(metavar="A,B", help="Columns to leave out.")] = "",
    skip_unlabelled: Annotated[bool, Option("--skip-unlabelled", help="Leave out rows without a label.")] = False,
    limit: Annotated[int | None, Option(min=1, help="Stop after so many rows.")] = None,
    batch: Annotated[int, Option(min=1, max=100_000, help="Rows per request.")] = 10_000,
    sep: Annotated[str | None, Option(callback=separator, help="Between cells: a character, or tab.")] = None,
    encoding: Annotated[str | None, Option(help="Of CSV; default: as its beginning tells.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON; all else goes to stderr.")] = False,
    service: Service,
) -> None:
    """Score a model on a file, such as a holdout set, without learning it.

    All rows are predicted by the model as it is. More rows than --batch are sent in several requests: metrics that are
    no mean over rows, such as kappa, are left out then.
    """
    dropped = [name for name in drop.split(",") if name]
    table = Table(file, {label: "label"}, dropped, sep, encoding)
    if skip_unlabelled:
        table.skip_unlabelled(label)
    out = sys.stderr if as_json else sys.stdout
    print(f"{table.name}: {table.form}\n{described(table.columns, {label: 'label'}, dropped)}", file=out, flush=True)
    answers, headers = list[Any](), {"Content-Type": "text/csv; charset=utf-8"}
    with service.session() as session:
        for part in table.batches(batch, limit):
            path, params = path_of(model, "evaluate"), {"label": label}
            try:
                answers.append(session.ask("POST", path, params=params, headers=headers, content=part.body))
            except Refused as refused:
                last = part.first + len(part.lines) - 1
                raise Failed(f"rows {part.first} to {last}: {refused.told(part.located(refused.errors))}") from None
    found = {"model": model, **combined(answers)}
    if as_json:
        print(json.dumps(found))
        return
    versions = " to ".join(map(str, dict.fromkeys((answers[0]["version"], answers[-1]["version"]))))
    print(f"\n{model}, version {versions}: {counted(found['rows'])} scored, none learned")
    print(grid([(name, f"{value:.6g}") for name, value in found["metrics"].items() if value is not None]))


def combined(answers: Sequence[Any]) -> dict[str, Any]:
    """The answers to the parts of a file as one; of several only the ``MEANS``, weighted by rows with a prediction."""
    first, last = answers[0], answers[-1]
    rows, unscored = (sum(one["metrics"].get(name, 0) for one in answers) for name in ("rows", "unscored"))
    metrics = {**first["metrics"], "rows": rows}
    if len(answers) > 1:
        metrics = {"rows": rows} | ({"unscored": unscored} if "unscored" in first["metrics"] else {})
        for name in (name for name in MEANS if name in first["metrics"]):
            parts = [(one["metrics"], one["metrics"][name]) for one in answers if one["metrics"][name] is not None]
            sizes = [one["rows"] - one.get("unscored", 0) for one, _ in parts]
            total = sum(size * value for size, (_, value) in zip(sizes, parts, strict=True))
            metrics[name] = total / sum(sizes) if parts else None
    return {"rows": rows, "metrics": metrics, "version": last["version"]}
