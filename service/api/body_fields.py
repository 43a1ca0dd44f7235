"""What is said of a body that has a field too many: which fields there are, which one is meant, which ones it lacks."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from core.problems import PROBLEMS_MAX, SUGGESTED_MAX, Invalid, Problem, suggestion

UNKNOWN_FIELD = "is not a field of this request"
LOOKED_AT_BYTES = 65_536
"""Largest body that is read again for its other fields; of a larger one the first is told."""
PATH_MAX = 200
"""Characters of a name that an error repeats."""
_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
_type_info = cache(msgspec.inspect.type_info)
"""Of the few types that bodies are read as."""
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def unknown(field: str, given: str, known: Sequence[str], suggest: bool = True) -> Problem:
    """The problem of a field that a request does not have.

    Args:
        field: its path.
        given: its name.
        known: the fields that the request has where this one stands.
        suggest: whether a similar one is looked for.
    """
    meant = suggestion(given, known) if suggest else ""
    return Problem(field[:PATH_MAX], f"{UNKNOWN_FIELD}{meant}", [*known] or None)


def refusal(body: bytes, shape: Any, path: str, name: str) -> Invalid:
    """Why a body is refused that has a field too many.

    Args:
        body: it.
        shape: the type that it was to be read as.
        path: of the object that has the field, as msgspec tells it: ``$.rows[...]``; "" for the body itself.
        name: of the field.
    """
    struct = _struct_at(shape, path)
    fields = () if struct is None else msgspec.structs.fields(struct)
    known = [own.encode_name for own in fields]
    if path or struct is None or len(body) > LOOKED_AT_BYTES:
        return Invalid(unknown(name, name, known))
    given = [*_names.decode(body)]
    strange = [each for each in given if each not in known][:PROBLEMS_MAX]
    problems = [unknown(each, each, known, at < SUGGESTED_MAX) for at, each in enumerate(strange)]
    lacking = [own.encode_name for own in fields if own.required and own.encode_name not in given]
    if "prediction_id" in known and not {"features", "prediction_id"} & {*given}:
        lacking.append("features")
    return Invalid(*problems, *(Problem(each, "is required") for each in lacking))


def _struct_at(shape: Any, path: str) -> type[msgspec.Struct] | None:
    """The struct that a path leads to; None where there is none, or several may stand there."""
    found: Any = _type_info(shape)
    for step in [None, *_STEP.finditer(path)]:
        if step is not None:
            found = _member(found, step[1])
        if isinstance(found, msgspec.inspect.UnionType):
            found = next((one for one in found.types if not isinstance(one, msgspec.inspect.NoneType)), None)
    return found.cls if isinstance(found, msgspec.inspect.StructType) else None


def _member(shape: Any, name: str | None) -> Any:
    """The type of a field, or of the members of a list."""
    if name is None:
        return getattr(shape, "item_type", None)
    fields: Iterable[msgspec.inspect.Field] = getattr(shape, "fields", ())
    return next((own.type for own in fields if own.encode_name == name), None)
