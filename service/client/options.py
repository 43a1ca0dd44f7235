"""What several commands take: a model's name, parameters, costs, and whether to print JSON."""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FLAGS = {"class_costs": "--cost LABEL=COST", "missing": "--missing", "task": "--task"}
"""Fields of a configuration that are not parameters of an algorithm, and the flags that set them."""


def model_name(text: str | None) -> str | None:
    """A name that a model can have.

    Raises:
        BadParameter: it is none.
    """
    if text is not None and NAME.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is not a model name: {NAME.pattern}")
    return text


Name = Annotated[str, typer.Argument(metavar="NAME", callback=model_name, help="Name of the model.")]
Json = Annotated[bool, typer.Option("--json", help="Print the API's document as it is.")]
Yes = Annotated[bool, typer.Option("--yes", "--force", help="Do not ask, and replace what is there.")]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable. JSON, else text."),
]
Costs = Annotated[
    list[str] | None,
    typer.Option(
        "--cost", metavar="LABEL=COST", help="What missing a class costs, 1 for classes not named; repeatable."
    ),
]


def params_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parameters by name, the values as JSON or else as text; NaN and Infinity stay text.

    Raises:
        BadParameter: one is not NAME=VALUE, or is not a parameter.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--param")
        if name in FLAGS:
            raise typer.BadParameter(f"{name} is no parameter: {FLAGS[name]} sets it", param_hint="--param")
        found[name] = value
        with suppress(ValueError):
            found[name] = json.loads(value, parse_constant=str)
    return found


def costs_of(texts: Sequence[str] | None) -> dict[str, float]:
    """What missing a class costs, by label.

    Raises:
        BadParameter: one is not LABEL=COST with a finite cost above 0.
    """
    found = {}
    for text in texts or ():
        label, equals, given = text.rpartition("=")
        cost = math.nan
        with suppress(ValueError):
            cost = float(given)
        if not equals or not 0 < cost < math.inf:
            raise typer.BadParameter(f"{text!r} is not LABEL=COST, such as fraud=20", param_hint="--cost")
        found[label] = cost
    return found
