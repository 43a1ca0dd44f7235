"""What a comparison's figures mean, in words: no better than a constant answer, a rare class not found, a tie."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.replay.ranking import Entrant

RARE_SHARE = 0.2
"""Of the rows, below which accuracy says little about a class."""
RECALL_LOW = 0.3
WARNED_MAX = 5
"""Classes that are warned of, and algorithms that are named."""
COST_MAX = 1000
"""That is proposed."""


def rare(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of ``per_class`` the classes of fewer than ``RARE_SHARE`` of the rows, the rarest first."""
    classes = metrics["overall"].get("per_class", {})
    total = sum(one["support"] for one in classes.values())
    found = [(name, one) for name, one in classes.items() if 0 < one["support"] < RARE_SHARE * total]
    return dict(sorted(found, key=lambda each: each[1]["support"]))


def warnings(entrants: Sequence["Entrant"], task: str) -> list[str]:
    """What to know before the best algorithm is taken.

    Args:
        entrants: the best first.
        task: "classification" or "regression".
    """
    best = entrants[0]
    if (costs := best.metrics["overall"].get("costs")) is not None:
        return _dear(best, costs)
    tied = _tied(entrants)
    said = [f"{best.line} is not distinguishable from {', '.join(tied)}: the interval holds 0"] if tied else []
    return said if task == "regression" else [*_constant(best), *_missed(best), *said]


def _dear(best: "Entrant", costs: dict[str, Any]) -> list[str]:
    """Whether one label as the answer to every row costs as little: with costs that is what counts, not accuracy."""
    mean, constant = costs["mean"], costs["constant"]
    if mean is None or mean < constant:
        return []
    said = f"{best.line} is no better than saying `{costs['label']}` always: cost a row {mean:.4g}"
    return [f"{said}, that of the constant answer {constant:.4g}"]


def _constant(best: "Entrant") -> list[str]:
    """Whether the most frequent label as the answer to every row does as well."""
    overall, classes = best.metrics["overall"], best.metrics["overall"].get("per_class", {})
    accuracy, majority = overall["accuracy"], best.metrics["baselines"]["majority"]["accuracy"]
    if accuracy is None or majority is None or accuracy > majority or not classes:
        return []
    label = max(classes, key=lambda name: classes[name]["support"])
    said = f"{best.line} is no better than saying `{label}` always: accuracy {accuracy:.2%}"
    return [f"{said}, that of the most frequent label {majority:.2%}"]


def _missed(best: "Entrant") -> list[str]:
    """The rare classes of which few rows are found."""
    low = {name: one for name, one in rare(best.metrics).items() if one["recall"] < RECALL_LOW}
    rows = sum(one["support"] for one in best.metrics["overall"].get("per_class", {}).values())
    said = [
        f"{best.line} finds only {one['recall']:.1%} of the rows labelled `{name}` (recall); "
        + _proposal(name, (rows - one["support"]) / one["support"])
        for name, one in [*low.items()][:WARNED_MAX]
    ]
    return said if len(low) <= WARNED_MAX else [*said, f"and few rows of {len(low) - WARNED_MAX} more rare classes"]


def _proposal(name: str, rarer: float) -> str:
    """The option that makes a class matter as much as all the others, which have so many times as many rows."""
    cost = min(round(rarer), COST_MAX)
    return f"{shlex.join(['--cost', f'{name}={cost}'])} makes missing one {cost} times as dear"


def _tied(entrants: Sequence["Entrant"]) -> list[str]:
    """Whose loss may be the best one's: differences are told beside the model's own algorithm only."""
    best, others = entrants[0], entrants[1:]
    if best.difference is not None:
        return [one.line for one in others if one.difference is None and _holds_0(best.difference)]
    lines = [one.line for one in others if one.difference is not None and _holds_0(one.difference)]
    more = len(lines) - WARNED_MAX
    return lines if more <= 0 else [*lines[:WARNED_MAX], f"{more} more"]


def _holds_0(difference: dict[str, Any]) -> bool:
    low, high = difference["low"], difference["high"]
    return low is not None and high is not None and low <= 0 <= high
