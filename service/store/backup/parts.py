"""What the frames of a backup hold, MessagePack arrays but for C; fields may be added at their ends.

    H   who wrote it, when, of which models; the last model of the section before
    M   a model begins: name, incarnation
    P     tracked predictions: [id, when it expires, bytes as in the store], a page
    S     where it stands: version, configuration, what its state is
    C     up to 4 MiB of the state
    I     remembered ids: [id, when it may be forgotten, record as in the store], a page
    D     drift events, oldest first: [place, time, JSON, held back, later alarms], a page
    U     those of before the labels: [place, time by the store, time, JSON], a page
    E   the model ends: how many of each there were
    L   a model is left out: name, why
    F   the backup breaks off: why
    T   it is whole: how many models its section has, how many were left out

A model that is followed by another beginning, or by T, before its E is void: it was begun again, or deleted meanwhile.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from service.store.backup.frames import Damaged

PAGE_ITEMS = 500
"""Most items of a page."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""Incarnations and uids: parts of keys, and of messages that are split at spaces."""
Whole = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=2000)]
Item = tuple[bytes, Whole, bytes]


class _Part(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One part."""


class Header(_Part, frozen=True):
    """H: where a section is from.

    Attributes:
        service: version of the service that wrote it.
        state_version: format of its states.
        time_ms: when it was begun.
        models: pattern of names that was asked for.
        after: the section goes on after this model; empty: it is the first.
    """

    service: Text
    state_version: Whole
    time_ms: Whole
    models: Text = "*"
    after: Text = ""


class Begin(_Part, frozen=True):
    """M: a model."""

    name: Name
    incarnation: Token


class Page(_Part, frozen=True):
    """P and I: predictions or ids."""

    items: Annotated[list[Item], Meta(max_length=PAGE_ITEMS)]


class Standing(_Part, frozen=True):
    """S: a model at one version.

    Attributes:
        version, uid, time_ms, rows: of the last entry, and the rows learned up to it.
        config: of its creation, JSON.
        created_ms: when that was.
        expired: how many tracked predictions had expired without a label.
        origin: of a copy, where it is from, as in the store.
        published: how far its drift events are in the service's stream: "VERSION-INDEX JOINED"; empty: none is.
        state_bytes, state_digest, state_version: of the state that follows.
    """

    version: Whole
    uid: Token
    time_ms: Whole
    rows: Whole
    config: bytes
    created_ms: Whole
    expired: Whole
    origin: bytes
    published: Annotated[str, Meta(pattern=r"^(\d{1,16}-\d{1,16} \d{1,16})?$")]
    state_bytes: Whole
    state_digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
    state_version: Whole


Place = tuple[Whole, Whole]


class Events(_Part, frozen=True):
    """D: drift events."""

    items: Annotated[list[tuple[Place, Whole, bytes, bool, bytes]], Meta(max_length=PAGE_ITEMS)]


class Unlabelled(_Part, frozen=True):
    """U: events of before the labels."""

    items: Annotated[list[tuple[Place, Whole, Whole, bytes]], Meta(max_length=PAGE_ITEMS)]


class End(_Part, frozen=True):
    """E: how much a model has."""

    pending: Whole
    ids: Whole
    events: Whole
    unlabelled: Whole


class LeftOut(_Part, frozen=True):
    """L: a model that could not be read."""

    name: Name
    detail: Text


class BrokenOff(_Part, frozen=True):
    """F: why there is no more."""

    detail: Text


class Trailer(_Part, frozen=True):
    """T: the end of a section."""

    models: Whole
    left_out: Whole


PARTS: dict[bytes, type[Any]] = {
    b"H": Header,
    b"M": Begin,
    b"P": Page,
    b"S": Standing,
    b"C": bytes,
    b"I": Page,
    b"D": Events,
    b"U": Unlabelled,
    b"E": End,
    b"L": LeftOut,
    b"F": BrokenOff,
    b"T": Trailer,
}
_decoders = {kind: msgspec.msgpack.Decoder(part) for kind, part in PARTS.items() if part is not bytes}
_encoder = msgspec.msgpack.Encoder()
P = TypeVar("P")


def encode(part: _Part) -> bytes:
    """A part as bytes."""
    return _encoder.encode(part)


def decode(kind: bytes, payload: bytes) -> Any:
    """A part from the payload of a frame.

    Raises:
        Damaged: it is not one of this kind.
    """
    if kind == b"C":
        return payload
    try:
        return _decoders[kind].decode(payload)
    except KeyError:
        raise Damaged(f"this service knows no part of kind {kind.decode('latin-1')!r}; update it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"a part of kind {kind.decode('latin-1')!r} is not as it should be: {error}") from None
