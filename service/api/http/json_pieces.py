"""Large JSON in pieces: a thread that decodes it holds the interpreter for a piece at a time.

A list is cut where an item may end. A cut is right if and only if what stands before it decodes: behind a wrong one, in
a string or in an inner list, a quote or a bracket is left open.
"""

import re
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec

from service.runtime.threads import LARGE_BYTES

T = TypeVar("T")
PIECE_BYTES = 131_072
"""Bytes of JSON that are decoded at once: about a millisecond."""
CUTS = 4
"""How many places of each kind are tried for one cut; if none is right, the rest is decoded at once."""
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises."""
_INNER, _COMMA = re.compile(rb"[\]}][ \t\r\n]*+,"), re.compile(rb",")
_OPENING = re.compile(rb"[ \t\r\n]*\[")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
"""A JSON string; the possessive quantifiers keep no positions to backtrack to."""
_STRINGS = re.compile(rb'(?:[^"]*+"(?:[^"\\]++|\\.)*+"){1,4096}+')
"""Some thousand strings, with what stands before each."""
_syntax = msgspec.json.Decoder(msgspec.Raw)


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """What a decoder makes of a body; of a large one its lists are decoded in pieces.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: as the decoder.
    """
    if len(body) > LARGE_BYTES:
        with suppress(*UNREADABLE):  # the decoder says why
            return _whole(body, decoder.type)  # type: ignore[no-any-return]  # of the decoder's type
    return decoder.decode(body)


def count(body: bytes, *marks: bytes) -> int:
    """How often some bytes stand in a JSON body outside of its strings."""
    found = begin = 0
    while begin < len(body):
        some = _STRINGS.match(body, begin)
        end = len(body) if some is None else some.end()
        bare = _STRING.sub(b"", body[begin:end])
        found, begin = found + sum(map(bare.count, marks)), end
    return found


def commas_exceed(body: bytes, most: int) -> bool:
    """Whether more than so many commas stand outside of the strings, counted no further."""
    found = at = 0
    for string in _STRING.finditer(body):
        found += body.count(b",", at, string.start())
        if found > most:
            return True
        at = string.end()
    return found + body.count(b",", at) > most


def _whole(body: bytes, kind: Any) -> Any:
    """A list, or a struct whose fields may be lists."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        _syntax.decode(body)
        return _items(body, _decoder(kind))
    envelope, lists = _envelope(kind)
    found: Any = envelope.decode(body)
    given = {name: getattr(found, name) for name in found.__struct_fields__}
    for name in lists.keys() & given:
        if isinstance(given[name], msgspec.Raw):
            given[name] = _items(given[name], lists[name])
    return kind(**given)


def _items(text: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[list[Any]]") -> list[Any] | None:
    """The items of a list that is valid JSON; what is no list, as its decoder has it."""
    view, found = memoryview(text), list[Any]()
    opening = _OPENING.match(view)
    if opening is None:
        return decoder.decode(view)
    begin = opening.end()
    while begin < len(view):
        items, begin = _piece(view, begin, decoder)
        found += items
    return found


def _piece(view: memoryview, begin: int, decoder: "msgspec.json.Decoder[list[Any]]") -> tuple[list[Any], int]:
    """The items from one on, up to a right cut or the end of the list, and where the next one begins."""
    near = begin + PIECE_BYTES, begin + 2 * PIECE_BYTES
    for mark in chain(islice(_INNER.finditer(view, *near), CUTS), islice(_COMMA.finditer(view, *near), CUTS)):
        try:
            return decoder.decode(b"".join((b"[", view[begin : mark.end() - 1], b"]"))), mark.end()
        except msgspec.ValidationError:
            raise
        except UNREADABLE:
            continue
    return decoder.decode(b"".join((b"[", view[begin:]))), len(view)


@cache
def _envelope(kind: type[msgspec.Struct]) -> "tuple[msgspec.json.Decoder[Any], dict[str, msgspec.json.Decoder[Any]]]":
    """A decoder of a struct that leaves lists as they stand, and the decoders of these."""
    shape: Any = msgspec.inspect.type_info(kind)
    long = {own.name for own in shape.fields if _is_list(own.type)}
    owned = msgspec.structs.fields(kind)
    fields: Any = [(own.name, msgspec.Raw if own.name in long else own.type, own.default) for own in owned]
    names = {own.name: own.encode_name for own in owned}
    forbidden = kind.__struct_config__.forbid_unknown_fields
    envelope = msgspec.defstruct("Envelope", fields, rename=names, forbid_unknown_fields=forbidden, kw_only=True)
    return msgspec.json.Decoder(envelope), {
        own.name: msgspec.json.Decoder(own.type) for own in owned if own.name in long
    }


def _is_list(shape: Any) -> bool:
    if isinstance(shape, msgspec.inspect.Metadata):
        return _is_list(shape.type)
    if isinstance(shape, msgspec.inspect.UnionType):
        return any(map(_is_list, shape.types))
    return isinstance(shape, msgspec.inspect.ListType)


_decoder = cache(msgspec.json.Decoder)
"""Of the few lists that bodies are read as."""
