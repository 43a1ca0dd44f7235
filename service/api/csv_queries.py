"""How CSV is read, as query parameters in /openapi.json; ``csv_tables`` reads them."""

from typing import Annotated

from fastapi import Query

from service.api.context import Text


async def csv_form(
    delimiter: Annotated[
        Text | None,
        Query(description="text/csv only: one character between cells, or `tab`; a comma where nothing is said."),
    ] = None,
    drop: Annotated[
        Text | None,
        Query(description="text/csv only: columns to pass over, separated by commas (names with one: quoted)."),
    ] = None,
) -> None:
    """The queries that every route of tables has."""
