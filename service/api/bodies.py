"""Reading request bodies: size, media type, JSON. Nothing here knows a model.

JSON is decoded strictly into msgspec structs: unknown fields are refused, a number is a number, and a name that is
given twice is refused (decoders keep the last one silently; here a count of colons finds the suspects and a slower
reading settles them).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from core.problems import Invalid, Problem
from service.errors import NotJson, TooLarge, WrongMedia

JSON = "application/json"
CSV = "text/csv"
NPY = "application/x-npy"
SVMLIGHT = "text/x-svmlight"
DENSE_TABLES, SPARSE_TABLES = (JSON, CSV, NPY), (JSON, SVMLIGHT)
"""What batches of models with features come as, and those of models of named sparse rows."""
TOO_DEEP = "the body is not JSON that can be read: it is nested too deep"
PROBLEMS_MAX = 20
PATH_MAX = 200
"""Characters of a path that an error names."""

KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
"""The decoder's words for types, and ours."""
T = TypeVar("T")


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type; the first one allowed where the client says nothing.

    Raises:
        WrongMedia: a type the route does not read; ``allowed`` lists those it does.
    """
    given = request.headers.get("content-type")
    if given is None:
        return allowed[0]
    if given == JSON and JSON in allowed:
        return JSON
    kind = given.partition(";")[0].strip().lower()
    if kind.endswith("+json"):
        kind = JSON
    if kind not in allowed:
        problem = Problem("Content-Type", "is not a media type this route reads", list(allowed))
        raise WrongMedia(f"send one of {', '.join(allowed)}", [problem])
    return kind


def table_type(request: Request) -> str:
    """The media type of a batch, for a model that is not known yet."""
    return media_type(request, (*DENSE_TABLES, SVMLIGHT))


def check_media_type(kind: str, sparse: bool) -> None:
    """Refuse a table in a form that the model's rows do not have.

    Raises:
        WrongMedia: ``allowed`` lists those they have.
    """
    allowed = SPARSE_TABLES if sparse else DENSE_TABLES
    if kind not in allowed:
        rows = "takes named sparse rows" if sparse else "has features of its own, not sparse rows"
        problem = Problem("Content-Type", f"does not go with this model, which {rows}", list(allowed))
        raise WrongMedia(f"send one of {', '.join(allowed)}: the model {rows}", [problem])


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        TooLarge: over the limit, as announced or as it arrives.
    """
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:  # request.stream() would do the same through two generators, which costs more than learning a row
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(limit: int) -> TooLarge:
    """The error for a body over the limit."""
    return TooLarge(f"the body is larger than {limit} bytes", [Problem("body", "is too large", f"<= {limit} bytes")])


async def require_empty(request: Request, limit: int) -> None:
    """Read a body that has nothing to say: none, or an empty object.

    Raises:
        Invalid: it says something.
    """
    if (await read_body(request, limit)).strip() not in (b"", b"{}"):
        raise Invalid.of("body", "has nothing to say here", "no body, or {}")


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A struct from a JSON body.

    Raises:
        NotJson: not JSON, or not UTF-8.
        Invalid: JSON of another shape, naming the field.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        _refuse_broken(body)
        raise _wrong_shape(body, error, decoder) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


_syntax = msgspec.json.Decoder(float_hook=len)
"""Reads any JSON; numbers stay texts, so that none can be out of range."""


