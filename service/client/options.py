"""The options of several commands: a model's name, parameters, costs, and whether to print JSON."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from typer import Argument, BadParameter, Option

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def matching(form: str, meant: str) -> Callable[[str | None], str | None]:
    """A function that checks a text, if any, by a regular expression; ``BadParameter``: it is not what is ``meant``."""

    def checked(text: str | None) -> str | None:
        if text is not None and re.fullmatch(form, text) is None:
            raise BadParameter(f"{text!r} is not {meant}")
        return text

    return checked


model_name = matching(NAME, f"a model name: {NAME}")


def pair_of(text: str) -> tuple[str, str]:
    """A name and a text; ``BadParameter`` if it is not NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def param_of(text: str) -> tuple[str, Any]:
    """The name and value of a parameter; the value is read by ``json_or_text``."""
    name, value = pair_of(text)
    return name, json_or_text(value)


def json_or_text(text: str) -> Any:
    """The JSON value of a text, or a number such as .5, else the text itself; numbers that are not finite stay text."""
    with suppress(ValueError, RecursionError):
        return msgspec.json.decode(text)
    with suppress(ValueError):
        if math.isfinite(number := float(text)) and "_" not in text:  # float() reads 1_000, but no file means that
            return number
    return text


def cost_of(text: str) -> tuple[str, float]:
    """The label of a class and the cost of missing it; ``BadParameter`` unless the cost is finite and above 0."""
    label, equals, given = text.rpartition("=")
    with suppress(ValueError):
        if equals and 0 < (cost := float(given)) < math.inf:
            return label, cost
    raise BadParameter(f"{text!r} is not LABEL=COST, such as fraud=20")


Task = Literal["classification", "regression"]
Missing = Literal["error", "zero", "mean"]
Name = Annotated[str, Argument(metavar="NAME", callback=model_name, help="Name of the model.")]
Json = Annotated[bool, Option("--json", help="Print JSON: the API's document, or what was done.")]
Yes = Annotated[bool, Option("--yes", "--force", help="Do not ask.")]
Params = Annotated[
    list[Any] | None,
    Option("--param", metavar="NAME=VALUE", parser=param_of, help="Algorithm parameter, JSON or text; repeatable."),
]
Costs = Annotated[
    list[Any] | None,
    Option("--cost", metavar="LABEL=COST", parser=cost_of, help="Cost of missing a class, else 1; repeatable."),
]
