"""Why a row is predicted as it is, as a table: contributions of features, what experts say, what classes look like."""

from typing import Any

from rich import box
from rich.table import Table

from service.cli.connection import text
from service.cli.numbers import figure, percent
from service.cli.values import spelt

CONTRIBUTIONS = 20
"""Features that are shown, the strongest first."""
BY_CLASS = ("share", "distance", "tail", "log_density", "log_expected_density")


def table(explanation: dict[str, Any]) -> Table | None:
    """An explanation as the API gives it; None where it says nothing.

    Args:
        explanation: of a linear model, of experts, or of a learner that keeps its classes apart.
    """
    if "contributions" in explanation:
        return _contributions(explanation)
    if explanation.get("experts"):
        return _experts(explanation)
    return _classes(explanation) if explanation.get("classes") else None


def _contributions(explanation: dict[str, Any]) -> Table:
    """The bias, then features from the one that moved the answer most to the one that moved it least."""
    towards = f" to {spelt(explanation['class'])}" if "class" in explanation else ""
    shown = _headed("feature", f"contribution{towards}")
    shown.add_row("(bias)", _signed(explanation["bias"]))
    found = sorted(explanation["contributions"].items(), key=lambda one: -abs(one[1]))
    for name, value in found[:CONTRIBUTIONS]:
        shown.add_row(text(name), _signed(value))
    if rest := [value for _, value in found[CONTRIBUTIONS:]]:
        shown.add_row(f"{len(rest)} more", _signed(sum(rest)))
    return shown


def _experts(explanation: dict[str, Any]) -> Table:
    """Experts from the greatest weight on: a probability of each class, or a number."""
    classes = [spelt(one) for one in explanation["classes"]]
    shown = _headed("expert", "weight", *(classes or ("prediction",)))
    for one in sorted(explanation["experts"], key=lambda one: -one["weight"]):
        said = [percent(share) for share in one["probabilities"]] if classes else [figure(one["prediction"])]
        shown.add_row(one["expert"], percent(one["weight"]), *said)
    return shown


def _classes(explanation: dict[str, Any]) -> Table:
    """What the learner knows of each class, the likeliest first."""
    names = [name for name in BY_CLASS if name in explanation]
    shown = _headed("class", *(name.replace("_", " ") for name in names))
    lines = zip(explanation["classes"], *(explanation[name] for name in names), strict=True)
    for own, *values in sorted(lines, key=lambda line: -line[-1]):
        shown.add_row(text(spelt(own)), *map(figure, values))
    return shown


def _headed(first: str, *others: str) -> Table:
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column(first)
    for head in others:
        shown.add_column(text(head), justify="right", no_wrap=True)
    return shown


def _signed(value: float) -> str:
    return f"{value:+.4g}"
