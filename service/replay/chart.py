"""The chart: prequential scores of the model over the rows, and of the baselines."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray

from service.replay.report import compared

Floats = NDArray[np.float64]

# Okabe and Ito's palette: distinguishable by colour-blind readers.
MODEL, NO_MODEL, FLAT, INK = "#0072B2", "#D55E00", "#6E6E6E", "#222222"
MARKS = {"drift": "#CC79A7", "switch": "#009E73", "reset": "#E69F00"}
OTHER_MARK, GREY = "#56B4E9", "#555555"
SIZE_INCHES, DPI = (10.0, 5.4), 160
LOG_FROM = 30.0
"""Errors whose largest is this factor above the smallest are drawn on a logarithmic axis."""
TITLE_CHARACTERS = 78
MANY = 20
"""More marks of one kind than this are drawn faintly."""
WARM_UP = 0.02
"""Share of the rows, at the beginning, that is ignored when the axis limits are chosen."""


def write(path: Path, title: str, metrics: dict[str, Any], task: str, rows_before: int = 0) -> None:
    """Draw and save; the suffix decides the format.

    Args:
        path: ends in .svg or .png.
        title: the first line.
        metrics: as GET /models/{name}/metrics answers.
        task: "classification" or "regression".
        rows_before: rows that the model had learned before this replay.

    Raises:
        OSError: it cannot be written.
    """
    regression = task == "regression"
    score, known = ("mse", "last_value") if regression else ("accuracy", "no_change")
    curves, majority = points(metrics, score, known), metrics["baselines"].get("majority", {}).get("accuracy")
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    _draw(axes, curves, f"last {metrics['window']['size']:,} rows", known.replace("_", " "), regression)
    flat = [] if regression or majority is None else [majority]
    for share in flat:
        axes.axhline(share, color=FLAT, linewidth=1.3, linestyle=(0, (1, 1.5)), label="majority, all rows")
    _marks(axes, metrics["marks"], rows_before)
    scale(axes, curves, flat, regression)
    _title(axes, title, metrics, score)
    # Below the axes: wherever it lay inside, one stream or another would run through it.
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8.5, columnspacing=1.5)
    figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def points(metrics: dict[str, Any], score: str, known: str) -> Floats:
    """History and present state as (4, n): rows; the model's score over the last rows and over all rows; the score over
    the last rows of the baseline that repeats the last label. NaN where a score is undefined. Errors of the model are
    of the rows that the baseline predicted too, where that is known.
    """
    own, baseline = (compared(metrics, span)[score] for span in ("window", "overall")), metrics["window"]["baselines"]
    now = metrics["rows"], *own, baseline[known][score]
    past = [_of_point(point, score, known) for point in metrics["history"] if point["row"] < metrics["rows"]]
    return np.array([*past, now], dtype=float).T


def _of_point(point: dict[str, Any], score: str, known: str) -> list[float | None]:
    """The same of a point of the history."""
    last, overall = point.get("paired"), point.get("paired_overall")
    own = [point[score] if last is None else last, point["overall"] if overall is None else overall]
    return [point["row"], *own, point[known]]


def _draw(axes: Axes, points: Floats, window: str, known: str, regression: bool) -> None:
    """The curves; the area between model and baseline has the colour of the better one."""
    rows, model, overall, baseline = points
    better, dot = (model < baseline) == regression, "o" if len(rows) == 1 else None
    for where, colour, alpha in ((better, MODEL, 0.10), (~better, NO_MODEL, 0.14)):
        axes.fill_between(rows, model, baseline, where=where, interpolate=True, color=colour, alpha=alpha, linewidth=0)
    axes.plot(rows, model, color=MODEL, linewidth=1.9, zorder=3, marker=dot, label=f"model, {window}")
    axes.plot(rows, overall, color=INK, linewidth=1.3, linestyle=(0, (5, 2)), zorder=4, label="model, all rows so far")
    axes.plot(rows, baseline, color=NO_MODEL, linewidth=1.1, marker=dot, label=f"{known}, {window}")


def _marks(axes: Axes, marks: Sequence[dict[str, Any]], rows_before: int) -> None:
    """A line for each mark; one entry of the legend for each kind."""
    for kind in dict.fromkeys(mark["kind"] for mark in marks):
        rows = [mark["row"] for mark in marks if mark["kind"] == kind]
        label = f"{kind} ({len(rows)})" if len(rows) > 1 else kind
        colour, alpha = MARKS.get(kind, OTHER_MARK), 0.9 if len(rows) <= MANY else 0.4
        for at, row in enumerate(rows):
            axes.axvline(row, color=colour, linewidth=1.4, alpha=alpha, zorder=1, label=None if at else label)
    if rows_before:
        axes.axvline(rows_before, color=FLAT, linewidth=1.0, zorder=1, label="this replay begins")


def scale(axes: Axes, points: Floats, flat: Sequence[float], regression: bool) -> None:
    """Limits, labels, grid and formats of both axes.

    Args:
        axes: with the curves.
        points: rows and curves (k, n), in the order of the rows or those of one algorithm after the other.
        flat: heights of horizontal lines.
        regression: whether these are errors.
    """
    rows = points[0]
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    label = "prequential squared error" if regression else "prequential accuracy"
    axes.set(xlim=(0, max(rows[-1], 1)), xlabel="rows", ylabel=label)
    shown = np.append(points[1:, rows >= rows[-1] * WARM_UP], flat)
    (_errors if regression else _shares)(axes, shown[~np.isnan(shown)])
    axes.grid(axis="y", color="#D9D9D9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", which="both", length=0)


def _shares(axes: Axes, values: Floats) -> None:
    low, high = values.min(initial=1.0), values.max(initial=0.0)
    room = max(0.06 * (high - low), 0.005)
    edge = room / 4  # shows a curve at 0 or 1 without extending the axis to -5% or 105%
    axes.set_ylim(max(low - room, -edge), min(high + room, 1 + edge))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _errors(axes: Axes, values: Floats) -> None:
    positive = values[values > 0]
    if positive.size and positive.max() > LOG_FROM * positive.min():
        axes.set_yscale("log")
        axes.set_ylim(positive.min() / 1.3, positive.max() * 1.3)
    else:
        axes.set_ylim(0, 1.08 * values.max(initial=0.0) or 1.0)


def _title(axes: Axes, title: str, metrics: dict[str, Any], score: str) -> None:
    """Two lines above the axes, aligned left: the title, and the overall scores."""
    baselines = {name.replace("_", " "): each[score] for name, each in metrics["baselines"].items()}
    known = {"model": compared(metrics, "overall")[score], **baselines}
    form, said = ("{:.4g}", "mean squared error") if score == "mse" else ("{:.1%}", "accuracy")
    shown = {name: value for name, value in known.items() if value is not None}
    figures = ", ".join(f"{name} {form.format(value)}" for name, value in shown.items())
    came = f"{metrics['rows']:,} rows, each predicted before its label was known.  Overall {said}: {figures}"
    headed(axes, title, came)


def headed(axes: Axes, title: str, below: str) -> None:
    """The title, and a line of smaller letters below it."""
    axes.text(0, 1.02, below, transform=axes.transAxes, fontsize=9.5, color=GREY)
    first = textwrap.fill(title, TITLE_CHARACTERS)
    axes.set_title(first, loc="left", pad=28, fontsize=13, fontweight="bold", color=INK, parse_math=False)
