"""Marks: at which rows something happened to a model. Bounded, and thinned out evenly where there are too many."""

from typing import Final

from core.contract import Header

MARKS_MAX: Final = 100
"""Marks kept."""
FREQUENT: Final = "drift"
"""The kind of which there may be many; others are thinned out only where none of this kind is left to be."""


class Marks:
    """The marks of one model, by row.

    Attributes:
        kept: each with ``row`` and ``kind`` at least.
        thinned: how many have been left out.
    """

    def __init__(self) -> None:
        self.kept: list[Header] = []
        self.thinned = 0

    def add(self, mark: Header) -> None:
        """One more, at the latest row. Of too many, the one goes whose neighbours are closest to each other.

        The first and the latest always stay; of equals the oldest goes.
        """
        self.kept.append(mark)
        if len(self.kept) > MARKS_MAX:
            inner = range(1, len(self.kept) - 1)
            least = [at for at in inner if self.kept[at]["kind"] == FREQUENT] or inner
            del self.kept[min(least, key=self._gap)]
            self.thinned += 1

    def _gap(self, at: int) -> int:
        """Rows between the neighbours of a mark."""
        return int(self.kept[at + 1]["row"]) - int(self.kept[at - 1]["row"])

    def to_header(self) -> Header:
        """The marks as JSON-able scalars."""
        return {"marks": [dict(mark) for mark in self.kept], "marks_thinned": self.thinned}

    @classmethod
    def from_header(cls, header: Header) -> "Marks":
        """The marks that ``to_header`` gave.

        Raises:
            ValueError: not such a header.
        """
        kept, thinned = header.get("marks"), header.get("marks_thinned")
        if not isinstance(kept, list) or len(kept) > MARKS_MAX or not all(map(_is_mark, kept)):
            raise ValueError("marks: not a list of them")
        if type(thinned) is not int or thinned < 0 or (thinned and len(kept) < MARKS_MAX):
            raise ValueError("marks_thinned: not how many were left out")
        marks = cls()
        marks.kept, marks.thinned = [dict(mark) for mark in kept], thinned
        return marks


def _is_mark(mark: object) -> bool:
    return isinstance(mark, dict) and "kind" in mark and type(mark.get("row")) is int
