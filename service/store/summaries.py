"""Summaries of models, for lists: one small record in the meta HASH of each, so that listing loads nothing.

    summary = "VERSION:TIME:" + JSON [1, algorithm, task, rows, score, baseline, phase, drift, challengers, ahead,
                                      mean cost | null, baseline cost | null, paired score | null]
              drift = [row, time, kind, class | null] of the newest event | null
              where there is none, no challenger, no cost and no paired score, it ends with the phase

All of a record is of one version, TIME (ms) the time of its entry. It may lag behind the log, never run ahead of it: an
append stores the summary of the state before it, and ``Summaries.write`` of versions that are on the log only. Of two
records the later version stays.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from core.model import LastDrift, Summary
from service.errors import Unavailable
from service.store.appends import failed
from service.store.keys import cached_keys
from service.store.redis.connection import Call, Connection
from service.store.scripts import SUMMARY

FORMAT: Literal[1] = 1
"""Version of the record; one with another number is not read."""
DOWN = "down"
"""The phase of a model that is out of service."""


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """The JSON of a record. A later version may add fields behind these, which a tuple would refuse."""

    format: Literal[1]
    algorithm: str
    task: str
    rows: int | None
    score: float | None
    baseline: float | None
    phase: str
    drift: LastDrift | None = None
    challengers: int = 0
    ahead: int = 0
    mean_cost: float | None = None
    baseline_cost: float | None = None
    paired_score: float | None = None


_SHORT = 6
"""Figures of a record without drift, challengers, costs and paired score."""
_NOTHING = None, 0, 0, None, None, None
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Record)


class StoredSummary(NamedTuple):
    """The summary of a model at one version.

    Attributes:
        version, time_ms: the version, and the time of its entry.
        algorithm and so on: as in ``core.model.Summary``; ``phase`` is "down" while the model is out of service.
            ``rows`` and the scores are None where nobody has known them yet.
    """

    version: int
    time_ms: int
    algorithm: str
    task: str
    rows: int | None
    score: float | None
    baseline: float | None
    phase: str
    drift: LastDrift | None = None
    challengers: int = 0
    ahead: int = 0
    mean_cost: float | None = None
    baseline_cost: float | None = None
    paired_score: float | None = None


class SummaryWrite(NamedTuple):
    """A record to be stored.

    Attributes:
        name, incarnation: the model.
        version, uid: of which entry it tells.
        least: it is stored only while the stored record is of a version below this one.
        record: its bytes.
    """

    name: str
    incarnation: str
    version: int
    uid: str
    least: int
    record: bytes


def encode(summary: StoredSummary) -> bytes:
    """The record of a model at a version."""
    version, time_ms, *figures = summary
    return b"%d:%d:%b" % (version, time_ms, _written(figures))


def encode_first(summary: Summary) -> bytes:
    """A record without version and time, which the store adds when it creates the model."""
    return _written(summary)


def _written(figures: Sequence[Any]) -> bytes:
    """Figures as JSON; most classifiers have no drift, challengers or costs, and their records end before these."""
    shown = figures[:_SHORT] if tuple(figures[_SHORT:]) == _NOTHING else figures
    return _encoder.encode((FORMAT, *shown))


def down(summary: StoredSummary) -> StoredSummary:
    """The same of a model that is out of service."""
    return summary._replace(phase=DOWN)


def decode(record: bytes | None) -> StoredSummary | None:
    """The inverse of ``encode``; None where there is no record, or none that this code reads."""
    if not record:
        return None
    try:
        version, time_ms, rest = record.split(b":", 2)
        _, *found = msgspec.structs.astuple(_decoder.decode(rest))
        return StoredSummary(int(version), int(time_ms), *found)
    except (ValueError, msgspec.MsgspecError):
        return None


class Summaries:
    """Writes the summaries of many models at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, writes: Sequence[SummaryWrite]) -> list[int | Unavailable]:
        """Store records, in one round trip; what fails for one does not concern the others.

        Returns:
            Per record the version that is stored now; -1 where the model is gone, or the version not on its log (any
            more); Unavailable where the store did not answer, or cannot.
        """
        results = await self._connection.run([_call(write) for write in writes]) if writes else []
        return [failed(result) if isinstance(result, Exception) else int(result) for result in results]


def _call(write: SummaryWrite) -> Call:
    args = (write.incarnation, write.version, write.uid, write.least, write.record)
    return Call(SUMMARY, (cached_keys(write.name, write.incarnation).meta,), args)
