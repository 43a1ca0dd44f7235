"""Lines as SVG drawings by matplotlib, readable on light and dark backgrounds, and the figures that contain them."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib import figure as mpl
from matplotlib import style

GREY, SIZE_INCHES = "0.5", (10.0, 4.2)
LOOK = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY),
    "text.parse_math": False,
    "svg.fonttype": "none",
    "lines.linewidth": 1.6,
}


class Line(NamedTuple):
    """A series; a dashed one is a bound."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


class Figure(NamedTuple):
    """A repeated figure of a paper, or a bound next to the measured values: ``holds`` is None if it has no bound."""

    key: str
    title: str
    lines: Sequence[Line]
    x: str
    y: str
    note: str
    log: bool = False
    holds: bool | None = None


def svg(figure: Figure) -> str:
    """The drawing, without a background of its own."""
    with style.context(["petroff10", LOOK]), io.StringIO() as drawn:
        drawing = mpl.Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = drawing.add_subplot(xlabel=figure.x, ylabel=figure.y, yscale="log" if figure.log else "linear")
        for line in figure.lines:
            axes.plot(line.x, line.y, "--" if line.dashed else "-", label=line.name)
        drawing.legend(loc="outside right upper", frameon=False)
        drawing.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
        return drawn.getvalue()
