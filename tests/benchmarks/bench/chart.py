"""All tables as one SVG of bars, readable on light and dark ground."""

from collections.abc import Iterator, Sequence
from html import escape

from tests.benchmarks.bench.table import Row, Table, number

WIDTH, LEFT, RIGHT = 1040, 310, 250
LINE, HEAD, GAP = 20, 46, 22
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 } .title { font-size: 15px; font-weight: 600 }
  .note { fill: #666 } .bar { fill: #0072b2 } .missed { fill: #d55e00 } .plain { fill: #8c8c8c }
  .target { stroke: #222; stroke-width: 2 } .ground { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e6 } .note { fill: #aaa } .bar { fill: #56b4e9 } .missed { fill: #e69f00 }
    .plain { fill: #777 } .target { stroke: #e6e6e6 } .ground { fill: #16181c }
  }
"""


def svg(tables: Sequence[Table], caption: str) -> str:
    """The chart: a panel per table, a bar per figure, of one scale per panel and unit; a stroke where its target is."""
    parts = [_text(16, 24, f"{caption}; a stroke is a target, orange a figure that misses it", "note")]
    y = 34.0
    for table in tables:
        if table.rows:
            parts += _panel(table, y)
            y += HEAD + LINE * len(table.rows) + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" role="img" aria-label="Benchmarks">'
        f'<style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{y:.0f}"/>'
    )
    return "\n".join((head, *parts, "</svg>", ""))


def _panel(table: Table, y: float) -> Iterator[str]:
    yield _text(16, y + 18, table.title, "title")
    yield _text(16, y + 36, table.note, "note")
    most = {unit: _most(table.rows, unit) for unit in {row.unit for row in table.rows}}
    for at, row in enumerate(table.rows):
        yield from _bar(row, most[row.unit], y + HEAD + LINE * at)


def _bar(row: Row, most: float, y: float) -> Iterator[str]:
    room = WIDTH - LEFT - RIGHT
    kind = {None: "plain", True: "bar", False: "missed"}[row.reached]
    yield _text(LEFT - 10, y + 14, row.what, anchor="end")
    length, target = room * row.value / most, _target(row)
    yield f'<rect class="{kind}" x="{LEFT}" y="{y + 4:.0f}" width="{length:.1f}" height="12" rx="2"/>'
    if target is not None:
        x = LEFT + room * target / most
        yield f'<line class="target" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1:.0f}" y2="{y + 19:.0f}"/>'
    told = f"{number(row.value)} {row.unit}"
    yield _text(LEFT + room + 12, y + 14, told if row.ratio is None else f"{row.ratio:.2f} of {row.against}, {told}")


def _target(row: Row) -> float | None:
    """The target in the row's unit: that of a ratio by what the ratio is to."""
    if row.target is None or row.ratio is None:
        return row.target
    return row.target * row.value / row.ratio


def _most(rows: Sequence[Row], unit: str) -> float:
    return max(max(row.value, _target(row) or 0.0) for row in rows if row.unit == unit) or 1.0


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>'
