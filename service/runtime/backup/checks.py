"""What is checked of a model of a backup before anything of it is in the store: all that a service would read later.

Each of these raises ValueError, or ``core.problems.Invalid``, which is one, saying what is wrong.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from core.config import Config
from core.contract import Buffer
from core.machine import STATE_VERSION, Learners, Machine
from service.store import codec, tracked
from service.store.appends import decode_seen
from service.store.backup.parts import Begin, Item, Place, Standing
from service.store.copies import Origin
from service.store.events import EventKey
from service.store.keys import text
from service.store.pieces import digest
from service.store.snapshots import SnapshotInfo
from service.store.summaries import StoredSummary, encode

ID_BYTES_MAX = 1000
"""Of a prediction id, or an id with its prefix: 200 characters and some more."""


SPACES_MAX = 1000


def standing(found: Standing, model: Begin) -> None:
    """Check what is said of a model beside its state."""
    if found.state_version > STATE_VERSION:
        raise ValueError(
            f"its state has format {found.state_version}, this service reads up to {STATE_VERSION}: update the service"
        )
    if found.version == 0 and found.uid != model.incarnation:
        raise ValueError("version 0 is named by the incarnation")
    Config.parse(codec.config(found.config))
    Origin.from_bytes(found.origin)


def state(found: Buffer, model: Begin, told: Standing, widths: "Widths", admit: Callable[[Learners], None]) -> bytes:
    """Check a state whole, as an import is, and that tracked rows are of its spaces; the model's record in lists."""
    if len(found) != told.state_bytes or digest(found) != told.state_digest:
        raise ValueError("its state has not the length and digest that it was written with")
    machine, stamp = Machine.from_bytes(found, admit)
    expected = {"incarnation": model.incarnation, "version": told.version, "uid": told.uid}
    if stamp != expected or machine.rows != told.rows:
        raise ValueError("its state is of another model or version than it says")
    if any(space in machine.spaces and machine.raw_width(space) != width for space, width in widths):
        raise ValueError("a tracked prediction has another number of features than its space")
    return encode(StoredSummary(told.version, told.time_ms, *machine.summary()))


Widths = set[tuple[str, int]]
"""Spaces of tracked rows, and how many numbers such a row has."""


def pending(items: Sequence[Item], widths: Widths) -> None:
    """Check tracked predictions, and note the widths of their rows."""
    for identity, _, blob in items:
        _identity(identity)
        found = tracked.decode(blob)
        _ = found.served  # its lag columns are whole numbers
        if np.isinf(found.raw).any():
            raise ValueError("a tracked prediction holds an infinite number")
        widths.add((found.space, found.raw.shape[1]))
        if len(widths) > SPACES_MAX:
            raise ValueError(f"its tracked predictions are of more than {SPACES_MAX} feature spaces")


def ids(items: Sequence[Item], version: int) -> None:
    """Check remembered ids, none of which may be of a later version than the state."""
    for identity, _, record in items:
        _identity(identity)
        seen = decode_seen(record)
        if not (0 < seen.version <= version and seen.ordinal >= 0 and seen.row >= 0):
            raise ValueError("an id is of a version that its state does not have")
        if seen.answer is not None:
            codec.decode_answer(seen.answer)


def _identity(identity: bytes) -> None:
    if not 0 < len(identity) <= ID_BYTES_MAX:
        raise ValueError("an id is empty, or too long")
    text(identity)


class EventOrder:
    """Checks the drift events of one stream, page by page.

    Args:
        model: whose they are.
        version: that none of them may be after.
    """

    def __init__(self, model: Begin, version: int) -> None:
        self._model, self._version, self._last = model, version, (-1, -1)

    def check(self, place: Place, body: bytes, later: bytes = b"") -> None:
        """Check the next event."""
        if not self._last < place or place == (0, 0) or place[0] > self._version:
            raise ValueError("drift events are out of order, or after its state")
        self._last = place
        told = msgspec.json.decode(body, type=_Event)
        if (told.id, told.model) != (f"{self._model.incarnation}-{EventKey(*place)}", self._model.name):
            raise ValueError("a drift event is of another model or place than it says")
        if later:
            count, _, alarms = later.partition(b" ")
            msgspec.json.decode(alarms, type=list[dict[str, object]])
            if not 0 < int(count) <= 2**53:
                raise ValueError("later alarms of a drift event are not counted")


class _Event(msgspec.Struct):
    """What is looked at of the JSON of an event, all of which is shown as it stands."""

    id: str
    model: str
    time: str
    kind: str


def snapshot_info(told: Standing) -> SnapshotInfo:
    """The description of the state, as the list of snapshots has it."""
    return SnapshotInfo(
        told.version, told.uid, told.rows, told.time_ms, told.state_bytes, told.state_digest, told.state_version
    )
