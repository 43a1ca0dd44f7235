"""Answers as CSV, for spreadsheets: ``?format=csv`` on routes that answer with lists; ``part`` picks one of several.

The first line names the columns. Text that spreadsheets would take for a formula (it begins with =, +, -, @, a tab or
a carriage return) has an apostrophe in front; numbers are written as they are, what is null is empty. A list that goes
on names its next ``cursor`` in the header ``Onepass-Next``.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query
from starlette.responses import Response

from core.problems import Invalid
from service.api.media import CSV
from service.runtime.threads import in_thread_if_large

Format = Annotated[Literal["json", "csv"], Query(alias="format", include_in_schema=False)]
"""How a list is answered. Clients that are generated from /openapi.json read JSON: a second media type would make the
type of every answer a union with text. So the descriptions of the routes tell of it, and the README."""
Span = Literal["overall", "window", "fading"]
Part = Literal["history", "marks", "per_class", "confusion", "reliability", "experts"]
Row = Sequence[Any]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
NEXT = "Onepass-Next"
_decode = msgspec.json.Decoder().decode


async def csv_answer(document: bytes, rows: Callable[[Any], Iterable[Row]], name: str) -> Response:
    """A document as a table.

    Args:
        document: its JSON.
        rows: the table of it: the names of the columns, then its rows.
        name: of the file.

    Raises:
        Invalid: the document has no such table.
    """
    text, following = await in_thread_if_large(len(document), _table, document, rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    if following is not None:
        headers[NEXT] = following
    return Response(text, headers=headers, media_type=f"{CSV}; charset=utf-8; header=present")


def _table(document: bytes, rows: Callable[[Any], Iterable[Row]]) -> tuple[str, str | None]:
    found, out = _decode(document), io.StringIO()
    writer = csv.writer(out)
    writer.writerows([guarded(cell) for cell in row] for row in rows(found))
    return out.getvalue(), found.get("next")


def guarded(cell: Any) -> Any:
    """A cell as it is written."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dict | list):
        return guarded(msgspec.json.encode(cell).decode())
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def items(key: str, columns: Sequence[str]) -> Callable[[Mapping[str, Any]], Iterable[Row]]:
    """The table of a list of objects.

    Args:
        key: of the list in its document.
        columns: the fields that are shown; a dot leads into an object.
    """

    def rows(document: Mapping[str, Any]) -> Iterable[Row]:
        yield [column.replace(".", "_") for column in columns]
        for item in document[key]:
            yield [_field(item, column.split(".")) for column in columns]

    return rows


def _field(item: Any, path: Sequence[str]) -> Any:
    for name in path:
        item = None if item is None else item.get(name)
    return item


DRIFT = items(
    "events",
    ("id", "time", "version", "row", "kind", "class", "challenger", "action", "held_back", "before", "after",
     "epsilon_cut", "windows.before", "windows.after", "alarm_count", "features"),
)  # fmt: skip
LOG = items("entries", ("version", "time", "kind", "rows", "writer"))
PENDING = items("pending", ("prediction_id", "prediction", "version", "expires"))
SNAPSHOTS = items("snapshots", ("version", "rows", "bytes", "time"))
CHALLENGERS = items(
    "challengers",
    ("name", "config.algorithm", "promote", "since_version", "rows", "difference.mean", "difference.low",
     "difference.high", "difference.confidence", "difference.rows"),
)  # fmt: skip
MODELS = items(
    "models",
    ("name", "algorithm", "task", "version", "rows", "score", "baseline", "phase", "updated", "drift.row", "drift.time",
     "drift.kind", "drift.class", "challengers", "ahead", "rows_per_s",
     "mean_cost", "baseline_cost", "paired_score"),
)  # fmt: skip


def metrics_table(part: Part, span: Span) -> Callable[[Mapping[str, Any]], Iterable[Row]]:
    """The table of a part of a model's metrics.

    Args:
        part: which one.
        span: of ``per_class``, ``confusion`` and ``reliability``: over which rows.
    """

    def rows(document: Mapping[str, Any]) -> Iterable[Row]:
        scores = document[span]
        found = {**{name: scores.get(name) for name in _OF_SPAN}, "experts": document["learner"].get("experts")}
        there = [name for name, value in found.items() if value is not None]
        if part in found and part not in there:
            raise Invalid.of("part", "is nothing that this model has", ["history", "marks", *there])
        if part == "confusion":
            return _confusion(found[part])
        if part == "per_class":
            return _objects([{"label": label, **own} for label, own in found[part].items()], ("label",))
        return _objects(found[part] if part in found else document[part], ("row",) if part in document else ())

    return rows


_OF_SPAN = ("per_class", "confusion", "reliability")


def _objects(listed: Sequence[Mapping[str, Any]], first: Sequence[str]) -> Iterable[Row]:
    """Objects that may differ in their fields, in the order in which these occur."""
    columns = list(dict.fromkeys([*first, *(name for item in listed for name in item)]))
    return [columns, *([item.get(name) for name in columns] for item in listed)]


def _confusion(found: Mapping[str, Any]) -> Iterable[Row]:
    """Labels down, answers across."""
    labels = found["labels"]
    return [["label", *labels], *([label, *counts] for label, counts in zip(labels, found["counts"], strict=True))]
