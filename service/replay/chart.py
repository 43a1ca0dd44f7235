"""The chart: how good the model was as the rows went by, beside what would have been as good without one."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito's palette: told apart by people who do not see all colours.
MODEL, NO_MODEL, FLAT, INK = "#0072B2", "#D55E00", "#6E6E6E", "#222222"
MARKS = {"drift": "#CC79A7", "switch": "#009E73", "reset": "#E69F00"}
OTHER_MARK, GREY = "#56B4E9", "#555555"
SIZE_INCHES, DPI = (10.0, 5.4), 160
LOG_FROM = 30.0
"""Errors that span such a factor are drawn on a logarithmic axis."""
TITLE_CHARACTERS = 78
MANY = 20
"""More marks of a kind are drawn faintly."""
WARM_UP = 0.02
"""Part of the rows at the beginning that does not decide how far the axis reaches."""


class Curves(NamedTuple):
    """What is drawn.

    Attributes:
        rows: (n,) where the points are.
        window: (n,) the model's score over the last rows.
        overall: (n,) over all rows.
        baseline: (n,) of the baseline that repeats the last label, over the last rows.
        known: name of that baseline.
        flat: score over all rows of the baseline that says the same all the time, or None.
    """

    rows: Sequence[int]
    window: Sequence[float]
    overall: Sequence[float]
    baseline: Sequence[float]
    known: str
    flat: float | None


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
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    curves = _curves(metrics, task)
    _draw(axes, curves, metrics, task)
    _marks(axes, metrics["marks"], rows_before)
    _dress(axes, curves, metrics, task)
    _title(axes, title, metrics, task)
    figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _curves(metrics: dict[str, Any], task: str) -> Curves:
    """The history, ended by the state of now."""
    regression = task == "regression"
    score, known = ("mse", "last_value") if regression else ("accuracy", "no_change")
    now = {
        "row": metrics["rows"],
        score: metrics["window"][score],
        "overall": metrics["overall"][score],
        known: metrics["window"]["baselines"][known][score],
    }
    points = [point for point in metrics["history"] if point["row"] < now["row"]] + [now]
    window, overall, baseline = ([_number(point[name]) for point in points] for name in (score, "overall", known))
    flat = None if regression else metrics["baselines"]["majority"]["accuracy"]
    return Curves([point["row"] for point in points], window, overall, baseline, known.replace("_", " "), flat)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _draw(axes: Axes, curves: Curves, metrics: dict[str, Any], task: str) -> None:
    """The curves, and between the model and its baseline the colour of whichever is better."""
    rows, model, baseline = curves.rows, curves.window, curves.baseline
    better = [(m < b) == (task == "regression") for m, b in zip(model, baseline, strict=True)]
    worse = [not each for each in better]
    axes.fill_between(rows, model, baseline, where=better, interpolate=True, color=MODEL, alpha=0.10, linewidth=0)
    axes.fill_between(rows, model, baseline, where=worse, interpolate=True, color=NO_MODEL, alpha=0.14, linewidth=0)
    dot = "o" if len(rows) == 1 else None
    size = f"last {metrics['window']['size']:,} rows"
    axes.plot(rows, model, color=MODEL, linewidth=1.9, zorder=3, marker=dot, label=f"model, {size}")
    axes.plot(
        rows, curves.overall, color=INK, linewidth=1.3, linestyle=(0, (5, 2)), label="model, all rows so far", zorder=4
    )
    axes.plot(rows, baseline, color=NO_MODEL, linewidth=1.1, marker=dot, label=f"{curves.known}, {size}")
    if curves.flat is not None:
        axes.axhline(curves.flat, color=FLAT, linewidth=1.3, linestyle=(0, (1, 1.5)), label="majority, all rows")


def _marks(axes: Axes, marks: Sequence[dict[str, Any]], rows_before: int) -> None:
    """A line for each thing that happened; one entry of the legend for each kind."""
    for kind in dict.fromkeys(mark["kind"] for mark in marks):
        rows = [mark["row"] for mark in marks if mark["kind"] == kind]
        label = f"{kind} ({len(rows)})" if len(rows) > 1 else kind
        colour, alpha = MARKS.get(kind, OTHER_MARK), 0.9 if len(rows) <= MANY else 0.4
        for at, row in enumerate(rows):
            axes.axvline(row, color=colour, linewidth=1.4, alpha=alpha, zorder=1, label=None if at else label)
    if rows_before:
        axes.axvline(rows_before, color=FLAT, linewidth=1.0, zorder=1, label="this replay begins")


def _dress(axes: Axes, curves: Curves, metrics: dict[str, Any], task: str) -> None:
    """Axes that can be read, and no more ink than that."""
    axes.set_xlim(0, max(metrics["rows"], 1))
    axes.set_xlabel("rows")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{row:,.0f}"))
    axes.set_ylabel("prequential accuracy" if task == "classification" else "prequential squared error")
    (_share if task == "classification" else _errors)(axes, _settled(curves))
    axes.grid(axis="y", color="#D9D9D9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", which="both", length=0)
    # Below the axes: wherever it lay inside, one stream or another would run through it.
    axes.figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8.5, columnspacing=1.5)


def _settled(curves: Curves) -> list[float]:
    """What the axis has to show: everything but the noise of the first rows."""
    begin = curves.rows[-1] * WARM_UP
    columns = (curves.window, curves.overall, curves.baseline)
    found = [column[at] for column in columns for at, row in enumerate(curves.rows) if row >= begin]
    return [value for value in [*found, curves.flat] if value is not None and value == value]  # noqa: PLR0124  NaN


def _share(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(0.06 * (high - low), 0.005)
    edge = room / 4  # a curve at 0 or 1 is seen; an axis to -5% or 105% would be silly
    axes.set_ylim(max(low - room, -edge), min(high + room, 1 + edge))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))


def _errors(axes: Axes, values: Sequence[float]) -> None:
    positive = [value for value in values if value > 0]
    if positive and max(positive) > LOG_FROM * min(positive):
        axes.set_yscale("log")
        axes.set_ylim(min(positive) / 1.3, max(positive) * 1.3)
    else:
        axes.set_ylim(0, 1.08 * max(values, default=1.0) or 1.0)


def _title(axes: Axes, title: str, metrics: dict[str, Any], task: str) -> None:
    """Two lines above the axes, flush with them: what was replayed, and what came of it."""
    score, said = ("mse", "mean squared error") if task == "regression" else ("accuracy", "accuracy")
    scored = {"model": metrics["overall"], **metrics["baselines"]}
    shown = "{:.4g}" if task == "regression" else "{:.1%}"
    figures = ", ".join(
        f"{name.replace('_', ' ')} {shown.format(each[score])}"
        for name, each in scored.items()
        if each[score] is not None
    )
    axes.annotate(
        f"{metrics['rows']:,} rows, each predicted before its label was known.  Overall {said}: {figures}",
        (0, 1),
        (0, 9),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9.5,
        color=GREY,
    )
    axes.set_title(
        textwrap.fill(title, TITLE_CHARACTERS),
        loc="left",
        pad=28,
        fontsize=13,
        fontweight="bold",
        color=INK,
        parse_math=False,
    )