def _refuse_broken(body: bytes) -> None:
    """A body is JSON or not before it has a right or a wrong shape; decoders see what comes first."""
    try:
        _syntax.decode(body)
    except msgspec.ValidationError:  # an integer of more digits than Python reads
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def refuse_repeated(body: bytes, names: int) -> None:
    """Refuse a JSON body that gives a name twice in one object.

    Args:
        body: valid JSON.
        names: how many names it is known to hold, all objects together; where colons say otherwise it is read again.
    """
    if body.count(b":") == names:
        return
    twice: list[str] = []
    for path, value in _walk(_parsed(body, object_pairs_hook=_Pairs)):
        if isinstance(value, _Pairs):
            counted = Counter(name for name, _ in value)
            twice += [_child(path, name) for name, times in counted.items() if times > 1]
    if twice:
        raise Invalid(*(Problem(path, "is given twice") for path in twice[:PROBLEMS_MAX]))


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with the names it idempotency."""


def _wrong_shape(body: bytes, error: msgspec.ValidationError, decoder: "msgspec.json.Decoder[T]") -> Exception:
    text = str(error)
    if text.startswith(("Number out of range", "Integer value out of range")):
        return _unrepresentable(body)
    message, _, path = text.rpartition(" - at `") if text.endswith("`") and " - at `$" in text else (text, "", "")
    field = (path.rstrip("`").removeprefix("$").lstrip(".") or "body").replace("[...]", "[]")
    if (unknown := re.search(r"unknown field `(.*)`", text, re.DOTALL)) is not None:
        return Invalid.of(unknown[1].partition("` - at `$")[0][:PATH_MAX], "is not a field of this request")
    if (missing := re.search(r"missing required field `(.*)`", message)) is not None:
        return Invalid.of(missing[1], "is required")
    if message.startswith("Expected "):
        return Invalid.of(field, _words(message))
    if message.startswith("Invalid enum value"):
        return Invalid.of(field, "is not one of the choices", _choices(decoder.type, field))
    return Invalid.of(field, "has another form than this request's")


def _choices(kind: object, field: str) -> list[Any] | None:
    """The values that a field of a struct may have, where they are listed."""
    info = msgspec.inspect.type_info(kind)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    found = [own.type for own in fields if own.encode_name == field]
    for one in found:
        if isinstance(one, msgspec.inspect.LiteralType):
            return sorted(one.values)
        if isinstance(one, msgspec.inspect.Metadata):
            found.append(one.type)
        elif isinstance(one, msgspec.inspect.UnionType):
            found += one.types
    return None


def _words(message: str) -> str:
    """What was expected, in our words and without anything of the input."""
    plain = message.split(", got `", maxsplit=1)[0].replace("`", "").replace("Expected", "must be")
    return re.sub(r"\b(" + "|".join(KINDS) + r")\b", lambda found: KINDS[found[1]], plain).replace(" | ", " or ")


def _not_json(body: bytes, error: Exception) -> NotJson:
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return NotJson(f"the body is not UTF-8 (byte {wrong.start})")
    try:
        parsed = json.loads(text, parse_int=_integer)  # reads NaN and Infinity, which JSON does not have
        problems = _odd(parsed, "is NaN or infinite; JSON has no such number")
    except (ValueError, RecursionError):
        problems = []
    if problems:
        return NotJson("the body is not JSON: it holds NaN or Infinity", problems)
    if isinstance(error, RecursionError):
        return NotJson(TOO_DEEP)
    place = re.search(r"\(byte (\d+)\)", str(error))
    return NotJson(f"the body is not JSON{f' (byte {place[1]})' if place else ''}")


def _unrepresentable(body: bytes) -> Invalid:
    problems = _odd(_parsed(body, parse_int=_integer), "is too large for a floating-point number")
    return Invalid(*(problems or [Problem("body", "holds a number that is too large", "finite numbers")]))


def _parsed(body: bytes, **how: Any) -> Any:
    """A second reading of a body that is JSON; it may need a little more depth than the first had."""
    try:
        return json.loads(body, **how)
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def _integer(digits: str) -> int | float:
    """An integer; one that no float could hold anyway is not worth its digits, of which Python reads 4300 at most."""
    return int(digits) if len(digits) <= 400 else math.inf


def _odd(parsed: Any, problem: str) -> list[Problem]:
    """The first numbers that are not finite."""
    wrong = (path for path, value in _walk(parsed) if isinstance(value, float) and not math.isfinite(value))
    return [Problem(path or "body", problem, "a finite number") for path in islice(wrong, PROBLEMS_MAX)]


def _walk(parsed: Any) -> Iterator[tuple[str, Any]]:
    """Every value with its path, in order; without recursion, since a body may nest as deep as it likes."""
    left = [("", parsed)]
    while left:
        path, value = left.pop()
        yield path, value
        if isinstance(value, dict | _Pairs):
            pairs = value.items() if isinstance(value, dict) else value
            left += [(_child(path, name), item) for name, item in pairs][::-1]
        elif isinstance(value, list):
            left += [(f"{path}[{at}]"[:PATH_MAX], item) for at, item in enumerate(value)][::-1]


def _child(path: str, name: str) -> str:
    """The path of a member; bounded, and without the half surrogate pairs that no answer could carry."""
    return f"{path}.{name}".removeprefix(".")[:PATH_MAX].encode(errors="replace").decode()
