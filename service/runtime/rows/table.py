"""The rows of a request as they were read, in any format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from core.problems import Invalid, Problem
from service.errors import TooLarge

FieldPath = Callable[[int], str]
"""How errors name one item of a list, from its index."""
RowPlace = Callable[[int, str], str]
"""How errors name a member of a row, from the row's index: ``rows[3].label``; the row itself if the member is ""."""


def alone(_: int, member: str) -> str:
    """The place of a member of a single row: ``label``."""
    return member


def listed(row: int, member: str) -> str:
    """The place of a member of a row if the members of all rows are in one list: ``labels[3]``."""
    return f"{plural(member)}[{row}]"


def plural(member: str) -> str:
    """The name of the list with a member of every row."""
    return member if member == "served" else f"{member}s"


class Table(NamedTuple):
    """The rows of a request as they were read, before they are checked against a model."""

    # rows by name (dicts); rows of JSON values or of CSV texts, with ``columns``; an array (n, columns), the label last
    # if there are labels; or sparse rows: objects with ``names`` and ``values``, or lines of SVMlight
    rows: Any
    # how errors name the members of a row; ``alone`` if the request is a single row by name
    place: RowPlace = listed
    # names of the columns; None for arrays (they are in schema order), rows by name and sparse rows
    columns: Sequence[str] | None = None
    texts: bool = False  # whether cells are texts
    # labels, ids, discounts, weights: one per row, as the client gave them; or None
    labels: Sequence[Any] | None = None
    ids: Sequence[str | int] | None = None
    discounts: Sequence[Any] | None = None
    weights: Sequence[Any] | None = None
    interval: object = None  # the requested level of the intervals, as it was sent; or None
    # predictions of a model outside Onepass, one per row (None: it has none); or None
    served: Sequence[Any] | None = None
    track: bool | None = None  # whether the rows are to be kept until their labels come; None: the body does not say

    @property
    def by_name(self) -> bool:
        """Whether its rows are given by name."""
        return isinstance(self.rows, list) and isinstance(self.rows[0], dict)

    def path(self, member: str) -> FieldPath:
        """How errors name a member of each row."""
        return lambda row: self.place(row, member)

    def first_names(self) -> tuple[Sequence[str] | Mapping[str, Any] | None, str]:
        """The names of the columns or of the first row, None if there are none; and how errors name them."""
        if self.by_name:
            return self.rows[0], self.place(0, "features")
        return self.columns, "header" if self.texts else "columns"

    def first_values(self) -> tuple[Sequence[Any] | None, Callable[[int, str], str]]:
        """The values of the first row, None if it does not fit the columns; and how errors name one."""
        first = self.rows[0]
        if self.by_name:
            return [*first.values()], lambda _, name: self.place(0, f"features.{name}")
        values = first if isinstance(first, list | tuple) and len(first) == len(self.columns or ()) else None
        if self.texts:
            return values, lambda _, name: f"row 1, column {name}"
        return values, lambda at, _: f"data[0][{at}]"


def check_size(rows: int, most: int, field: str = "data", of: str = "") -> None:
    """Refuse an empty batch, and one of more than ``most`` rows (413); ``of`` says which rows the bound is for."""
    if rows == 0:
        raise Invalid.of(field, "has no rows", ">= 1 row")
    if rows > most:
        raise TooLarge(
            f"the batch has more than {most} rows{of}", [Problem(field, "has too many rows", f"<= {most} rows")]
        )
