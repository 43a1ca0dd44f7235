"""What service/store's Lua does, said again in Python: slow, plain, and checked against the Lua (test_scripts.py).

Data are what Redis would hold, by key. Replies are what the client library would return.
"""

from collections.abc import Callable, Sequence
from typing import Any

from service.store import catalog, expiry
from service.store.log import alarm_index, scripts
from service.store.redis.connection import Call, Script
from service.store.states import copies, snapshots, states
from tests.simulator.commands import plain
from tests.simulator.copy_script import copied
from tests.simulator.script_parts import (
    RECORD,
    Args,
    Data,
    Joined,
    Request,
    as_bytes,
    channel_of,
    digest_clashes,
    fields_of,
    rows_of,
    seen_record,
    state_key_of,
)


class Scripts:
    """One server's scripts and the few plain commands that the store uses.

    Args:
        now_ms: the server's time.
        publish: told of every message.
    """

    def __init__(self, now_ms: Callable[[], int], publish: Callable[[str, bytes], None] = lambda *_: None) -> None:
        self.data = Data()
        self._now_ms, self._publish = now_ms, publish
        self._forgotten: list[bytes] = []
        self._dated: dict[bytes, bytes] = {}
        self._known: dict[Script, Callable[[Sequence[str], Args], Any]] = {
            scripts.APPEND: self._append,
            scripts.READ_AFTER: self._read_after,
            scripts.RECORD: self._record,
            expiry.EXPIRE: self._expire,
            scripts.SUMMARY: self._summary,
            scripts.LOOKUP: lambda keys, ids: [*map(self._look(keys[0], keys[1], ids).get, ids)],
            catalog._CREATE: self._create,
            catalog._DELETE: self._delete,
            catalog._REMEMBER: lambda *_: [],  # nobody deletes so many here
            alarm_index._ENTER: lambda *_: None,  # nobody looks at the index here
            snapshots._CHUNK: self._chunk,
            snapshots._PUBLISH: self._publish_snapshot,
            states._PIECE: self._piece,
            copies._COPY: lambda keys, args: copied(self.data, now_ms(), keys, args),
        }

    def call(self, call: Call) -> Any:
        """Run a script, or a plain command."""
        if call.script is None:
            return self.command(call.args)
        return self._known[call.script](call.keys, [as_bytes(arg) for arg in call.args])

    def command(self, words: Sequence[Any]) -> Any:
        """Run a plain command."""
        return plain(self.data, words)

    # ---------------------------------------------------------------- shared parts

    def _look(self, seen: str, due: str, ids: Sequence[bytes]) -> dict[bytes, bytes | None]:
        now, records, dues = self._now_ms(), self.data.hashes.get(seen, {}), self.data.scores.get(due, {})
        return {i: records[i] if i in records and dues.get(i, 0) > now else None for i in ids}

    def _join(self, keys: Sequence[str], args: Args) -> "Joined | list[Any]":
        meta = self.data.hashes.get(keys[0])
        if meta is None or meta[b"incarnation"] != args[0]:
            return [b"gone", int(meta is not None), b""]
        log = self.data.logs.get(keys[1], {})
        joined = Joined(int(meta[b"version"]), meta[b"uid"], int(args[1]), log)
        if joined.v0 > joined.head:
            return [b"ahead", joined.head, joined.uid]
        if joined.v0 == joined.head:
            return joined if joined.uid == args[2] else [b"fork", joined.head, joined.uid]
        if joined.v0 + 1 not in log:
            return [b"trimmed", joined.head, joined.uid]
        if fields_of(log[joined.v0 + 1])[b"p"] != args[2]:
            return [b"fork", joined.head, joined.uid]
        return joined

    def _sweep(self, hash_key: str, due_key: str, most: int) -> int:
        dues = self.data.scores.get(due_key, {})
        past = sorted((due, identity) for identity, due in dues.items() if due <= self._now_ms())[:most]
        for _, identity in past:
            del dues[identity]
            self.data.hashes.get(hash_key, {}).pop(identity, None)
        return len(past)

    def _expire(self, keys: Sequence[str], args: Args) -> list[int]:
        meta = self.data.hashes.get(keys[0], {})
        if meta.get(b"incarnation") != args[0]:
            return [0, 0]
        ids, predictions = self._sweep(keys[1], keys[2], int(args[1])), self._sweep(keys[3], keys[4], int(args[1]))
        if predictions:
            meta[b"expired"] = b"%d" % (int(meta.get(b"expired", b"0")) + predictions)
        return [ids, predictions]

    # ---------------------------------------------------------------- the log

    def _read_after(self, keys: Sequence[str], args: Args) -> Any:
        joined = self._join(keys, args)
        if isinstance(joined, list):
            return joined
        entries, complete, left = joined.read(joined.head, int(args[3]), int(args[4]))
        return [b"ok", joined.head, joined.uid, complete, entries, left]

    def _append(self, keys: Sequence[str], args: Args) -> Any:
        joined = self._join(keys, args)
        if isinstance(joined, list):
            return joined
        request = Request.parse(args)
        meta = self.data.hashes[keys[0]]
        known = self._look(keys[2], keys[3], [i for _, _, _, ids, _ in request.segments for i in ids])
        last = meta.get(b"w:" + request.writer)
        if last is not None:
            last_sequence, made, *_ = map(int, last.split(b":"))
            if request.sequence < last_sequence:
                return [b"fenced", joined.head, joined.uid]
            if request.sequence == last_sequence:
                return self._told_again(joined, request, known, made, keys[3])
        if meta.get(b"code", request.state_version) != request.state_version:
            return [b"other", joined.head, joined.uid]
        if last is None and not self._admit(meta):
            return [b"crowded", joined.head, joined.uid]
        return self._add(keys, joined, request, known)

    def _admit(self, meta: dict[bytes, bytes]) -> bool:
        """Whether there is a place for a new writer; then the old ones are forgotten, and no time is still to come.

        An append that turns out to add nothing leaves them as they are.
        """
        now, young = self._now_ms(), 0
        self._forgotten, self._dated = [], {}
        for writer, value in [(key, value) for key, value in meta.items() if key.startswith(b"w:")]:
            sequence, made, time = map(int, value.split(b":"))
            if time < now - scripts.WRITER_LIFE_MS:
                self._forgotten.append(writer)
                continue
            young += 1
            if time > now:
                self._dated[writer] = b"%d:%d:%d" % (sequence, made, now)
        return young < scripts.WRITERS_MAX

    def _remembered(self, seen_due: str, out: Sequence[Any]) -> list[int] | None:
        """How many ids there are, when the first leaves, and the time, where some found no room."""
        now = self._now_ms()
        alive = [int(due) for due in self.data.scores.get(seen_due, {}).values() if due > now]
        return [len(alive), min(alive, default=0), now] if b"full" in out else None

    def _told_again(
        self, joined: "Joined", request: "Request", known: dict[bytes, bytes | None], made: int, seen_due: str
    ) -> list[Any]:
        held = fields_of(joined.log[made]) if made in joined.log else None
        out: list[Any] = []
        for k, (_, _, _, ids, digests) in enumerate(request.segments):
            kept = None if held is None else held.get(b"%d" % k)
            skipped = set() if kept is None else set(rows_of(held.get(b"%ds" % k, b"")))
            own = [(known[i] or b"").startswith(seen_record(made, k, row)) for row, i in enumerate(ids)]
            hits: list[Any] = []
            for row, i in enumerate(ids):
                if row in skipped or (kept is None and known[i] and not own[row]):
                    hits += [row, known[i] or b""]
            added = kept is not None if held is not None else any(own) or not ids
            clashes = [] if added else digest_clashes(known, ids, digests, made, k)
            if clashes:
                out.append([b"seen", clashes])
            elif added:
                out.append([b"added", hits] if hits else b"added")
            elif not ids:
                out.append(b"stateless")
            else:
                out.append(b"full" if any(not known[i] for i in ids) else [b"seen", hits])
        entries, complete, _ = joined.read(made - 1, request.max_bytes, 10**9)
        time = 0 if held is None else int(held[b"t"])
        full = self._remembered(seen_due, out)
        return [b"ok", joined.head, joined.uid, made, time, complete, out, entries, full]

    def _add(
        self,
        keys: Sequence[str],
        joined: "Joined",
        request: "Request",
        known: dict[bytes, bytes | None],
    ) -> list[Any]:
        meta_key, log_key, seen, seen_due, pending, pending_due, states_key = keys
        now, made = self._now_ms(), joined.head + 1
        fields = [b"u", request.new_uid, b"p", joined.uid, b"t", b"%d" % now, b"n", b"%d" % len(request.segments)]
        fields += [b"s", request.state_version]
        alive = sum(due > now for due in self.data.scores.get(seen_due, {}).values())
        room = request.cap - alive
        out: list[Any] = []
        remember: dict[bytes, bytes] = {}
        done: list[bytes] = []
        named: dict[bytes, bytes] = {}
        for k, (blob, waiting, state, ids, digests) in enumerate(request.segments):
            mine: dict[bytes, bytes] = {}
            hits: list[Any] = []
            for row, (i, digest) in enumerate(zip(ids, digests, strict=True)):
                if record := known[i] or mine.get(i):
                    hits += [row, record]
                else:
                    mine[i] = seen_record(made, k, row) + digest + b":"
            clashes = digest_clashes(known, ids, digests, made, k)
            if clashes:
                out.append([b"seen", clashes])
            elif ids and not mine:
                out.append([b"seen", hits])
            elif ids and len(mine) > room:
                out.append(b"full")
            elif state and not self._stored(states_key, state):
                out.append(b"stateless")
            else:
                out.append([b"added", hits] if hits else b"added")
                if state:
                    named[b"%d-%d" % (made, k)] = state.split(b":")[0]
                room -= len(mine)
                fields += [b"%d" % k, blob]
                if hits:
                    fields += [b"%ds" % k, b",".join(b"%d" % row for row in hits[::2])]
                done += [waiting] if waiting else []
                known.update(mine)
                remember |= mine
        entries, complete, _ = joined.read(joined.head, request.max_bytes, 10**9)
        if len(fields) == 10:
            full = self._remembered(seen_due, out)
            return [b"ok", joined.head, joined.uid, 0, 0, complete, out, entries, full]
        self.data.logs.setdefault(log_key, {})[made] = fields
        self.data.history.setdefault(log_key, {})[made] = fields
        meta = self.data.hashes[meta_key]
        meta |= {b"version": b"%d" % made, b"uid": request.new_uid, b"updated": b"%d" % now}
        meta[b"code"] = request.state_version
        if b"w:" + request.writer not in meta:
            for writer in self._forgotten:
                del meta[writer]
            meta |= self._dated
        meta[b"w:" + request.writer] = b"%d:%d:%d" % (request.sequence, made, now)
        if request.summary:
            self._store_summary(meta, request.summary, joined.v0 + 1)
        self.data.hashes.setdefault(seen, {}).update(remember)
        self.data.scores.setdefault(seen_due, {}).update(dict.fromkeys(remember, now + request.ttl_ms))
        for identity in done:
            self.data.hashes.get(pending, {}).pop(identity, None)
            self.data.scores.get(pending_due, {}).pop(identity, None)
        if named:
            self.data.hashes.setdefault(states_key, {}).update(named)
        if remember:
            self._sweep(seen, seen_due, 2000 + 2 * len(remember))
        self._publish(channel_of(meta_key), b"%s %d %s" % (meta[b"incarnation"], made, request.new_uid))
        return [b"ok", made, request.new_uid, made, now, complete, out, entries, self._remembered(seen_due, out)]

    def _record(self, keys: Sequence[str], args: Args) -> list[Any]:
        joined = self._join(keys, args)
        if isinstance(joined, list):
            return joined
        held, found = self.data.hashes.get(keys[2], {}), {}
        count = 0
        for i, version, answer in zip(args[3::3], args[4::3], args[5::3], strict=True):
            record = RECORD.fullmatch(held.get(i, b""))
            if record is not None and record[1] == version and not record[5]:
                found[i] = held[i] + answer
                count += 1
        held.update(found)
        return [b"ok", count]

    def _summary(self, keys: Sequence[str], args: Args) -> int:
        meta = self.data.hashes.get(keys[0], {})
        if meta.get(b"incarnation") != args[0]:
            return -1
        head = int(meta[b"version"])
        if int(args[1]) > head or (int(args[1]) == head and meta[b"uid"] != args[2]):
            return -1
        return self._store_summary(meta, args[4], int(args[3]))

    @staticmethod
    def _store_summary(meta: dict[bytes, bytes], summary: bytes, least: int) -> int:
        held = int(meta[b"summary"].split(b":")[0]) if b"summary" in meta else -1
        if held >= least:
            return held
        meta[b"summary"] = summary
        return int(summary.split(b":")[0])

    # ---------------------------------------------------------------- models and snapshots

    def _create(self, keys: Sequence[str], args: Args) -> Any:
        meta = self.data.hashes.get(keys[0])
        if meta is not None:
            return [meta[b"incarnation"], meta[b"config"]]
        now = b"%d" % self._now_ms()
        named = {b"incarnation": args[0], b"config": args[1], b"version": b"0", b"uid": args[0]}
        self.data.hashes[keys[0]] = {**named, b"created": now, b"updated": now}
        if args[2]:
            self.data.hashes[keys[0]][b"summary"] = b"0:%b:%b" % (now, args[2])
        return None

    def _delete(self, keys: Sequence[str], args: Args) -> int:
        if self.data.hashes.get(keys[0], {}).get(b"incarnation") != args[0]:
            return 0
        for version in self.data.hashes.get(keys[1], {}):
            self.data.unlink((args[1] + version).decode())
        for digest in self.data.hashes.get(keys[2], {}).values():
            self.data.unlink(state_key_of(keys[2], digest))
        for key in keys:
            self.data.unlink(key)
        self.data.hashes[keys[-1]] = {b"": b"1"}
        self._publish(channel_of(keys[0]), args[0])
        return 1

    def _chunk(self, keys: Sequence[str], args: Args) -> int:
        meta_key, published, chunks = keys
        if self.data.hashes.get(meta_key, {}).get(b"incarnation") != args[0]:
            return 0
        if args[1] in self.data.hashes.get(published, {}):
            return 0
        self.data.hashes.setdefault(chunks, {})[args[2]] = args[3]
        return 1

    def _piece(self, keys: Sequence[str], args: Args) -> int:
        meta_key, state_key = keys
        if self.data.hashes.get(meta_key, {}).get(b"incarnation") != args[0]:
            return 0
        self.data.hashes.setdefault(state_key, {})[args[1]] = args[2]
        return 1

    def _stored(self, states_key: str, state: bytes) -> bool:
        digest, size = state.split(b":")
        return sum(map(len, self.data.hashes.get(state_key_of(states_key, digest), {}).values())) == int(size)

    def _publish_snapshot(self, keys: Sequence[str], args: Args) -> list[bytes]:
        meta = self.data.hashes.get(keys[0])
        if meta is None or meta[b"incarnation"] != args[0]:
            return [b"refused"]
        version, head, log = int(args[1]), int(meta[b"version"]), self.data.logs.get(keys[1], {})
        uid = meta[b"uid"] if version == head else None
        if version < head and version + 1 in log:
            uid = fields_of(log[version + 1])[b"p"]
        if uid != args[2]:
            return [b"refused"]
        kept, keep = [*map(int, self.data.hashes.get(keys[2], {}))], int(args[7])
        existed = self.data.hashes.get(keys[2], {}).get(args[1])
        if version not in kept:
            if sum(v > version for v in kept) >= keep:
                return [b"refused"]
            own = [args[6] + b":%d" % i for i in range(int(args[5]))]
            chunks = self.data.hashes.get(keys[3], {})
            if sum(len(chunks.get(part, b"")) for part in own) != int(args[4]):
                return [b"refused"]
            self.data.hashes.setdefault(keys[2], {})[args[1]] = args[3]
            self.data.hashes[keys[3]] = {part: chunks[part] for part in own}
            kept.append(version)
        kept.sort(reverse=True)
        if args[9] == b"1":
            meta[b"guard"] = args[1]
        for old in [v for v in kept[keep:] if b"%d" % v != meta.get(b"guard")]:
            del self.data.hashes[keys[2]][b"%d" % old]
            self.data.unlink(args[8].decode() + str(old))
        if len(kept) >= min(keep, 2):
            oldest = kept[min(keep, len(kept)) - 1]
            for trimmed in [v for v in log if v <= oldest]:
                del log[trimmed]
            self._drop_states(keys[4], oldest)
        meta[b"snapshot"] = b"%d" % kept[0]
        if existed is not None:
            return [b"existed", existed]
        self._publish(channel_of(keys[0]), b"%s %s - %d" % (args[0], args[1], kept[0]))
        return [b"published"]

    def _drop_states(self, states_key: str, oldest: int) -> None:
        named = self.data.hashes.get(states_key, {})
        for place in [place for place in named if int(place.split(b"-")[0]) <= oldest]:
            digest = named.pop(place)
            if digest not in named.values():
                self.data.unlink(state_key_of(states_key, digest))
