"""Large JSON in pieces: a thread that decodes it holds the interpreter for a piece at a time."""

import re
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import msgspec

from service.runtime.threads import LARGE_BYTES

T = TypeVar("T")
PIECE_BYTES = 131_072  # bytes of JSON that are decoded at once: about a millisecond
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # the errors of decoding
_LIST = re.compile(rb"[ \t\r\n]*\[")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
"""A JSON string; the possessive quantifiers keep no positions to backtrack to."""
_STRINGS = re.compile(rb'(?:[^"]*+"(?:[^"\\]++|\\.)*+"){1,4096}+')
"""Up to 4096 strings, each with the text before it."""
_members, _items = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Decoder(list[msgspec.Raw])
_decoder = cache(msgspec.json.Decoder)  # decoders of the few types that fields of bodies have
fields_of = cache(msgspec.structs.fields)
"""The fields of a struct, which msgspec would collect again for each call."""


def is_list(text: bytes | msgspec.Raw) -> bool:
    """Whether JSON is a list."""
    return _LIST.match(memoryview(text)) is not None


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode a body; the lists of a large one are decoded in pieces. Raises ``UNREADABLE``, like the decoder."""
    if len(body) > LARGE_BYTES:
        with suppress(*UNREADABLE, KeyError, TypeError):  # the decoder below says what is wrong
            return _whole(body, decoder.type)  # type: ignore[no-any-return]  # of the decoder's type
    return decoder.decode(body)


def count(body: bytes, *marks: bytes) -> int:
    """How often some bytes occur in a JSON body outside its strings."""
    found = begin = 0
    while begin < len(body):
        some = _STRINGS.match(body, begin)
        end = len(body) if some is None else some.end()
        bare = _STRING.sub(b"", body[begin:end])
        found, begin = found + sum(map(bare.count, marks)), end
    return found


def _whole(body: bytes, kind: Any) -> Any:
    """A list, or a struct whose fields may be lists."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return _value(body, kind)
    fields = {own.encode_name: own for own in fields_of(kind)}
    given = _members.decode(body).items()
    return kind(**{fields[name].name: _value(raw, fields[name].type) for name, raw in given})


def _value(text: bytes | msgspec.Raw, kind: Any) -> Any:
    """A value of a type; a list is decoded some items at a time."""
    decoder = _decoder(kind)
    if not is_list(text):
        return decoder.decode(text)
    found, items = list[Any](), _items.decode(text)
    some = 1 + len(items) * PIECE_BYTES // len(memoryview(text))
    for begin in range(0, len(items), some):
        found += decoder.decode(b"[" + b",".join(items[begin : begin + some]) + b"]")
    return found
