"""States and large segments that entries name: written before the entry is appended, read before it is applied."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec import structs

from core.contract import Buffer
from core.entry import Entry, Restore
from service.errors import QueueFull
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.threads import in_thread_if_large
from service.store.log.appends import NamedState, SegmentIn
from service.store.log.entries import RawEntry, name, name_of
from service.store.states.pieces import digest
from service.store.states.states import States

NAMED_BYTES = 2 * 2**20
"""A larger segment is written in pieces, and its entry names it: the store works on one command at a time, so a large
one delays all others."""


@dataclass(slots=True)
class StateBudget:
    """Bytes of the states and large documents that requests of this process hold, bounded."""

    most: int
    used: int = 0

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Count ``size`` bytes while held; ``QueueFull`` if others hold too much. A lone state may have any size."""
        if self.used and self.used + size > self.most:
            raise QueueFull(
                f"{self.used} bytes of states and large documents are being transferred; the {size} of this one would "
                f"exceed the limit of {self.most} (twice ONEPASS_MODEL_LIMIT_MB)"
            )
        self.used += size
        try:
            yield
        finally:
            self.used -= size


async def take_over(
    states: States, replica: Replica, state: Buffer, source: str, ids: tuple[str, ...] = (), digests: Sequence[str] = ()
) -> Reply:
    """Make a model take over a state by an entry of its log; ``save.from_bytes`` must have accepted the state.

    ``source`` is "restore" or "import"; ``ids`` and their ``digests`` recognise a repeated request. If it fails, the
    pieces that were written expire.
    """
    named = await in_thread_if_large(len(state), digest, state)
    await states.write(replica.name, replica.incarnation, named, state)
    return await replica.inbox.submit(Restore(state, source, ids, named, len(state)), digests)


async def in_pieces(states: States, replica: Replica, sent: SegmentIn) -> SegmentIn:
    """A segment as it is to be appended: if it is large, its bytes are written in pieces, which the entry names.

    If that fails, the pieces already written expire.
    """
    size = len(sent.blob)
    if size <= NAMED_BYTES:
        return sent
    named = await in_thread_if_large(size, digest, sent.blob)
    await states.write(replica.name, replica.incarnation, named, sent.blob)
    return structs.replace(sent, blob=name(named, size), state=NamedState(named, size))


async def with_segments(states: States, replica: Replica, raw: RawEntry) -> RawEntry:
    """An entry with the bytes of the segments that it names; ``StateLost`` if they are not in the store."""
    if all(name_of(blob) is None for _, blob, _ in raw.segments):
        return raw
    segments: list[tuple[int, Buffer, tuple[int, ...]]] = []
    for ordinal, blob, skip in raw.segments:
        named = name_of(blob)
        whole = blob if named is None else await states.read(replica.name, replica.incarnation, *named)
        segments.append((ordinal, whole, skip))
    return structs.replace(raw, segments=tuple(segments))


async def with_states(states: States, name: str, incarnation: str, entry: Entry) -> Entry:
    """An entry with the bytes of the states that it names; ``StateLost`` if they are not in the store."""
    if not any(isinstance(segment, Restore) for segment in entry.segments):
        return entry
    segments = [
        structs.replace(segment, state=await states.read(name, incarnation, segment.digest, segment.size))
        if isinstance(segment, Restore)
        else segment
        for segment in entry.segments
    ]
    return structs.replace(entry, segments=tuple(segments))
