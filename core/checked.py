"""Pydantic's checks with refusals in our words: what is wrong with a field, and what would be right.

    lags: Annotated[int, Field(ge=0, le=10), Says("must be an integer", ">= 0 and <= 10")] = 0

Where one sentence is not enough, a validator raises ``Invalid``: fields in it that are empty, or begin with a dot or a
bracket, continue its own path.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError, WrapValidator, model_validator
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from core.problems import Invalid, Problem, suggestion


@dataclass(frozen=True, slots=True)
class Says:
    """One problem instead of all that pydantic would say of a field.

    Attributes:
        problem: what is wrong.
        allowed: what would be right; of a list of words the most similar one is suggested.
    """

    problem: str
    allowed: object = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of what is annotated, with this error."""
        error: dict[str, Any] = {
            "custom_error_message": self.problem,
            "custom_error_context": {"allowed": self.allowed},
        }
        return core_schema.custom_error_schema(handler(source), custom_error_type="refused", **error)


def by(check: Callable[[Any], Any]) -> WrapValidator:
    """A function alone checks the field; its type documents what clients send."""
    return WrapValidator(lambda value, _: check(value))


def optional(schema: dict[str, Any]) -> None:
    """Descriptions say what a field left out means: generators of clients require what has a ``default``."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


def showing(*names: str) -> Callable[[dict[str, Any]], None]:
    """Show these fields of a model alone, as ``optional`` does."""

    def show(schema: dict[str, Any]) -> None:
        schema["properties"] = {name: schema["properties"][name] for name in names}
        optional(schema)

    return show


class Checked(BaseModel, extra="forbid", strict=True, frozen=True, json_schema_extra=optional):
    """A value made of a client's JSON object with the fields it names and no others; a number is a number."""

    strange: ClassVar[str] = "is not a field of this request"
    """What is said of a field too many."""

    @classmethod
    @cache
    def names(cls) -> list[str]:
        """The fields, as clients name them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Check a client's object and fill in the defaults.

        Raises:
            Invalid: naming the first field that is wrong, and what would be allowed.
        """
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
    """The problems of the first field that is wrong."""
    return Invalid(*_told(error.errors(include_url=False)[0]))


def problems_of(error: ValidationError, near: bool) -> list[Problem]:
    """The problems of all fields, by paths that begin with a dot; ``near``: with suggestions."""
    found = [told for one in error.errors(include_url=False) for told in _told(one, near)]
    return [one._replace(field=f".{one.field}") for one in found]


def _told(error: ErrorDetails, near: bool = True) -> list[Problem]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    context = error.get("ctx", {})
    if isinstance(own := context.get("error"), Invalid):
        return [told._replace(field=_joined(path, told.field)) for told in own.problems]
    allowed = context.get("allowed")
    meant = suggestion(error["input"], allowed) if near and isinstance(allowed, list) else ""
    return [Problem(path.removeprefix("."), error["msg"] + meant, allowed)]


def _joined(path: str, field: str) -> str:
    return (path + field if field[:1] in {"", ".", "["} else field).removeprefix(".")
