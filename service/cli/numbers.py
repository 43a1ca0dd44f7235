"""Scores as people read them, and a curve of them in one line."""

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
POINTS = 60


def score(task: str, value: float | None) -> str:
    """An accuracy in per cent, or a mean squared error; empty where there is none yet."""
    if value is None:
        return ""
    return percent(value) if task == "classification" else f"mse {value:.4g}"


def percent(share: float) -> str:
    """A share in per cent; neither none nor all of it where it is a little of it, or lacks a little."""
    shown = f"{share:.1%}"
    if shown == "0.0%" and share > 0:
        return "<0.1%"
    return ">99.9%" if shown == "100.0%" and share < 1 else shown


def figure(value: float | None) -> str:
    """Any other number."""
    return "" if value is None else f"{value:.4g}"


def sparkline(values: Sequence[float]) -> str:
    """A curve of at most POINTS points, each the mean of its part of the values.

    From all but the least and the greatest ones: the first few rows of a model would flatten all others.
    """
    size = -(-len(values) // POINTS) if values else 1
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    means = [sum(part) / len(part) for part in parts]
    in_order, few = sorted(means), len(means) // 20
    least, most = (in_order[few], in_order[-1 - few]) if means else (0.0, 0.0)
    if least == most:
        return BLOCKS[0] * len(means)
    shares = [min(max((mean - least) / (most - least), 0.0), 1.0) for mean in means]
    return "".join(BLOCKS[int(share * (len(BLOCKS) - 1) + 0.5)] for share in shares)
