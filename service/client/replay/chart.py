"""The chart: prequential scores over the rows, by matplotlib, the extra onepass[replay]."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from service.client.failures import Failed

# Okabe and Ito's palette: distinguishable by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
DASHES = ((0, ()), (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
"""A colour comes again with the next of these."""
GREY, SIZE_INCHES, DPI, TITLE_CHARACTERS = "#6E6E6E", (10.0, 5.4), 160, 78
LOG_FROM = 30.0
"""Errors whose largest is this factor above the smallest are drawn on a logarithmic axis."""
WARM_UP = 0.02
"""Share of the rows, at the beginning, that is ignored when the limits are chosen."""
LABELS = {"accuracy": "prequential accuracy", "mse": "prequential squared error", "mean_cost": "mean cost of an answer"}

Curve = Sequence[tuple[int, float | None]]
"""Rows, and the score over the last rows then."""


def check() -> None:
    """See that charts can be drawn; ``Failed`` where matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise Failed("a chart needs matplotlib: pip install '.[replay]' in a checkout") from None


def write(
    path: Path,
    title: Sequence[str],
    measure: str,
    curves: Mapping[str, Curve],
    known: Mapping[str, Curve],
    marks: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Draw and save; the suffix of the path, .svg or .png, decides the format.

    The title has a second line of smaller letters. Known curves are those of baselines; marks are a model's drifts and
    switches. ``Failed`` where the file cannot be written.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, which takes long to import
    from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter  # noqa: PLC0415

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    looks = [(COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)]) for at in range(len(curves))]
    looks += [(GREY, DASHES[(1 + at) % len(DASHES)]) for at in range(len(known))]
    for (name, curve), (colour, dashes) in zip([*curves.items(), *known.items()], looks, strict=True):
        rows, values = zip(*curve, strict=True)
        dot = "o" if len(rows) == 1 else None
        numbers = [float("nan") if value is None else value for value in values]
        axes.plot(rows, numbers, color=colour, linestyle=dashes, linewidth=1.6, marker=dot, label=name, zorder=3)
    for at, kind in enumerate(dict.fromkeys(mark["kind"] for mark in marks)):
        at_rows = [mark["row"] for mark in marks if mark["kind"] == kind]
        for number, row in enumerate(at_rows):
            label = None if number else f"{kind} ({len(at_rows)})"
            axes.axvline(row, color=COLOURS[3 + at % 3], linewidth=1.2, alpha=0.6, zorder=1, label=label)
    last = max((row for curve in curves.values() for row, _ in curve), default=1)
    points = chain.from_iterable([*curves.values(), *known.values()])
    shown = [value for row, value in points if value is not None and row >= WARM_UP * last]
    positive = [value for value in shown if value > 0]
    if measure == "mse" and positive and max(positive) > LOG_FROM * min(positive):
        axes.set_yscale("log")
    elif shown:
        room = max(0.06 * (max(shown) - min(shown)), 0.005)
        axes.set_ylim(max(min(shown) - room, -room / 4), max(shown) + room)
    if measure == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set(xlim=(0, max(last, 1)), xlabel="rows", ylabel=LABELS[measure])
    axes.grid(axis="y", color="#D9D9D9", linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.text(0, 1.02, title[1], transform=axes.transAxes, fontsize=9.5, color=GREY)
    first = textwrap.fill(title[0], TITLE_CHARACTERS)
    axes.set_title(first, loc="left", pad=28, fontsize=13, fontweight="bold", parse_math=False)
    # Below the axes: wherever it lay inside, one stream or another would run through it.
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8.5, columnspacing=1.5)
    try:
        figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror or error}") from error
