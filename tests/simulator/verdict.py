"""The verdict on a schedule: what has to be true after everything that was done to the replicas."""

import asyncio
import json
from collections import Counter
from typing import Any

from core.config import Config
from core.entry import Rows
from core.machine import Machine
from service.errors import ModelDown, OnepassError
from service.runtime.engine import Freshness
from service.store import codec
from service.store.entries import raw_entry as read_entry
from service.store.keys import ModelKeys
from tests.simulator.network import TIMEOUT_S

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})
NAME = "m"


class Verdict:
    """The part of a schedule that looks at what has become of it."""

    world: Any
    members: list[Any]
    told: dict[str, list[Any]]
    dropped: list[tuple[str, int, frozenset[str]]]
    owed: list[Any]
    counts: Counter[str]
    _torn: bool
    _anyone: Any
    _rows: Any

    async def judge(self) -> None:
        data = self.world.scripts.data
        meta = data.hashes.get(ModelKeys(NAME, "").meta)
        replicas = [await self._held(member) for member in self.members]
        if meta is None:
            assert {"NotFound"} >= {r for r in replicas if isinstance(r, str)}, replicas
            return
        incarnation = meta[b"incarnation"].decode()
        keys = ModelKeys(NAME, incarnation)
        history = data.history.get(keys.log, {})
        assert [*range(1, len(history) + 1)] == sorted(history), "a version is missing"
        assert len(history) == int(meta[b"version"])
        kept = {int(version) for version in data.hashes.get(keys.snapshots, {})}
        serial = Serial(incarnation, history, kept)
        down = [r for r in replicas if isinstance(r, str)]
        if down:
            # Loud, and only where a cut has left neither a snapshot that joins nor the log's beginning.
            assert {"ModelDown"} == set(down), down
            assert not self._loadable(keys, serial), down
            self.counts["refused-loudly"] += 1
        self._judge_replicas([r for r in replicas if not isinstance(r, str)], serial)
        self._judge_told(incarnation, serial)
        self._judge_snapshots(keys, serial)
        if not down:
            await self._repeat(incarnation, serial)

    def _loadable(self, keys: ModelKeys, serial: "Serial") -> bool:
        """Whether there is a way to the head."""
        data = self.world.scripts.data
        log, head = data.logs.get(keys.log, {}), len(serial.uids) - 1
        infos = [json.loads(info) for info in data.hashes.get(keys.snapshots, {}).values()]
        starts = [0, *(info["version"] for info in infos if serial.uids[info["version"] :][:1] == [info["uid"]])]
        return any(start == head or start + 1 in log for start in starts)

    async def _repeat(self, incarnation: str, serial: "Serial") -> None:
        """Sent once more, an id is known, and answered as the log says."""
        member = self._anyone()
        again = [i for i in sorted(serial.answers) if i in self.told][:3]
        for identity in again if member is not None else ():
            replica = await member.engine.replica(NAME)
            rows = self._rows((identity,))
            try:
                reply = await replica.inbox.submit(rows, [f"{y:g}" for y in rows.y])
            except ModelDown:
                if self._torn:
                    return
                raise
            assert 1 == reply.duplicates
            said = reply.answer
            assert serial.answers[identity] == (said.predictions[0], said.losses[0], said.version, said.rows)

    async def _held(self, member: Any) -> Any:
        """The replica as it is after the calm; an error by its name."""
        try:
            async with asyncio.timeout(20 * TIMEOUT_S):
                replica = await member.engine.replica(NAME, Freshness(strong=True))
        except OnepassError as error:
            return type(error).__name__
        lag = member.engine.lags
        assert [] == lag, f"{member.number} still lags: {lag}"
        return replica

    def _judge_replicas(self, replicas: list[Any], serial: "Serial") -> None:
        for replica in replicas:
            assert len(serial.uids) - 1 == replica.version, "a replica is not at the head"
            assert serial.machine.to_bytes() == replica.machine.to_bytes(), "states differ"
            assert replica.inbox.idle, "somebody waits"
            assert {} == replica.progress.awaited, "a reader waits"
        for member, replica, before, version, uid in self.owed:
            held = member in self.members and replica in replicas
            back = serial.uids[version : version + 1] == [uid]  # a packet of the past has brought it back
            if held and not back:
                assert member.engine.stats.lost_tails > before, "a lost tail was not reported"

    def _judge_told(self, incarnation: str, serial: "Serial") -> None:
        """Nothing twice; what was acknowledged is in as it was told, or was in an entry that the store has lost."""
        assert {1} >= set(serial.learned.values()), serial.learned
        for identity, acknowledgements in self.told.items():
            for told in acknowledgements:
                if told.incarnation != incarnation:
                    continue
                if serial.answers.get(identity) == told.answer or (told.version < 0 and identity in serial.answers):
                    continue
                lost = any(
                    gone == incarnation and identity in ids and told.version in (version, -1)
                    for gone, version, ids in self.dropped
                )
                assert lost, f"{identity} was acknowledged ({told}), the log says {serial.answers.get(identity)}"

    def _judge_snapshots(self, keys: ModelKeys, serial: "Serial") -> None:
        """A snapshot that joins the log is the state of its version."""
        hashes = self.world.scripts.data.hashes
        for version in map(int, hashes.get(keys.snapshots, {})):
            blob = b"".join(hashes.get(keys.chunks(version), {}).values())
            if version not in serial.states or not blob:
                continue
            machine, stamp = Machine.from_bytes(blob)
            if stamp["uid"] == serial.uids[version]:
                assert serial.states[version] == machine.to_bytes(), f"snapshot {version} is not its version's state"


class Serial:
    """The log of a model, applied by one machine and nothing else."""

    def __init__(self, incarnation: str, history: dict[int, list[bytes]], kept: set[int]) -> None:
        self.machine = Machine(CONFIG)
        self.learned: Counter[str] = Counter()
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.uids, self.states = [incarnation], {0: self.machine.to_bytes()}
        for version in sorted(history):
            raw = read_entry([b"%d-0" % version, history[version]])
            assert raw.previous == self.uids[-1], "the chain of uids is broken"
            entry = codec.entry(raw)
            for segment, outcome in zip(entry.segments, self.machine.apply(entry), strict=True):
                if isinstance(segment, Rows):
                    self._note(version, segment, outcome)
            self.uids.append(raw.uid)
            if version in kept:
                self.states[version] = self.machine.to_bytes()

    def _note(self, version: int, segment: Rows, outcome: Any) -> None:
        kept = [row for row in range(len(segment.X)) if row not in segment.skip]
        self.learned.update(segment.ids[row] for row in kept if segment.ids)
        self.learned.update(f"anonymous {segment.y[row]:g}" for row in kept if not segment.ids)
        for identity, blob in codec.records(segment, codec.outcome_answer(version, outcome)):
            answer = codec.decode_answer(blob)
            self.answers[identity] = (answer.predictions[0], answer.losses[0], answer.version, answer.rows)


def ids_of(version: int, fields: list[bytes]) -> frozenset[str]:
    entry = codec.entry(read_entry([b"%d-0" % version, fields]))
    return frozenset(i for segment in entry.segments if isinstance(segment, Rows) for i in segment.ids)
