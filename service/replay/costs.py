"""What missing a class costs: ``--cost LABEL=COST``, and what is said of it when all rows have been learned."""

import argparse
import json
import math
from collections.abc import Mapping
from typing import Any

from service.replay.wording import suggested

CLASSES_SHOWN = 50
"""Classes that the metrics name; of more, none is said to be unknown."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare --cost."""
    parser.add_argument(
        "--cost",
        action="append",
        type=cost,
        default=[],
        metavar="LABEL=COST",
        help="what missing a class costs, of others 1: the label of least expected cost is said; repeatable",
    )


def cost(text: str) -> tuple[str, float]:
    """A label, as JSON has it as a key, and what missing it costs."""
    label, equals, given = text.rpartition("=")
    try:
        found = float(given)
    except ValueError:
        found = math.nan
    if not equals or not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=COST, a cost being a number above 0: fraud=20")
    return label, found


def body(options: argparse.Namespace) -> dict[str, Any]:
    """What a configuration says of the costs that were given; nothing where none were."""
    return {"class_costs": dict(options.cost)} if options.cost else {}


def said(costs: Mapping[str, Any] | None) -> list[str]:
    """What answers have cost a row, beside the label that would have cost least as the answer to all.

    Args:
        costs: as the metrics have them; None of a model without.
    """
    if costs is None or costs["mean"] is None:
        return []
    label = costs["label"]
    always = f"{costs['constant']:.4g} with {label if isinstance(label, str) else json.dumps(label)}"
    return [f"cost a row: {costs['mean']:.4g}; {always} as the answer to all"]


def without_effect(costs: Mapping[str, float], metrics: Mapping[str, Any]) -> list[str]:
    """The costs of labels that no row has had, each with the label that may have been meant.

    Args:
        costs: that were given.
        metrics: as GET /models/{name}/metrics answers.
    """
    classes = metrics["overall"].get("per_class") or {}
    if len(classes) > CLASSES_SHOWN:
        return []
    seen = [name for name, one in classes.items() if one["support"]]
    return [
        f"no row is labelled `{name}`, so its cost has had no effect{suggested(name, seen)}"
        for name in costs
        if name not in seen
    ]
