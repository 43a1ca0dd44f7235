"""Strict JSON: bytes to msgspec structs; nothing here knows a request or a model.

Unknown fields, conversions between types and names that occur twice in one object are errors (decoders silently keep
the last of equal names). Repeated names are found by counting: a body has as many colons outside its strings as it has
names, and only a body with more names than its request has fields is parsed a second time.
``service.runtime.threads`` decides where large bodies are decoded.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

import msgspec

from core.features.feature import COLUMNS_MAX
from core.problems import PROBLEMS_MAX, SUGGESTED_MAX, Invalid, Problem, suggestion
from service.api.http import json_pieces
from service.errors import NotJson

TOO_DEEP = "the body cannot be read as JSON: it is nested too deeply"
PATH_MAX = 200  # most characters of a path or a name that an error repeats
TEXT_BYTES = 4  # memory per byte of a text: one character beyond 16 bits makes all of them take four
VALUE_BYTES = 100  # assumed memory of a value: a short text takes 64, and a little more in the lists that hold it
_HALF = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB]..)(?!\\u[dD][c-fC-F])")  # the first of two escapes
KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
"""The decoder's names of types, and ours."""
T = TypeVar("T")


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A value from a JSON body; ``NotJson`` if it is not JSON in UTF-8, ``Invalid`` for a wrong or repeated field."""
    found = read(body, decoder)
    refuse_repeated(body, names_in(found))
    return found


def read(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Like ``decode``, but the last value of a repeated name counts."""
    try:
        return json_pieces.decode(body, decoder)
    except msgspec.ValidationError as error:
        _refuse_broken(body)
        raise _wrong_shape(body, decoder.type, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def large(body: bytes, decoder: "msgspec.json.Decoder[T]", most: int) -> T:
    """Like ``decode``, for a body of at most ``most`` values, which are counted before it is decoded; ``Invalid`` if it
    has more.
    """
    if body.count(b",") > most and json_pieces.count(body, b",") > most:
        raise Invalid.of("body", "contains too many names and values", f"<= {most}")
    return decode(body, decoder)


def decoded_bytes(body: bytes) -> int:
    """Roughly the most memory that a decoded body takes: its values, and the objects and lists around them."""
    return memory_of(body, *marks(body))


def memory_of(body: bytes, values: int, around: int) -> int:
    """Like ``decoded_bytes``, for this many values, and this many objects and lists (or lines) ``around`` them."""
    return TEXT_BYTES * len(body) + VALUE_BYTES * (values + 2 * around)


def marks(body: bytes) -> tuple[int, int]:
    """How many commas JSON has, and how many objects and lists."""
    return tally(body, b","), tally(body, b"{") + tally(body, b"[")


def tally(body: bytes, mark: bytes) -> int:
    """How often a mark occurs, counted in pieces: other threads get the interpreter in between."""
    some = json_pieces.PIECE_BYTES
    return sum(body.count(mark, at, at + some) for at in range(0, len(body), some))


def names_in(found: Any) -> int:
    """The least number of names, over all objects, that a body has if it decodes to this value."""
    if isinstance(found, dict):
        return len(found)
    if isinstance(found, list):
        return sum(map(names_in, found)) if found and isinstance(found[0], msgspec.Struct) else 0
    fields = json_pieces.fields_of(type(found)) if isinstance(found, msgspec.Struct) else ()
    given = [value for own in fields if (value := getattr(found, own.name)) is not own.default]
    return len(given) + sum([names_in(value) for value in given if type(value) in (dict, list)])


_syntax = msgspec.json.Decoder(msgspec.Raw)  # checks the syntax of JSON without building objects


def _refuse_broken(body: bytes) -> None:
    """Refuse invalid JSON with 400 even if a wrong shape, 422, comes first in the body."""
    try:
        _syntax.decode(body)
        body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def nested_more_than(body: bytes, most: int) -> bool:
    """Whether a JSON body has more than ``most`` lists and objects, counted without decoding it."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    return json_pieces.count(body, b"[", b"{") > most


def refuse_repeated(body: bytes, names: int) -> None:
    """Refuse valid JSON with a repeated name in one object.

    ``names`` is the number of distinct names it has, over all objects: a body with more is parsed again.
    """
    if body.count(b":") == names or json_pieces.count(body, b":") == names:
        return
    repeating: list[_Pairs] = []
    parsed = _parsed(body, object_pairs_hook=lambda pairs: _object(pairs, repeating))
    if repeating:
        twice = ([*steps, name] for steps, pairs in _find(parsed, _Pairs) for name in _repeated(pairs))
        raise Invalid(*(Problem(_path(steps), "is given twice") for steps in islice(twice, PROBLEMS_MAX)))


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with a repeated name, as pairs."""


def _object(pairs: list[tuple[str, Any]], repeating: list[_Pairs]) -> dict[str, Any] | _Pairs:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeating.append(_Pairs(pairs))
    return repeating[-1]


def _repeated(pairs: _Pairs) -> list[str]:
    return [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]


def _wrong_shape(body: bytes, shape: Any, error: msgspec.ValidationError) -> Exception:
    text = str(error)
    if text.startswith(("Number out of range", "Integer value out of range")):
        return _unrepresentable(body)
    message, _, path = text.rpartition(" - at `") if text.endswith("`") and " - at `$" in text else (text, "", "")
    field = (path.rstrip("`").removeprefix("$").lstrip(".") or "body").replace("[...]", "[]")
    if (unknown := re.search(r"unknown field `(.*)`", text, re.DOTALL)) is not None:
        name, _, place = unknown[1].partition("` - at `$")
        return refusal(body, shape, place, name[:PATH_MAX])
    if (missing := re.search(r"missing required field `(.*)`", message)) is not None:
        return Invalid.of(missing[1], "is required")
    if message.startswith("Expected "):
        return Invalid.of(field, _words(message))
    return Invalid.of(field, "does not have the form that this request needs")


def _words(message: str) -> str:
    """The expectation in our words, without any of the input."""
    plain = message.split(", got `", maxsplit=1)[0].replace("`", "").replace("Expected", "must be")
    return re.sub(r"\b(" + "|".join(KINDS) + r")\b", lambda found: KINDS[found[1]], plain).replace(" | ", " or ")


def _not_json(body: bytes, error: Exception) -> NotJson:
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return NotJson(f"the body is not UTF-8 (byte {wrong.start})")
    problems, is_read = list[Problem](), True
    try:
        parsed = _parsed(text, parse_int=_integer)  # unlike JSON, it accepts NaN, Infinity and half a surrogate pair
        problems = _odd(parsed, "is NaN or infinite, which JSON cannot express")
    except (ValueError, NotJson):
        is_read = False
    if problems:
        return NotJson("the body is not JSON: it contains NaN or Infinity", problems)
    if isinstance(error, RecursionError):
        return NotJson(TOO_DEEP)
    if not text.strip():
        return NotJson("the body is empty; it must be JSON")
    found = re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", str(error))
    why, at = (found[1], int(found[2])) if found else ("it ends too early", len(body))
    if is_read and not found and (half := _half(body)) is not None:
        why, at = "half of a surrogate pair is not a character", half
    return NotJson(f"the body is not JSON: {why} ({_place(body, at)})")


def _half(body: bytes) -> int | None:
    """The place of the first half of a surrogate pair, sought in pieces as in ``tally``."""
    some, more = json_pieces.PIECE_BYTES, 500  # of the next piece; a pair has 12
    for at in range(0, len(body), some):
        found = _HALF.search(body, at, at + some + more)
        if found is not None and found.start(1) <= at + some + more - 12:
            return found.start(1)
    return None


def _place(body: bytes, at: int) -> str:
    """The position of a byte; with its line and column, from 1, if there are several lines."""
    line, before = body.count(b"\n", 0, at) + 1, body[body.rfind(b"\n", 0, at) + 1 : at]
    column = len(before.decode(errors="replace")) + 1
    return f"byte {at}" if b"\n" not in body.strip() else f"line {line}, column {column}, byte {at}"


def _unrepresentable(body: bytes) -> Invalid:
    problems = _odd(_parsed(body, parse_int=_integer), "is too large for a floating-point number")
    return Invalid(*(problems or [Problem("body", "contains a number that is too large", "finite numbers")]))


def _parsed(body: bytes | str, **how: Any) -> Any:
    """Parse a body a second time, which may need a little more depth than the first time.

    ``_number`` is written in Python so that other threads can run between two calls of it, even for a large body.
    """
    try:
        return json.loads(body, parse_float=_number, **how)
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def _number(digits: str) -> float:
    return float(digits)


def _integer(digits: str) -> int | float:
    """An integer, or infinity if no float can hold it: Python reads at most 4300 digits."""
    return int(digits) if len(digits) <= 400 else math.inf


def _odd(parsed: Any, problem: str) -> list[Problem]:
    """The first numbers that are not finite."""
    wrong = (steps for steps, value in _find(parsed, float) if not math.isfinite(value))
    return [Problem(_path(steps) or "body", problem, "a finite number") for steps in islice(wrong, PROBLEMS_MAX)]


def _find(parsed: Any, kind: type) -> Iterator[tuple[list[str | int], Any]]:
    """The values of one type, in order, each with the path to it: names and indices.

    Without recursion, because a body may nest to any depth.
    """
    steps: list[str | int] = []
    left: list[Iterator[tuple[str | int, Any]]] = [iter([("", parsed)])]
    while left:
        for step, value in left[-1]:
            found = type(value)
            if found is kind:
                yield [*steps[1:], step] if steps else [], value
            if value and found in _MEMBERS:
                steps.append(step)
                left.append(_MEMBERS[found](value))
                break
        else:
            left.pop()
            del steps[-1:]


_MEMBERS: dict[type, Callable[[Any], Iterator[tuple[str | int, Any]]]] = {
    list: enumerate,
    dict: lambda members: iter(members.items()),
    _Pairs: iter,
}


def _path(steps: Iterable[str | int]) -> str:
    """The path of a value in a form for answers: bounded, and without halves of surrogate pairs."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return path.removeprefix(".")[:PATH_MAX].encode(errors="replace").decode()


OBJECT_VALUES_MAX = 6 * COLUMNS_MAX
"""Most names and values in the body of a route that takes no rows: as many features as a model may have, each with all
its fields."""
ROW_VALUES_MAX = COLUMNS_MAX + 100  # most names and values in the body of one row
_any_object = msgspec.json.Decoder(dict[str, Any])


def json_object(body: bytes) -> dict[str, Any]:
    """The object of a route that takes no rows; raises the errors of ``large``."""
    return large(body, _any_object, OBJECT_VALUES_MAX)


UNKNOWN_FIELD = "is not a field of this request"
UNDER_FEATURES = ': put the row under "features"'
LOOKED_AT_BYTES = 65_536
"""Largest body that is read again to report all wrong fields; for a larger one only the first is reported."""
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def unknown(field: str, given: str, known: Sequence[str], suggest: bool = True) -> Problem:
    """The problem for a field that the request does not know.

    ``field`` is the path of the field, ``given`` its name; ``known`` are the fields that the request may have in this
    place, of which a similar one may be suggested.
    """
    meant = suggestion(given, known) if suggest else ""
    return Problem(field[:PATH_MAX], f"{UNKNOWN_FIELD}{meant}", [*known] or None)


def refusal(body: bytes, shape: Any, path: str, name: str) -> Invalid:
    """The error for a body with an unknown field, which should have the type ``shape``.

    ``path`` is that of the object with the field, as msgspec gives it: ``$.rows[...]``; "" for the body itself.
    """
    fields = () if path else json_pieces.fields_of(shape)
    known = [own.encode_name for own in fields]
    given = []
    if not path and len(body) <= LOOKED_AT_BYTES:
        with suppress(RecursionError):  # two calls deeper than when it was read
            given = [*_names.decode(body)]
    if not given:
        return Invalid(unknown(name, name, known))
    strange = [each for each in given if each not in known][:PROBLEMS_MAX]
    problems = [unknown(each, each, known, at < SUGGESTED_MAX) for at, each in enumerate(strange)]
    lacking = [own.encode_name for own in fields if own.required and own.encode_name not in given]
    if "prediction_id" in known and not {"features", "prediction_id"} & {*given}:
        lacking.append("features")
    is_row = "features" in lacking and all(each.problem == UNKNOWN_FIELD for each in problems)
    needs = {"features": f"is required{UNDER_FEATURES}"} if is_row else {}
    return Invalid(*problems, *(Problem(each, needs.get(each, "is required")) for each in lacking))
