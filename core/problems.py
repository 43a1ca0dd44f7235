"""What can be wrong with a client's input, field by field.

Invalid    the values themselves are wrong: unknown name, out of range, not a number
Conflict   the values are fine, but the model's state does not allow them now

Pydantic validates ``Checked`` values; the messages are ours:

    lags: Annotated[int, Field(ge=0, le=10), Says("must be an integer", ">= 0 and <= 10")] = 0

A ``Param`` also documents what it checks. Where one sentence is not enough, a validator raises ``Invalid``; a field in
it that is empty, or begins with a dot or a bracket, continues the validator's own path.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError, WrapValidator, model_validator
from pydantic_core import CoreSchema, ErrorDetails, core_schema

PROBLEMS_MAX = 20  # most problems in one error
LISTED_MAX = 100  # most names or categories listed in one error
NAMED_MAX = 10  # most features named in its text
SUGGESTED_MAX = 3
"""Most unknown names in one error that get a suggestion: each is compared with up to ``LISTED_MAX`` known names."""
SUGGESTED_LENGTH_MAX = 60  # longest name that is compared, in characters


class Problem(NamedTuple):
    """One problem with one field."""

    field: str  # its path as the client wrote it, e.g. params.forgetting_rate or data[3][1]
    problem: str  # never repeats the value
    allowed: object = None  # what is allowed (a range, a list of names); None if that would be too long


def unknown_feature(field: str, names: Sequence[str], given: object = "", count: int = 0) -> Problem:
    """The problem with a name in a row, or a column of a table, that is not a feature; see ``suggestion``."""
    way_out = suggestion(given, names, count) or PASSED_OVER
    return Problem(field, f"is not a feature of this model{way_out}", list(names[:LISTED_MAX]))


def suggestion(given: object, names: Sequence[str], count: int = 0) -> str:
    """``; did you mean load?`` if one of the first names differs from the given one by a few letters, else "".

    ``count`` is the number of earlier problems; after ``SUGGESTED_MAX`` there are no more suggestions.
    """
    if count >= SUGGESTED_MAX or not isinstance(given, str) or not 0 < len(given) <= SUGGESTED_LENGTH_MAX:
        return ""
    by_letters = {name.lower(): name for name in names[:LISTED_MAX] if len(name) <= SUGGESTED_LENGTH_MAX}
    found = get_close_matches(given.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""


PASSED_OVER = '; add it to "ignore" to skip it'  # the advice for a name that resembles no feature
FILLED = 'declare "missing": "mean" or "zero" to fill missing values'  # the advice for a missing value


def lacking(field: str, names: Sequence[str], way_out: str = "") -> Problem:
    """The problem with features that a row or table lacks: names the first few; ``allowed`` lists more."""
    shown, more = ", ".join(names[:NAMED_MAX]), len(names) - NAMED_MAX
    named = f"lacks features: {shown}{f' and {more} more' if more > 0 else ''}"
    return Problem(field, f"{named}; {way_out}" if way_out else named, list(names[:LISTED_MAX]))


class Invalid(ValueError):
    """The input is wrong in at least one field; nothing has changed."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.field}: {p.problem}" for p in problems))
        self.problems: Sequence[Problem] = problems

    @classmethod
    def of(cls, field: str, problem: str, allowed: object = None) -> "Invalid":
        """Build the common case of a single problem."""
        return cls(Problem(field, problem, allowed))


class Conflict(ValueError):
    """The model's state does not allow the input, which is valid in itself; nothing has changed.

    ``field`` is the field of the request at fault; by default the model that the path names.
    """

    def __init__(self, problem: str, field: str = "name") -> None:
        super().__init__(problem)
        self.field = field


def refuse(problems: Sequence[Problem]) -> None:
    """Raise ``Invalid`` with the first problems, if there are any."""
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])


