"""Tables of figures: printed as lines, written as JSON and as one SVG of bars, readable on light and dark ground."""

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

WIDTH, LEFT, RIGHT, LINE, HEAD, GAP = 1040, 310, 250, 20, 46, 22
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 } .title { font-size: 15px; font-weight: 600 }
  .note { fill: #666 } .bar { fill: #0072b2 } .missed { fill: #d55e00 } .plain { fill: #8c8c8c }
  .target { stroke: #222; stroke-width: 2 } .ground { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e6 } .note { fill: #aaa } .bar { fill: #56b4e9 } .missed { fill: #e69f00 }
    .plain { fill: #777 } .target { stroke: #e6e6e6 } .ground { fill: #16181c }
  }
"""


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
        """Write NAME.json and NAME.svg."""
        machine = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "cores": os.cpu_count(), "load_before": self._load,
            "system": platform.platform(), "python": platform.python_version(),
            "seconds": round(time.monotonic() - self._begun),
        }  # fmt: skip
        caption = "{at}: {cores} cores, Python {python}, load {load_before:.1f} before, taken in {seconds} s"
        folder.mkdir(parents=True, exist_ok=True)
        whole = {"machine": machine, "tables": [table.to_json() for table in self.tables], **more}
        (folder / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")
        (folder / f"{name}.svg").write_text(svg(self.tables, caption.format(**machine)))
        print(f"\n{caption.format(**machine)}\n{folder / name}.json and .svg")


def say(what: str) -> None:
    """Progress."""
    print(f"  ... {what}", file=sys.stderr, flush=True)


def at(connections: int) -> str:
    """What a figure's name ends with."""
    return f", {connections} connection{'s' if connections > 1 else ''}"


def number(value: float) -> str:
    """A number with three digits that count, or with all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# ---------------------------------------------------------------- the chart


def svg(tables: Sequence[Table], caption: str) -> str:
    """A panel per table, a bar per figure, of one scale per panel and unit; a stroke where its target is."""
    parts, y = [_text(16, 24, f"{caption}; a stroke is a target, orange a figure that misses it", "note")], 34
    for table in tables:
        if table.rows:
            parts += _panel(table, y)
            y += HEAD + LINE * len(table.rows) + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" aria-label="Benchmarks">'
        f'<style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{y}"/>'
    )
    return "\n".join((head, *parts, "</svg>", ""))


def _panel(table: Table, y: int) -> Iterator[str]:
    yield _text(16, y + 18, table.title, "title")
    yield _text(16, y + 36, table.note, "note")
    most: dict[str, float] = {}
    for row in table.rows:
        most[row.unit] = max(most.get(row.unit, 1e-9), row.value, _target(row) or 0.0)
    for at, row in enumerate(table.rows):
        yield from _bar(row, (WIDTH - LEFT - RIGHT) / most[row.unit], y + HEAD + LINE * at)


def _bar(row: Row, scale: float, y: int) -> Iterator[str]:
    kind, target = {None: "plain", True: "bar", False: "missed"}[row.reached], _target(row)
    yield _text(LEFT - 10, y + 14, row.what, anchor="end")
    yield f'<rect class="{kind}" x="{LEFT}" y="{y + 4}" width="{scale * row.value:.1f}" height="12" rx="2"/>'
    if target is not None:
        x = LEFT + scale * target
        yield f'<line class="target" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + 19}"/>'
    told = f"{number(row.value)} {row.unit}"
    told = told if row.ratio is None else f"{row.ratio:.2f} of {row.against}, {told}"
    yield _text(WIDTH - RIGHT + 12, y + 14, told)


def _target(row: Row) -> float | None:
    """The target in the row's unit: that of a ratio by what the ratio is to."""
    if row.target is None or row.ratio is None:
        return row.target
    return row.target * row.value / row.ratio


def _text(x: int, y: int, text: str, kind: str = "plain-text", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
