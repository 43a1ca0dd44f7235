"""What the Lua of service/store/drift.py and unlabelled.py does, said again in Python; test_drift_scripts.py compares.

A stream is a dict from (left, right), the two numbers of an entry's id, to its names and values in turn; beside it a
hash has the later alarms of its events.
"""

from collections.abc import Callable, Sequence
from typing import Any

from service.store import drift, unlabelled
from service.store.redis.connection import Script
from tests.simulator.script_parts import Args, Data
from tests.simulator.scripts import Scripts

Place = tuple[int, int]


def teach(scripts: Scripts) -> "DriftScripts":
    """Let a server know the scripts of the streams of drift events."""
    mine = DriftScripts(scripts)
    known: dict[Script, Callable[[Sequence[str], Args], Any]] = {
        drift._TO_MODEL: mine.to_model,
        drift._TO_SERVICE: mine.to_service,
        drift._FORGET: mine.forget,
        unlabelled._TO_MODEL: mine.hint_to_model,
        unlabelled._TO_SERVICE: mine.hint_to_service,
    }
    scripts._known.update(known)
    return mine


class DriftScripts:
    """The scripts, on the data of a server."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    @property
    def _data(self) -> Data:
        return self._scripts.data

    def to_model(self, keys: Sequence[str], args: Args) -> list[Any]:
        """Add the events, and the later alarms of the last one, that the model's stream does not have."""
        incarnation, reach, most, *rest = args
        if self._data.hashes.get(keys[0], {}).get(b"incarnation") != incarnation:
            return [b"gone", 0]
        stream = Stream(self._data, keys[1], keys[2], int(most))
        last, added = max(stream.entries, default=(0, 0)), 0
        joined = int(stream.alarms.get(_text(last), b"0").split(b" ")[0])
        if (*last, joined) < numbers(reach):
            return [_reached(last, joined), 0]
        for at, time, body, held_back, count, alarms in zip(*(rest[i::6] for i in range(6)), strict=True):
            if last < numbers(at):
                last, joined, added = numbers(at), 0, added + 1
                stream.add(last, [b"t", time, b"e", body], held_back)
            if last == numbers(at) and joined < int(count):
                joined = int(count)
                stream.alarms[_text(last)] = count + b" " + alarms
        return [_reached(last, joined), added]

    def to_service(self, keys: Sequence[str], args: Args) -> list[Any]:
        """Add what comes after the mark of their model, and move the mark."""
        member, reach, most, model, *rest = args
        marks = self._data.hashes.get(keys[1], {})
        held = marks.get(member, b"0-0")
        if held == b"gone":
            return [b"gone", 0]
        last, added, moved = numbers(held), 0, False
        known, position = marks.get(member + b" joined", b"0 0-0").split(b" ")
        joined = int(known)
        if (*last, joined) < numbers(reach):
            return [_reached(last, joined), 0]
        stream = Stream(self._data, keys[0], keys[2], int(most))
        time, number = max(stream.entries, default=(0, 0))
        time = max(time, self._scripts._now_ms())
        for at, noted, body, held_back, count, alarms, identity in zip(*(rest[i::7] for i in range(7)), strict=True):
            if last < numbers(at):
                number += 1
                stream.add((time, number), [b"m", model, b"i", identity, b"t", noted, b"e", body], held_back)
                last, joined, added, moved, position = numbers(at), 0, added + 1, True, _text((time, number))
            if last == numbers(at) and joined < int(count):
                joined, moved = int(count), True
                if numbers(position) in stream.entries:
                    stream.alarms[position] = count + b" " + alarms
        if moved:
            mark = {member: _text(last), member + b" joined": b"%d %b" % (joined, position)}
            self._data.hashes.setdefault(keys[1], {}).update(mark)
        return [_reached(last, joined), added]

    def hint_to_model(self, keys: Sequence[str], args: Args) -> list[bytes] | None:
        """Add an event of unlabelled rows, unless one of the model is too young."""
        incarnation, given, first, most, pause_ms, time, rest = args
        if self._data.hashes.get(keys[0], {}).get(b"incarnation") != incarnation:
            return None
        stream = Stream(self._data, keys[1], "", int(most))
        at, now = (int(given), int(first)), self._scripts._now_ms()
        if stream.entries:
            top = max(stream.entries)
            if now - int(stream.entries[top][1]) < int(pause_ms):
                return None
            at = (top[0], top[1] + 1) if top[0] >= at[0] else at
        body = b'{"id":"%b-%b",%b' % (incarnation, _text(at), rest)
        stream.add(at, [b"n", b"%d" % now, b"t", time, b"e", body], b"")
        return [_text(at), body]

    def hint_to_service(self, keys: Sequence[str], args: Args) -> int:
        """Add it to the service's stream."""
        most, model, identity, noted, body = args
        stream = Stream(self._data, keys[0], keys[1], int(most))
        time, number = max(stream.entries, default=(0, 0))
        at = max(time, self._scripts._now_ms()), number + 1
        stream.add(at, [b"m", model, b"i", identity, b"t", noted, b"e", body], b"")
        return 1

    def forget(self, keys: Sequence[str], args: Args) -> int:
        """Mark a model as gone, and sweep the marks of those that have been gone for long."""
        marks, gone = self._data.hashes.get(keys[0], {}), self._data.scores.setdefault(keys[1], {})
        now = self._scripts._now_ms()
        if args[0] in marks:
            marks[args[0]] = b"gone"
            marks.pop(args[0] + b" joined", None)
            gone[args[0]] = now
        old = [member for member, since in gone.items() if since <= now - int(args[1])]
        for member in old:
            del gone[member]
            marks.pop(member, None)
        return len(old)


class Stream:
    """A stream with the later alarms of its events, of which the newest are kept."""

    def __init__(self, data: Data, key: str, alarms: str, most: int) -> None:
        self.entries: dict[Any, Any] = data.logs.setdefault(key, {})
        self.alarms = data.hashes.setdefault(alarms, {})
        self._most = most

    def add(self, at: Place, fields: list[bytes], held_back: bytes) -> None:
        """Add an event, and drop the oldest ones."""
        self.entries[at] = [*fields, b"h", b"1"] if held_back == b"1" else fields
        for oldest in sorted(self.entries)[: max(0, len(self.entries) - self._most)]:
            del self.entries[oldest]
            self.alarms.pop(_text(oldest), None)


def numbers(text: bytes) -> tuple[int, ...]:
    """The numbers of an id, or of how far a model has got."""
    return tuple(map(int, text.split(b"-")))


def _text(at: tuple[int, ...]) -> bytes:
    return b"%d-%d" % at


def _reached(last: tuple[int, ...], joined: int) -> bytes:
    return b"%b-%d" % (_text(last), joined)
