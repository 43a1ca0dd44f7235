"""Drift events and the history of metrics as CSV, for spreadsheets: ``?format=csv``.

The first line names the columns. Text that spreadsheets would take for a formula (it begins with =, +, -, @, a tab or
a carriage return) gets a leading apostrophe; numbers are unchanged, null is empty. If the list continues, the header
``Onepass-Next`` holds the next ``cursor``.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query
from starlette.responses import Response

from service.api.http.media import CSV
from service.runtime.threads import in_thread_if_large

Format = Annotated[Literal["json", "csv"], Query(alias="format", include_in_schema=False)]
"""The format of a list. /openapi.json only declares JSON: a second media type would turn the type of every answer in
generated clients into a union with text. The descriptions of the routes and service/http.md mention CSV."""
Row = Iterable[Any]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
NEXT = "Onepass-Next"
_decode = msgspec.json.Decoder().decode


async def csv_answer(document: bytes, rows: Callable[[Any], Iterable[Row]], name: str) -> Response:
    """A JSON document as a table in a file of that name; ``rows`` gives the names of the columns, then the rows."""
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
    """The content of a cell: booleans in lower case, objects and lists as JSON, formulas with an apostrophe."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dict | list):
        return guarded(msgspec.json.encode(cell).decode())
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def history_table(document: Mapping[str, Any]) -> Iterable[Row]:
    """The history of a model's metrics."""
    points = document["history"]
    return [[*points[0]] if points else ["row"], *(point.values() for point in points)]


_DRIFT = (
    "id", "model", "time", "version", "row", "kind", "class", "challenger", "action", "held_back", "before", "after",
    "epsilon_cut", "windows.before", "windows.after", "alarm_count", "features",
)  # fmt: skip


def drift_table(document: Mapping[str, Any]) -> Iterable[Row]:
    """Drift events; a dot in a column name selects a field of an object."""
    yield [column.replace(".", "_") for column in _DRIFT]
    for event in document["events"]:
        yield [_field(event, column.split(".")) for column in _DRIFT]


def _field(item: Any, path: Sequence[str]) -> Any:
    for name in path:
        item = None if item is None else item.get(name)
    return item
