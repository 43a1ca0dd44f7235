"""The queries of tables for /openapi.json; the readers of tables read them directly."""

from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import Depends, Query

from service.api.http.context import Text
from service.api.rows import interval, tracking

_READ_ELSEWHERE = {
    "label": Query(
        description="text/csv only: the column of the label.",
        openapi_examples={
            "none": {"summary": "application/json and the others: none", "value": None},
            "csv": {"summary": "text/csv: the column", "value": "class"},
        },
    ),
    "id": Query(description="text/csv only: the column of the id."),
    "discount": Query(description="text/csv only: the column of the discount."),
    "weight": Query(description="text/csv only: the column of the weight."),
    "served": Query(description="text/csv only: the column of what a model outside Onepass predicted."),
    "delimiter": Query(description="text/csv only: the character between cells, or `tab`. Default: a comma."),
    "drop": Query(description="text/csv only: columns to ignore, separated by commas (quote names that contain one)."),
    tracking.QUERY: Query(description="`true` keeps the rows for their labels; for bodies that cannot hold `track`."),
    interval.QUERY: Query(
        description=f"Intervals of a regression, {interval.ALLOWED}; for bodies that cannot hold `interval`."
    ),
}


def described(*names: str) -> Any:
    """A dependency that documents queries in /openapi.json; their endpoint reads them directly."""

    async def queries(**_: str | None) -> None:
        """Does nothing: the reader of the body reads the queries."""

    kinds = {name: Annotated[Text | None, _READ_ELSEWHERE[name]] for name in names}
    own = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in kinds.items()]
    queries.__signature__ = Signature(own)  # type: ignore[attr-defined]
    return Depends(queries)
