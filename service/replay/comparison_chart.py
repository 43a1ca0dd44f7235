"""The chart of a comparison: the prequential scores of all algorithms over the rows, and of the baselines."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from service.replay import chart
from service.replay.ranking import SCORE, Entrant

# Okabe and Ito's palette: distinguishable by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
DASHES = ((0, ()), (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
"""A colour comes again with the next of these."""
LEGEND_COLUMNS = 5


def write(path: Path, title: str, entrants: Sequence[Entrant], task: str) -> None:
    """Draw and save; the suffix decides the format.

    Args:
        path: ends in .svg or .png.
        title: the first line.
        entrants: the best first.
        task: "classification" or "regression".

    Raises:
        OSError: it cannot be written.
    """
    regression, score = task == "regression", SCORE[task]
    known = "last_value" if regression else "no_change"
    figure = Figure(figsize=chart.SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    curves = [chart.points(entrant.metrics, score, known) for entrant in entrants]
    for at, (entrant, (rows, model, _, _)) in enumerate(zip(entrants, curves, strict=True)):
        colour, dashes = COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)]
        front, dot = 4 if at == 0 else 3, "o" if len(rows) == 1 else None
        axes.plot(
            rows, model, color=colour, linestyle=dashes, linewidth=1.7, zorder=front, marker=dot, label=entrant.line
        )
    baselines = entrants[0].metrics["baselines"]
    axes.plot(curves[0][0], curves[0][3], color=chart.FLAT, linewidth=1.1, label=known.replace("_", " "))
    majority = baselines.get("majority", {}).get("accuracy")
    flat = [] if majority is None else [majority]
    for share in flat:
        axes.axhline(share, color=chart.FLAT, linewidth=1.3, linestyle=(0, (1, 1.5)), label="majority, all rows")
    chart.scale(axes, np.hstack(curves), flat, regression)
    window = f"last {entrants[0].metrics['window']['size']:,} of {entrants[0].metrics['rows']:,} rows"
    chart.headed(axes, title, f"{score}, {window}, each predicted before its label was known")
    figure.legend(loc="outside lower center", ncols=LEGEND_COLUMNS, frameon=False, fontsize=8.5, columnspacing=1.5)
    figure.savefig(path, dpi=chart.DPI, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
