"""A model's log, applied by a single model: the reference for all replicas."""

from collections import Counter

from msgspec import structs

from core.config import Config
from core.entry import Entry, Outcome, Restore, Rows, Segment, Switch
from core.model import Model, save
from core.model.apply import apply
from service.runtime.replicas import changes
from service.store.log import codec
from service.store.log.entries import RawEntry, name_of
from service.store.log.entries import raw_entry as read_entry


class Serial:
    """The replay of ``history``: every entry that was not lost, by version.

    ``wanted``: versions whose states are kept; ``written``: states and segments that entries name, by digest.
    """

    def __init__(
        self,
        config: Config,
        incarnation: str,
        history: dict[int, list[bytes]],
        wanted: set[int],
        written: dict[str, bytes],
    ) -> None:
        self.model, self._written = Model.first(config), written
        self.learned: Counter[str] = Counter()  # how often each id, or row without one, was learned
        self.answers: dict[str, Outcome] = {}  # by id, or row without one
        self.others: dict[int, list[Outcome]] = {}  # of segments with neither rows nor an id, by version
        # Uids and rows of every version from 0 on, and the states of those wanted.
        self.uids, self.rows, self.states = [incarnation], [0], {0: save.to_bytes(self.model)}
        self.counts: Counter[str] = Counter()  # outcomes by kind
        self.time_ms = 0  # of the last entry
        for version in sorted(history):
            fields = history[version]
            assert fields[3].decode() == self.uids[-1], "the chain of uids is broken"
            self._apply(read_entry([b"%d-0" % version, fields]))
            if version in wanted:
                self.states[version] = save.to_bytes(self.model)

    def _apply(self, raw: RawEntry) -> None:
        entry = whole_entry(raw, self._written)
        self.counts["segments in pieces"] += sum(name_of(blob) is not None for _, blob, _ in raw.segments)
        for segment, outcome in zip(entry.segments, apply(self.model, entry), strict=True):
            outcome.version = raw.version
            if outcome.phase is not None:
                outcome.feature_state = changes.record(self.model)
            self._note(segment, outcome)
        self.uids.append(raw.uid)
        self.time_ms = raw.time_ms
        self.rows.append(self.model.rows)

    def _note(self, segment: Segment, answer: Outcome) -> None:
        self.counts[f"{'applied' if answer.refusal is None else 'refused'} {type(segment).__name__}"] += 1
        if isinstance(segment, Switch) and answer.refusal is None:
            self.counts[segment.action] += 1
        if isinstance(segment, Rows):
            kept = [at for at in range(len(segment.X)) if at not in segment.skip]
            keys = [segment.ids[at] if segment.ids else f"anonymous {segment.y[at]:g}" for at in kept]
            if answer.refusal is None:
                self.learned.update(keys)
            if not segment.ids:
                refused = answer.refusal is not None
                told = [] if refused else codec.row_items(keys, answer)
                self.answers |= dict.fromkeys(keys, answer) | {key: codec.decode_answer(blob) for key, _, blob in told}
        elif not segment.ids:
            self.others.setdefault(answer.version, []).append(answer)
        self.answers |= {key: codec.decode_answer(blob) for key, _, blob in codec.items_of(segment, answer)}


def whole_entry(raw: RawEntry, written: dict[str, bytes]) -> Entry:
    """An entry with everything that it names."""
    named = [(ordinal, name_of(blob), blob, skip) for ordinal, blob, skip in raw.segments]
    blobs = [(ordinal, blob if name is None else written[name[0]], skip) for ordinal, name, blob, skip in named]
    entry = codec.entry(structs.replace(raw, segments=tuple(blobs)))
    segments = [
        structs.replace(segment, state=written[segment.digest]) if isinstance(segment, Restore) else segment
        for segment in entry.segments
    ]
    return structs.replace(entry, segments=tuple(segments))


def names_of(version: int, fields: list[bytes], written: dict[str, bytes]) -> frozenset[str]:
    """The ids of an entry, and the verdict's names for its rows without one."""
    found: set[str] = set()
    for segment in whole_entry(read_entry([b"%d-0" % version, fields]), written).segments:
        found.update(segment.ids)
        if isinstance(segment, Rows) and not segment.ids:
            found.update(f"anonymous {y:g}" for y in segment.y)
    return frozenset(found)
