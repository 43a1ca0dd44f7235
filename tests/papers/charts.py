"""Lines as small SVG drawings, readable on light and dark backgrounds, and the figures that contain them."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM, POINTS_MAX = 720, 300, 64, 16, 180, 40, 400
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.axis{stroke:#888;fill:none}.ground{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.ground{fill:#16181c}}"
)


class Line(NamedTuple):
    """A series; a dashed one is a bound."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


class Figure(NamedTuple):
    """A repeated figure of a paper, or a bound next to the measured values.

    Attributes:
        holds: whether the bound held; None if the figure has no bound.
        note: what it shows, and where an assumption fails.
    """

    key: str
    title: str
    lines: Sequence[Line]
    x: str
    y: str
    note: str
    log: bool = False
    holds: bool | None = None


def svg(figure: Figure) -> str:
    """The drawing; at most 400 points of a long series are drawn."""
    lines = [_thinned(line) for line in figure.lines]
    xs = [x for line in lines for x in line.x]
    ys = [_scaled(y, figure.log) for line in lines for y in line.y]
    x0, x1, y0, y1 = *_ends(xs), *_ends(ys)

    def at(x: float, y: float) -> str:
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return f"{across:.1f},{TOP + (y1 - y) / (y1 - y0) * (HEIGHT - TOP - BOTTOM):.1f}"

    parts = [f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>']
    parts.append(f'<path class="axis" d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    for share in (0.0, 0.5, 1.0):
        x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        parts.append(_text(LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM + 16, f"{x:.4g}", "middle"))
        label = f"{10**y if figure.log else y:.3g}"
        parts.append(_text(LEFT - 6, TOP + (1 - share) * (HEIGHT - TOP - BOTTOM) + 4, label, "end"))
    parts.append(_text((WIDTH - RIGHT + LEFT) / 2, HEIGHT - 6, figure.x, "middle"))
    parts.append(_text(LEFT + 6, TOP + 4, figure.y + (" (log)" if figure.log else "")))
    for k, line in enumerate(lines):
        points = " ".join(at(x, _scaled(y, figure.log)) for x, y in zip(line.x, line.y, strict=True))
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        colour = COLOURS[k % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"{dash} points="{points}"/>')
        y = TOP + 20 + 18 * k
        parts.append(f'<path stroke="{colour}" stroke-width="2"{dash} d="M{WIDTH - RIGHT + 8},{y - 4}h20"/>')
        parts.append(_text(WIDTH - RIGHT + 34, y, line.name))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(figure.title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'


def _thinned(line: Line) -> Line:
    step = math.ceil(len(line.x) / POINTS_MAX)
    return line._replace(x=list(line.x)[::step], y=list(line.y)[::step])


def _scaled(y: float, log: bool) -> float:
    return math.log10(max(y, 1e-12)) if log else float(y)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
