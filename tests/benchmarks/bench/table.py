"""Tables of figures: printed as lines, written as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass
class Row:
    """One figure.

    Attributes:
        what: is measured.
        values: of every round, in ``unit``.
        unit: of the values.
        ratios: of the same rounds, to ``against``; empty where there is nothing beside it.
        against: what the ratios are to.
        target: of the ratio, or of the value where there is none; None: reported only.
        at_most: whether the target is an upper bound.
        more: what else is known, as text.
    """

    what: str
    values: Sequence[float]
    unit: str
    ratios: Sequence[float] = ()
    against: str = ""
    target: float | None = None
    at_most: bool = False
    more: str = ""

    @property
    def value(self) -> float:
        """Median over the rounds."""
        return median(self.values)

    @property
    def ratio(self) -> float | None:
        """Likewise."""
        return median(self.ratios) if self.ratios else None

    @property
    def compared(self) -> float:
        """What the target is about: the ratio, or the value."""
        ratio = self.ratio
        return self.value if ratio is None else ratio

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None:
            return None
        return self.compared <= self.target if self.at_most else self.compared >= self.target


@dataclass
class Table:
    """Figures of one kind.

    Attributes:
        title, note: what they are, and how they were taken.
        rows: the figures.
        missing: what could not be measured, and why.
        remarks: what a reader has to know beside the figures.
    """

    title: str
    note: str
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print it."""
        print(f"\n{self.title}\n  {self.note}")
        for row in self.rows:
            print("  " + line(row), flush=True)
        for remark in self.remarks:
            print(f"  {remark}", flush=True)
        for each in self.missing:
            print(f"  NOT MEASURED  {each}", flush=True)

    def to_json(self) -> dict[str, Any]:
        """All of it, with the medians."""
        found = asdict(self)
        for row, told in zip(self.rows, found["rows"], strict=True):
            told |= {"value": row.value, "ratio": row.ratio, "reached": row.reached}
        return found


def line(row: Row) -> str:
    """A figure, its ratio with the range over the rounds, and the target."""
    ratio = ""
    if row.ratio is not None:
        ratio = f"{row.ratio:6.2f} of {row.against} ({min(row.ratios):.2f} to {max(row.ratios):.2f})"
    target = "" if row.target is None else f"{'at most' if row.at_most else 'at least'} {number(row.target)}"
    verdict = {None: "", True: "reached", False: "MISSED"}[row.reached]
    return f"{row.what:44}{number(row.value):>9} {row.unit:8}{ratio:40}{target:18}{verdict:9}{row.more}".rstrip()


def number(value: float) -> str:
    """A number with three digits that count, or with all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
