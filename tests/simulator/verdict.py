"""The verdict on a schedule: what must be true after everything that was done to the replicas."""

import asyncio
import json
from operator import attrgetter
from typing import Any

from core.drift.outbox import NO_ALARM
from core.entry import Outcome
from core.model import read, save
from service.errors import ModelDown, OnepassError
from service.runtime.engine import Freshness
from service.store.drift.events import event_id, items
from service.store.keys import DRIFT, DRIFT_ALARMS, ModelKeys
from service.store.summaries import decode
from tests.simulator.clients import Clients
from tests.simulator.member import Member
from tests.simulator.serial import Serial
from tests.simulator.simulation import ANSWER_S, FIRST, SECOND, Simulation, Told


class Verdict:
    """Judges the outcome of a simulation that is over and calm; ``clients`` send answered requests again."""

    def __init__(self, simulation: Simulation, clients: Clients) -> None:
        self.simulation, self.clients = simulation, clients
        self.data = simulation.world.store.data

    async def judge(self) -> None:
        """Raise AssertionError if a promise is broken."""
        self.simulation.over = True
        stream = dict(self.data.logs.get(DRIFT, {}))  # before the verdict loads any model
        assert "threads" not in self.simulation.setting.themes or not self.simulation.on_loop, self.simulation.on_loop
        serial = await self._judge_model(FIRST, self.simulation.told)
        await self._judge_model(SECOND, self.simulation.told_second)
        self._judge_events(stream, serial)
        self._judge_counters()
        if serial is not None:
            self._judge_seen(serial)
            self.simulation.counts.update(serial.counts)

    async def _judge_model(self, name: str, told: dict[str, list[Told]]) -> Serial | None:
        """Judge a model; return its replay, if the model exists."""
        meta = self.data.hashes.get(ModelKeys(name, "").meta)
        replicas = [await self._held(member, name) for member in self.simulation.members]
        if meta is None:
            gone = {"NotFound", "ModelLost"} if self.simulation.cuts else {"NotFound"}
            assert gone >= {r for r in replicas if isinstance(r, str)}, replicas
            return None
        incarnation = meta[b"incarnation"].decode()
        keys = ModelKeys(name, incarnation)
        history = self.data.history.get(keys.log, {})
        assert [*range(1, len(history) + 1)] == sorted(history), "a version is missing"
        assert len(history) == int(meta[b"version"])
        wanted = self._wanted(keys, incarnation)
        serial = Serial(self.simulation.configs[name], incarnation, history, wanted, self.simulation.written)
        down = [r for r in replicas if isinstance(r, str)]
        if down:
            # Loud, and only allowed if a cut has left neither a snapshot that joins nor the beginning of the log.
            assert {"ModelDown"} == set(down), down
            assert not self._loadable(keys, serial), down
            self.simulation.counts["refused loudly"] += 1
        first_kept = min(self.data.logs.get(keys.log) or {(len(history) + 1, 0)})[0]
        self._judge_replicas([r for r in replicas if not isinstance(r, str)], name, serial, first_kept)
        self._judge_memory(name, int(meta.get(b"snapshot", b"-1")))
        if replicas and not down:
            await self._judge_summary(name, serial)
        self._judge_told(incarnation, told, serial)
        self._judge_snapshots(keys, serial)
        if not down:
            await self._repeat(name, told, serial)
        return None if down else serial

    def _wanted(self, keys: ModelKeys, incarnation: str) -> set[int]:
        """Versions whose states will be compared."""
        kept = {int(version) for version in self.data.hashes.get(keys.snapshots, {})}
        seen = self.simulation.seen
        return kept | {one.version for one in seen if one.state is not None and one.incarnation == incarnation}

    def _loadable(self, keys: ModelKeys, serial: Serial) -> bool:
        """Whether snapshots and log allow to load the head."""
        log, head = self.data.logs.get(keys.log, {}), len(serial.uids) - 1
        infos = [json.loads(info) for info in self.data.hashes.get(keys.snapshots, {}).values()]
        starts = [0, *(info["version"] for info in infos if serial.uids[info["version"] :][:1] == [info["uid"]])]
        return any(start == head or (start + 1, 0) in log for start in starts)

    async def _held(self, member: Member, name: str) -> Any:
        """The replica after the calm, or the name of an error."""
        try:
            async with asyncio.timeout(ANSWER_S):
                replica = await member.engine.replica(name, Freshness(strong=True))
        except OnepassError as error:
            return type(error).__name__
        lag = [each for each in member.engine.lags if each[1] == name]
        assert [] == lag, f"{member.number} still lags: {lag}"
        return replica

    def _judge_replicas(self, replicas: list[Any], name: str, serial: Serial, first_kept: int) -> None:
        """Replicas equal the log and have reported what it lost, unless it was trimmed since."""
        for replica in replicas:
            assert len(serial.uids) - 1 == replica.version, "a replica is not at the head"
            assert save.to_bytes(serial.model) == save.to_bytes(replica.model), "states differ"
        for member, replica, before, version, uid in self.simulation.owed:
            held = replica.name == name and member in self.simulation.members and replica in replicas
            back = serial.uids[version : version + 1] == [uid]  # a packet from the past has brought it back
            if held and not back and version >= first_kept:
                assert member.engine.stats.lost_tails > before, "a lost tail was not reported"

    async def _judge_summary(self, name: str, serial: Serial) -> None:
        """The list shows the figures of the head: at once for a loaded model, else after due summaries are written."""
        loaded = name == FIRST and not self.simulation.counts["calm without loads"]
        if not loaded or not serial.time_ms or "memory" in self.simulation.setting.themes:  # it may not be in memory
            for member in self.simulation.members:
                await member.engine.models.summaries.flush()
        found = decode(self.data.hashes[ModelKeys(name, "").meta][b"summary"])
        head = len(serial.uids) - 1
        assert found is not None
        if self.simulation.cuts and found.version < head:
            return  # the store has lost a later summary, and nothing was appended since
        assert (head, read.summary(serial.model)) == (found.version, found.figures), "the summary is out of date"

    def _judge_memory(self, name: str, snapshot: int) -> None:
        """No replica holds answers that a published snapshot covers."""
        for member in self.simulation.members:
            replica = member.engine.models.peek(name)
            if replica is not None:
                member.judge(replica)
                covered = [key for key, version in Member.answers_held(replica).items() if version <= snapshot]
                assert [] == covered, f"{member.number} holds answers that snapshot {snapshot} covers"

    # ---------------------------------------------------------------- what clients were told

    def _judge_told(self, incarnation: str, told: dict[str, list[Told]], serial: Serial) -> None:
        """Nothing twice; each answer agrees with the log, or its entry is among those that the store has lost."""
        assert {1} >= set(serial.learned.values()), serial.learned
        for key, acknowledgements in told.items():
            for one in acknowledgements:
                if one.incarnation == incarnation and not self._agrees(key, one, serial):
                    found = serial.answers.get(key)
                    assert self._lost(key, one), f"{key} was told {one}, the log says {found}"

    def _agrees(self, key: str, told: Told, serial: Serial) -> bool:
        answer = serial.answers.get(key)
        if answer is None:  # no id: any answer of that version
            return told.outcome in serial.others.get(told.version, ())
        if isinstance(told.outcome, Outcome):
            return told.outcome == answer
        if isinstance(told.outcome, str):
            return told.outcome == answer.refusal
        if answer.refusal is not None:
            return told.outcome == (None, None)
        return told.outcome == (answer.predictions[0], answer.losses[0])

    def _lost(self, key: str, told: Told) -> bool:
        whole = " " in key and not key.startswith("anonymous")  # a reset or a restore has no name in the log
        return any(
            gone == told.incarnation and (key in names or whole) and told.version in (version, -1)
            for gone, version, names in self.simulation.dropped
        )

    async def _repeat(self, name: str, told: dict[str, list[Told]], serial: Serial) -> None:
        """A repeated id is a duplicate and gets the answer in the log."""
        member = self.simulation.anyone()
        known = [key for key in sorted(serial.answers) if key.startswith("i:") and key in told]
        for identity in known[:3] if member is not None and name == FIRST else ():
            replica = await member.engine.replica(name)
            rows = self.clients.rows(replica, (identity,), [int(identity[2:])])
            said = await self._said_again(member, replica, rows)
            answer = serial.answers[identity]
            assert said in ((1, answer), answer.refusal) or (said is None and self.simulation.cuts)

    async def _said_again(self, member: Member, replica: Any, rows: Any) -> Any:
        """Duplicates and answer, or the refusal; None if the model is out of service."""
        try:
            reply = await member.submit(replica, rows, [rows.ids[0][2:]])
        except ModelDown:
            return None
        except OnepassError as error:
            return error.detail
        return reply.duplicates, reply.answer

    # ---------------------------------------------------------------- what readers saw

    def _judge_seen(self, serial: Serial) -> None:
        """What a reader saw depends only on the version that it saw."""
        for seen in self.simulation.seen:
            if serial.uids[seen.version : seen.version + 1] == [seen.uid]:
                assert serial.rows[seen.version] == seen.rows, f"other rows read at version {seen.version}"
                self.simulation.counts["reads compared"] += 1
                if seen.state is not None:
                    assert serial.states[seen.version] == seen.state, f"another state read at version {seen.version}"

    def _judge_snapshots(self, keys: ModelKeys, serial: Serial) -> None:
        """A snapshot that joins the log is the state of its version."""
        for version in map(int, self.data.hashes.get(keys.snapshots, {})):
            pieces = self.data.hashes.get(keys.chunks(version), {})
            blob = b"".join([pieces[name] for name in sorted(pieces, key=lambda name: int(name.rpartition(b":")[2]))])
            if version not in serial.states or not blob:
                continue
            model, stamp = save.from_bytes(blob)
            if stamp["uid"] == serial.uids[version]:
                assert serial.states[version] == save.to_bytes(model), f"snapshot {version} is not its version's state"

    def _judge_counters(self) -> None:
        """The replicas' own counters."""
        stats = [member.engine.stats for member in self.simulation.members]
        assert self.simulation.torn or not sum(each.diverged for each in stats), "equal replicas reported as different"
        self.simulation.counts["evictions"] += sum(each.evictions for each in stats)

    # ---------------------------------------------------------------- alarms

    def _judge_events(self, stream: dict[Any, Any], serial: Serial | None) -> None:
        """Each alarm, even a joined one, is published once and in order; none is lost unless the store loses some."""
        entries = [fields[3::2] for _, fields in sorted(stream.items())]
        published = [identity for identity, _, mark, _ in entries if mark != b"j"]
        assert len(published) == len({*published}), "an event was published twice"
        if serial is None or self.simulation.dropped or not self.simulation.members:
            return
        incarnation = serial.uids[0]
        drifts = serial.model.outbox.after(NO_ALARM)
        alarms = sorted((one for one in items(FIRST, incarnation, drifts) if one.body), key=attrgetter("alarm"))
        self.simulation.counts["alarms"] += len(drifts)
        self.simulation.counts["later alarms"] += sum(drift.joined for drift in drifts)
        ours = [(identity, body) for identity, _, _, body in entries if identity.startswith(f"{incarnation}-".encode())]
        assert [(one.event_id.encode(), one.body) for one in alarms] == ours, "alarms are missing or out of order"
        held = self.data.hashes.get(DRIFT_ALARMS, {})
        listed = {event_id(incarnation, drift): drift for drift in drifts if drift.joined}
        joined = {identity.encode(): b"%d" % drift.joined for identity, drift in listed.items()}
        assert joined == {identity: held.get(identity, b"").partition(b" ")[0] for identity in joined}, (
            "later alarms are lost"
        )
