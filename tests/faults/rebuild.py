"""The reference: what a model must be, computed from its log by a single model in the test's process."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import hiredis

from core.config import Config
from core.entry import Outcome, Rows
from core.model import Model, save
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from core.state import envelope
from service.store.catalog import Catalog, ModelMeta
from service.store.keys import ModelKeys
from service.store.log import codec
from service.store.log.entries import RawEntry
from service.store.log.entries import raw_entry as read_entry
from service.store.log.log import Log
from service.store.redis.connection import Connection
from service.store.states.snapshots import Snapshots
from tests.faults.load import Load, Row
from tests.faults.processes import Service

Answered = TypeVar("Answered")
LEARNT = ("prediction", "loss", "version", "rows")


class Rebuilt(NamedTuple):
    """The model at the head of its log, how often each id was learned, and the answer its first request must get."""

    model: Model
    learned: Counter[str]
    answers: dict[str, dict[str, Any]]


def asked(url: str, ask: Callable[[Connection], Awaitable[Answered]]) -> Answered:
    """Ask a store on a separate connection."""

    async def run() -> Answered:
        connection = Connection(url, 10)
        try:
            return await ask(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


def meta(url: str, name: str = "m") -> ModelMeta:
    """The store's record of a model."""
    found = asked(url, lambda connection: Catalog(connection).read(name))
    assert found is not None
    return found


def config_of(url: str, name: str = "m") -> Config:
    """The configuration that a model was created with."""
    return Config.parse(codec.config(meta(url, name).config))


def whole_log(url: str, name: str = "m") -> list[RawEntry]:
    """All entries of a log that was not trimmed."""
    incarnation = meta(url, name).incarnation
    more = asked(url, lambda store: Log(store).read_after(name, incarnation, 0, incarnation, 2**30, 10**6))
    assert "ok" == more.code
    assert more.complete
    return list(more.entries)


def oldest_snapshot(url: str, name: str = "m") -> bytes | None:
    """The oldest snapshot that is kept, complete."""
    incarnation = meta(url, name).incarnation

    async def read(connection: Connection) -> bytes | None:
        kept = Snapshots(connection)
        infos = await kept.list(name, incarnation)
        return await kept.read(name, incarnation, infos[-1]) if infos else None

    return asked(url, read)


def history(data: Path, url: str, name: str = "m") -> list[RawEntry]:
    """Every entry ever appended to a log, trimmed or not, from the store's append-only file."""
    key = ModelKeys(name, meta(url, name).incarnation).log.encode()
    files = sorted(data.glob("appendonlydir/*.incr.aof")) or [data / "appendonly.aof"]
    found: list[RawEntry] = []
    for file in files:
        reader = hiredis.Reader()
        reader.feed(file.read_bytes())
        while (command := reader.gets()) is not False:
            if command[0].upper() == b"XADD" and command[1] == key:
                found.append(read_entry([command[2], command[3:]]))
    return found


def rebuild(config: Config, entries: Iterable[RawEntry], model: Model | None = None) -> Rebuilt:
    """Apply a log entry by entry to one model."""
    single_threaded()
    model = Model.first(config) if model is None else model
    learned: Counter[str] = Counter()
    answers: dict[str, dict[str, Any]] = {}
    for raw in entries:
        entry = codec.entry(raw)
        for segment, outcome in zip(entry.segments, apply(model, entry), strict=True):
            if not isinstance(segment, Rows):
                continue
            learned.update(identity for row, identity in enumerate(segment.ids) if row not in segment.skip)
            outcome.version = entry.version
            for identity, _, blob in codec.items_of(segment, outcome):
                answers[identity.removeprefix("i:")] = _learnt(codec.decode_answer(blob))
    return Rebuilt(model, Counter({i.removeprefix("i:"): n for i, n in learned.items()}), answers)


def _learnt(answer: Outcome) -> dict[str, Any]:
    return dict(zip(LEARNT, (answer.predictions[0], answer.losses[0], answer.version, answer.rows), strict=True))


def learnt(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of an acknowledgement that describe the row."""
    return {name: body[name] for name in LEARNT}


def stamp(state: bytes) -> dict[str, Any]:
    """The stamp of a state: where in the log it was taken."""
    return dict(envelope.load(state)[1]["stamp"])


def bare(state: bytes) -> bytes:
    """A state without its stamp; equal for models that learned the same."""
    return save.to_bytes(save.from_bytes(state)[0])


def judge(
    service: Service, rows: Sequence[Row], *loads: Load, name: str = "m", entries: Sequence[RawEntry] | None = None
) -> None:
    """Every row is in exactly once, and every answer and every bit of the state equals the serial replay.

    ``rows``: all ever sent to the model; ``entries``: its log, if the store has trimmed it.
    """
    entries = whole_log(service.store_url, name) if entries is None else entries
    serial = rebuild(config_of(service.store_url, name), entries)
    state = service.state(name)
    assert Counter(row.id for row in rows) == serial.learned
    assert len(rows) == service.get(f"/models/{name}")["rows"]
    for load in loads:
        assert {i: serial.answers[i] for i in load.answers} == {i: learnt(a) for i, a in load.answers.items()}
    assert save.to_bytes(serial.model, stamp(state)) == state
    assert (len(entries), entries[-1].uid) == (stamp(state)["version"], stamp(state)["uid"])


def repeat(service: Service, rows: Sequence[Row], load: Load, clients: int = 8, name: str = "m") -> None:
    """Send rows again: they are duplicates and get their first answers."""
    before = service.state(name)
    again = Load([service], rows, clients, name).run()
    assert {True} == {answer["duplicate"] for answer in again.answers.values()}
    assert {row.id: learnt(load.answers[row.id]) for row in rows} == {i: learnt(a) for i, a in again.answers.items()}
    assert before == service.state(name)


def settle(
    service: Service, rows: Sequence[Row], load: Load, name: str = "m", entries: Sequence[RawEntry] | None = None
) -> None:
    """Judge a load that contains all rows of a model, and send them again."""
    judge(service, rows, load, name=name, entries=entries)
    repeat(service, rows, load, name=name)
