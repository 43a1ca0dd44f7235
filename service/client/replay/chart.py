"""The chart: prequential scores over the rows, by matplotlib, the extra onepass[replay]."""

import textwrap
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

GREY, SIZE_INCHES, DPI, TITLE_CHARACTERS = "0.43", (10.0, 5.4), 160, 78
LOG_FROM = 30.0  # ratio of the largest to the smallest error from which the axis is logarithmic
WARM_UP = 0.02  # share of the first rows that the limits of the axis ignore
LABELS = {"accuracy": "prequential accuracy", "mse": "prequential squared error", "mean_cost": "mean cost of an answer"}

Curve = Sequence[tuple[int, float | None]]
"""Points of a number of rows and the score over the last rows at that time."""


def lacking() -> str | None:
    """What is missing for a chart: matplotlib, if it is not installed; None if nothing is."""
    return None if find_spec("matplotlib") else "a chart needs matplotlib: pip install '.[replay]' in a checkout"


def write(
    path: Path,
    title: Sequence[str],
    measure: str,
    curves: Mapping[str, Curve],
    known: Mapping[str, Curve],
    marks: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Draw a chart and save it; the suffix of the path, .svg or .png, decides the format.

    The title has a second line in smaller letters. Known curves are those of baselines; marks are a model's drifts and
    switches.
    """
    import matplotlib as mpl  # noqa: PLC0415  an extra, which takes long to import
    from cycler import cycler  # noqa: PLC0415
    from matplotlib import style  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Colours that colour-blind readers can tell apart; names may look like formulas.
    with style.context(["petroff10", {"text.parse_math": False, "lines.linewidth": 1.6}]):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.set_prop_cycle(cycler(linestyle=["-", "--", ":", "-."]) * mpl.rcParams["axes.prop_cycle"])
        for name, curve in chain(curves.items(), known.items()):
            look: dict[str, Any] = {"color": GREY, "linestyle": ":"} if name in known else {}
            axes.plot(*zip(*curve, strict=True), marker="o" if len(curve) == 1 else None, label=name, **look)
        for colour, kind in enumerate(dict.fromkeys(mark["kind"] for mark in marks), 3):
            at_rows, across = [mark["row"] for mark in marks if mark["kind"] == kind], axes.get_xaxis_transform()
            axes.vlines(at_rows, 0, 1, f"C{colour}", alpha=0.6, transform=across, label=f"{kind} ({len(at_rows)})")
        last = max((row for curve in curves.values() for row, _ in curve), default=1)
        points = chain.from_iterable([*curves.values(), *known.values()])
        shown = [value for row, value in points if value is not None and row >= WARM_UP * last] or [0.0]
        low, high = min(shown), max(shown)
        if measure == "mse" and high > LOG_FROM * low > 0:
            axes.set_yscale("log")
        else:
            room = max(0.06 * (high - low), 0.005)
            axes.set_ylim(max(low - room, -room / 4), high + room)
        axes.yaxis.set_major_formatter("{x:.0%}" if measure == "accuracy" else "{x:.4g}")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set(xlim=(0, max(last, 1)), xlabel="rows", ylabel=LABELS[measure])
        axes.grid(axis="y", color="0.85")
        axes.spines[["top", "right"]].set_visible(False)
        axes.text(0, 1.02, title[1], transform=axes.transAxes, fontsize=9.5, color=GREY)
        axes.set_title(textwrap.fill(title[0], TITLE_CHARACTERS), loc="left", pad=28, fontsize=13, fontweight="bold")
        # Below the axes: anywhere inside, the curves of some stream would run through it.
        figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8.5, columnspacing=1.5)
        figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
