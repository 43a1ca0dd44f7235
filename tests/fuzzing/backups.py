"""A small backup, made by hand: whole, and each of its parts, with what a restore checks of them."""

import numpy as np

from core.config import Config
from core.entry import ServedPrediction
from core.machine import STATE_VERSION, Machine
from service.runtime.backup import checks
from service.runtime.backup.checks import EventOrder
from service.store import codec, tracked
from service.store.backup import parts
from service.store.backup.contents import Contents, read_all
from service.store.backup.frames import FrameReader, FrameWriter
from service.store.backup.parts import (
    Begin,
    BrokenOff,
    End,
    Events,
    Header,
    LeftOut,
    Page,
    Standing,
    Trailer,
    Unlabelled,
)
from service.store.codec import Answer
from service.store.pieces import digest

MODEL = Begin("m", "0123456789abcdef")
VERSION = 3
CONFIG = Config.parse({"task": "regression", "algorithm": "rls", "features": ["a", "b"]})


def _state():
    stamp = {"incarnation": MODEL.incarnation, "version": VERSION, "uid": "w.3"}
    return Machine(CONFIG).to_bytes(stamp)


def _event(place):
    body = b'{"id":"%b-%d-%d","model":"m","time":"2026-01-01T00:00:00.000Z","kind":"error_rate"}'
    return body % (MODEL.incarnation.encode(), *place)


def made():
    """Kinds and payloads of a backup of one model, and of one that is left out."""
    row = tracked.encode("s", np.array([[1.0, 2.0]]), ServedPrediction(1.5, None), VERSION)
    record = b"2:0:0:d:" + codec.encode_answer(Answer(1, 2, 2, [1.5], [0.25]))
    state = _state()
    config, own = CONFIG.canonical.encode(), (len(state), digest(state), STATE_VERSION)
    standing = Standing(VERSION, "w.3", 7, 0, config, 5, 1, b"origin 0f 4 a key", "2-0 1", *own)
    events = [((2, 0), 6, _event((2, 0)), False, b'1 [{"row":3}]'), ((3, 1), 7, _event((3, 1)), True, b"")]
    return [
        (b"H", Header("1.0", STATE_VERSION, 8, "*", "")),
        (b"M", MODEL),
        (b"P", Page([(b"asked", 9, row)])),
        (b"S", standing),
        (b"C", state),
        (b"I", Page([(b"i:one", 9, record), (b"i:two", 9, b"3:0:1:d:")])),
        (b"D", Events(events)),
        (b"U", Unlabelled([((3, 10**9), 7, 7, _event((3, 10**9)))])),
        (b"E", End(1, 2, 2, 1)),
        (b"L", LeftOut("n", "it is broken")),
        (b"T", Trailer(1, 1)),
    ]


def whole():
    """The backup."""
    frames = FrameWriter()
    return b"".join(frames.frame(kind, _payload(part)) for kind, part in made())


def _payload(part):
    return part if isinstance(part, bytes) else parts.encode(part)


def read_whole(data):
    """Read a backup and check its order; one that is cut off is refused."""
    contents = Contents()
    read_all(FrameReader(2**20), contents, data)
    if not contents.finished:
        raise ValueError("it is cut off")


def single_parts():
    """Each part behind its kind."""
    found = [kind + _payload(part) for kind, part in (*made(), (b"F", BrokenOff("the store is away")))]
    return [one for one in found if one[:1] != b"C"]


def read_part(data):
    """Decode a part, and check it as a restore does."""
    kind = data[:1]
    part = parts.decode(kind, data[1:])
    if kind == b"S":
        checks.standing(part, MODEL)
    elif kind == b"P":
        checks.pending(part.items, set())
    elif kind == b"I":
        checks.ids(part.items, VERSION)
    elif kind in (b"D", b"U"):
        order = EventOrder(MODEL, VERSION)
        for item in part.items:
            order.check(item[0], item[2] if kind == b"D" else item[3], item[4] if kind == b"D" else b"")
