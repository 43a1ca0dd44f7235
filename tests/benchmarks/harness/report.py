"""Tables of figures: printed as lines, written as JSON."""

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any


@dataclass
class Row:
    """One figure: its values in every round, and their ratios to what they were measured beside, if to anything.

    The target is of the ratio, or of the value where there is none; a figure without a target is reported only.
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
    def reached(self) -> bool | None:
        """Whether the ratio, or the value, reaches the target; None where there is none."""
        if self.target is None:
            return None
        compared = self.value if self.ratio is None else self.ratio
        return compared <= self.target if self.at_most else compared >= self.target

    def __str__(self) -> str:
        """A line: the figure, its ratio with the range over the rounds, and the target."""
        ratio = ""
        if self.ratio is not None:
            ratio = f"{self.ratio:6.2f} of {self.against} ({min(self.ratios):.2f} to {max(self.ratios):.2f})"
        target = "" if self.target is None else f"{'at most' if self.at_most else 'at least'} {number(self.target)}"
        verdict = {None: "", True: "reached", False: "MISSED"}[self.reached]
        figure = f"{self.what:44}{number(self.value):>9} {self.unit:8}"
        return f"{figure}{ratio:40}{target:18}{verdict:9}{self.more}".rstrip()


@dataclass
class Table:
    """Figures of one kind, and what a reader has to know beside them; what could not be measured is a remark."""

    title: str
    note: str
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print it."""
        print("\n  ".join((f"\n{self.title}", self.note, *map(str, self.rows), *self.remarks)), flush=True)

    def to_json(self) -> dict[str, Any]:
        """All of it, with the medians."""
        found = asdict(self)
        for row, told in zip(self.rows, found["rows"], strict=True):
            told |= {"value": row.value, "ratio": row.ratio, "reached": row.reached}
        return found


class Report:
    """The tables of a run, shown as they come, and the machine they were taken on."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self._begun, self._load = time.monotonic(), os.getloadavg()[0]

    def add(self, table: Table) -> None:
        """Show a table, and keep it."""
        table.show()
        self.tables.append(table)

    def write(self, folder: Path, name: str, **more: Any) -> None:
        """Write NAME.json."""
        machine = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "cores": os.cpu_count(), "load_before": self._load,
            "system": platform.platform(), "python": platform.python_version(),
            "seconds": round(time.monotonic() - self._begun),
        }  # fmt: skip
        caption = "{at}: {cores} cores, Python {python}, load {load_before:.1f} before, taken in {seconds} s"
        folder.mkdir(parents=True, exist_ok=True)
        whole = {"machine": machine, "tables": [table.to_json() for table in self.tables], **more}
        (folder / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")
        print(f"\n{caption.format(**machine)}\n{folder / name}.json")


def say(what: str) -> None:
    """Progress."""
    print(f"  ... {what}", file=sys.stderr, flush=True)


def at(connections: int) -> str:
    """What a figure's name ends with."""
    return f", {connections} connection{'s' if connections > 1 else ''}"


def number(value: float) -> str:
    """A number with three digits that count, or with all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
