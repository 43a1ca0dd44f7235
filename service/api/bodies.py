"""Reading request bodies: size, media type, JSON. Nothing here knows a model.

JSON is decoded strictly into msgspec structs: unknown fields are refused, a number is a number, and a name that is
given twice is refused (decoders keep the last one silently; here a count of colons finds the suspects and a slower
reading settles them).
"""

import json
import math
import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from core.problems import Invalid, Problem
from service.errors import NotJson, TooLarge, WrongMedia

JSON = "application/json"
CSV = "text/csv"
NPY = "application/x-npy"

T = TypeVar("T")


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type; JSON where the client says nothing.

    Raises:
        WrongMedia: a type the route does not read; ``allowed`` lists those it does.
    """
    given = request.headers.get("content-type")
    if given is None or given == JSON:
        return JSON
    kind = given.partition(";")[0].strip().lower()
    if kind.endswith("+json"):
        kind = JSON
    if kind not in allowed:
        problem = Problem("Content-Type", "is not a media type this route reads", list(allowed))
        raise WrongMedia(f"send one of {', '.join(allowed)}", [problem])
    return kind


async def read(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        TooLarge: over the limit, as announced or as it arrives.
    """
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdigit():
        if int(announced) > limit:
            raise too_large(limit)
        return await request.body()
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
    return b"".join(parts)


def too_large(limit: int) -> TooLarge:
    """The error for a body over the limit."""
    return TooLarge(f"the body is larger than {limit} bytes", [Problem("body", "is too large", f"<= {limit} bytes")])


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A struct from a JSON body.

    Raises:
        NotJson: not JSON, or not UTF-8.
        Invalid: JSON of another shape, naming the field.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_shape(body, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def refuse_repeated(body: bytes, names: int) -> None:
    """Refuse a JSON body that gives a name twice in one object.

    Args:
        body: valid JSON.
        names: how many names it is known to hold, all objects together; where colons say otherwise it is read again.
    """
    if body.count(b":") != names:
        json.loads(body, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise Invalid(*(Problem(name, "is given twice") for name in twice))
    return known


def _wrong_shape(body: bytes, error: msgspec.ValidationError) -> Exception:
    message, _, path = str(error).partition(" - at `")
    if message.startswith("Number out of range"):
        return _unrepresentable(body)
    field = path.rstrip("`").removeprefix("$").lstrip(".") or "body"
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        return Invalid.of(unknown[1][:200], "is not a field of this request")
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        return Invalid.of(missing[1], "is required")
    return Invalid.of(field.replace("[...]", "[]"), _words(message))


def _words(message: str) -> str:
    """The decoder's message without anything of the input."""
    return message.split(", got `", maxsplit=1)[0].replace("`", "").replace("Expected", "must be")


def _not_json(body: bytes, error: Exception) -> NotJson:
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return NotJson(f"the body is not UTF-8 (byte {wrong.start})")
    try:
        parsed = json.loads(text)  # reads NaN and Infinity, which JSON does not have
    except (ValueError, RecursionError):
        place = re.search(r"\(byte (\d+)\)", str(error))
        return NotJson(f"the body is not JSON{f' (byte {place[1]})' if place else ''}")
    problems = [
        Problem(path, "is NaN or infinite; JSON has no such number", "a finite number") for path in _odd(parsed)
    ]
    return NotJson("the body is not JSON: it holds NaN or Infinity", problems[:20])


def _unrepresentable(body: bytes) -> Invalid:
    problems = [
        Problem(path, "is too large for a floating-point number", "a finite number") for path in _odd(json.loads(body))
    ]
    return Invalid(*(problems[:20] or [Problem("body", "holds a number that is too large", "finite numbers")]))


def _odd(value: Any, path: str = "") -> list[str]:
    """Paths of the numbers that are not finite."""
    if isinstance(value, float):
        return [] if math.isfinite(value) else [path or "body"]
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in _odd(item, f"{path}.{name}".lstrip("."))]
    if isinstance(value, list):
        return [found for at, item in enumerate(value) for found in _odd(item, f"{path}[{at}]")]
    return []
