"""Summaries of models, for lists: one small record in the meta HASH of each, so that listing loads nothing.

    summary = "VERSION:TIME:" + JSON [1, the fields of core.model.Summary ...]

A record describes one version; TIME (ms) is the time of its entry. It may lag behind the log but never run ahead of it:
an append stores the summary of the state before it, and ``Catalog.write_summaries`` only those of versions that are on
the log. Of two records the later version stays.
"""

from typing import Any, NamedTuple

import msgspec

from core.model import Summary
from service.store.keys import cached_keys
from service.store.lua import script
from service.store.redis.connection import Call

FORMAT = 1  # version of the record; one with another number is not read
SUMMARY = script("store_summary", "summary")
DOWN = "down"  # the phase of a model that is out of service
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


class StoredSummary(NamedTuple):
    """The summary of a model at one version, and the time of that version's entry."""

    version: int
    time_ms: int
    figures: Summary


class SummaryWrite(NamedTuple):
    """A record to store if the stored one has a version below ``least``; ``uid`` is the uid of its version."""

    name: str
    incarnation: str
    version: int
    uid: str
    least: int
    record: bytes


def encode(summary: StoredSummary) -> bytes:
    """The record of a model at a version."""
    return b"%d:%d:%b" % (summary.version, summary.time_ms, encode_first(summary.figures))


def encode_first(figures: Summary) -> bytes:
    """A record without version and time, which the store adds when it creates the model."""
    return _encode((FORMAT, *figures))


def down(summary: StoredSummary) -> StoredSummary:
    """The summary of a model that is now out of service."""
    return summary._replace(figures=summary.figures._replace(phase=DOWN))


def decode(record: bytes | None) -> StoredSummary | None:
    """The inverse of ``encode``; None without a record that this code reads."""
    if not record:
        return None
    try:
        version, time_ms, rest = record.split(b":", 2)
        form, *figures = _decode(rest)
        if form != FORMAT:
            return None
        known = figures[: len(Summary._fields)]  # a later version may add fields after these
        return StoredSummary(int(version), int(time_ms), msgspec.convert(known, Summary))
    except (ValueError, msgspec.MsgspecError):
        return None


def write_call(write: SummaryWrite) -> Call:
    """The call that stores a record.

    It returns the version that is stored afterwards; -1 if the model is gone, or its log does not have the version.
    """
    args = (write.incarnation, write.version, write.uid, write.least, write.record)
    return Call(SUMMARY, (cached_keys(write.name, write.incarnation).meta,), args)