@dataclass(frozen=True, slots=True)
class Says:
    """Replaces pydantic's messages about a field with one problem; suggests an allowed word if they are a list."""

    problem: str
    allowed: object = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of the annotated type, with this error."""
        context: dict[str, Any] = {"allowed": self.allowed}
        return core_schema.custom_error_schema(
            handler(source), "refused", custom_error_message=self.problem, custom_error_context=context
        )


_BOUNDS = {
    "ge": (">=", operator.ge, "minimum"),
    "gt": (">", operator.gt, "exclusiveMinimum"),
    "le": ("<=", operator.le, "maximum"),
    "lt": ("<", operator.lt, "exclusiveMaximum"),
}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an algorithm, described well enough to check it and to document it."""

    name: str  # as in the API
    kind: Literal["number", "integer", "boolean", "choice"]
    default: Any
    meaning: str  # one sentence; units; the paper's symbol and equation if there are any
    ge: float | None = None  # bounds as in pydantic's ``Field``: at least, above, at most, below
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()  # allowed words of a "choice"; words allowed instead of a number (e.g. "auto")
    refusal: str = ""  # added to the message for a value out of range

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Lets a pydantic field use it as an annotation, for validation and for the JSON Schema."""
        shown = {name: value for name, value in self.schema().items() if name != "default"}
        return core_schema.no_info_plain_validator_function(
            self.check, metadata={"pydantic_js_functions": [lambda _schema, _handler: shown]}
        )

    def check(self, value: object, name: str = "") -> Any:
        """The value in its canonical type (1 -> 1.0 for numbers); raises ``Invalid`` at ``name`` for a wrong one."""
        if isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "boolean" and isinstance(value, bool):
            return value
        if self.kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
            return self._in_range(value, name)
        if self.kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return self._in_range(float(value), name)
            except OverflowError:
                raise Invalid.of(name, "is too large for a floating-point number") from None
        if self.kind == "choice":
            raise Invalid.of(name, "is not one of the choices", self.allowed)
        expected = f"must be {'an' if self.kind == 'integer' else 'a'} {self.kind}"
        raise Invalid.of(name, f"{expected} or one of the words" if self.choices else expected, self.allowed)

    def _in_range(self, value: Any, name: str) -> Any:
        if not all(holds(value, bound) for _, holds, _, bound in self._bounds) or not np.isfinite(value):
            raise Invalid.of(name, f"is out of range{': ' + self.refusal if self.refusal else ''}", self.allowed)
        return value

    @property
    def _bounds(self) -> list[tuple[str, Callable[[Any, Any], bool], str, float]]:
        """The sign, the test and the JSON Schema keyword of each bound, and the bound."""
        return [(*known, bound) for name, known in _BOUNDS.items() if (bound := getattr(self, name)) is not None]

    @property
    def allowed(self) -> object:
        """The allowed values, in words or as a list."""
        if self.kind == "boolean":
            return [True, False]
        if self.kind == "choice":
            return list(self.choices)
        span = " and ".join(f"{sign} {bound:g}" for sign, _, _, bound in self._bounds) or f"any finite {self.kind}"
        return " or ".join([span, *(f'"{word}"' for word in self.choices)])

    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        described = {"default": self.default, "description": self.meaning}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices), **described}
        span = {"type": self.kind, **{keyword: bound for _, _, keyword, bound in self._bounds}}
        if self.choices:
            return {"anyOf": [span, {"type": "string", "enum": list(self.choices)}], **described}
        return {**span, **described}


def by(check: Callable[[Any], Any]) -> WrapValidator:
    """Let a function alone validate the field; the field's type is only documentation."""
    return WrapValidator(lambda value, _: check(value))


def optional(schema: dict[str, Any]) -> None:
    """Remove a schema's defaults: client generators require fields that have one; descriptions state the defaults."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


def showing(*names: str) -> Callable[[dict[str, Any]], None]:
    """Show only these fields of a model, without defaults (``optional``)."""

    def show(schema: dict[str, Any]) -> None:
        schema["properties"] = {name: schema["properties"][name] for name in names}
        optional(schema)

    return show


class Checked(BaseModel, extra="forbid", strict=True, frozen=True, json_schema_extra=optional):
    """A value read from a client's JSON object: no unknown fields, no conversion between types."""

    strange: ClassVar[str] = "is not a field of this request"
    """The message for an unknown field."""

    @classmethod
    @cache
    def names(cls) -> list[str]:
        """The names of the fields, as clients write them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Validate a client's object and fill in defaults; raises ``Invalid`` for the first wrong field."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise refusal(error) from None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, raw: Any) -> Any:
        known = cls.names()
        for name in raw if isinstance(raw, dict) else ():
            if name not in known:
                raise Invalid.of(f".{name}", cls.strange + suggestion(name, known), known)
        return raw


def refusal(error: ValidationError) -> Invalid:
    """The problems of the first wrong field."""
    return Invalid(*_problems(error.errors(include_url=False)[0]))


def problems_of(error: ValidationError, count: int) -> list[Problem]:
    """The problems of all fields; their paths begin with a dot. ``count`` is as for ``suggestion``."""
    found = [problem for one in error.errors(include_url=False) for problem in _problems(one, count)]
    return [one._replace(field=f".{one.field}") for one in found]


def _problems(error: ErrorDetails, count: int = 0) -> list[Problem]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    context = error.get("ctx", {})
    if isinstance(own := context.get("error"), Invalid):
        return [one._replace(field=_joined(path, one.field)) for one in own.problems]
    allowed = context.get("allowed")
    meant = suggestion(error["input"], allowed, count) if isinstance(allowed, list) else ""
    return [Problem(path.removeprefix("."), error["msg"] + meant, allowed)]


def _joined(path: str, field: str) -> str:
    return (path + field if field[:1] in {"", ".", "["} else field).removeprefix(".")
