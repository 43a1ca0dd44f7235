"""What the Lua of service/store/drift.py does, said again in Python and checked against it (test_drift_scripts.py).

A stream is a dict from (left, right), the two numbers of an entry's id, to its names and values in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

from service.store import drift
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
        """Add the events that the model's stream does not have."""
        incarnation, after, most, *rest = args
        if self._data.hashes.get(keys[0], {}).get(b"incarnation") != incarnation:
            return [b"gone", 0]
        stream = self._data.logs.setdefault(keys[1], {})
        last, added = max(stream, default=(0, 0)), 0
        if last < place(after):
            return [_text(last), 0]
        for at, time, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            if last < place(at):
                last, added = place(at), added + 1
                stream[last] = [b"t", time, b"e", body]
        _trim(stream, int(most))
        return [_text(last), added]

    def to_service(self, keys: Sequence[str], args: Args) -> list[Any]:
        """Add the events after the mark of their model, and move the mark."""
        member, after, most, model, *rest = args
        marks = self._data.hashes.get(keys[1], {})
        held = marks.get(member, b"0-0")
        if held == b"gone":
            return [b"gone", 0]
        last, added = place(held), 0
        if last < place(after):
            return [_text(last), 0]
        stream = self._data.logs.setdefault(keys[0], {})
        time, number = max(stream, default=(0, 0))
        time = max(time, self._scripts._now_ms())
        for at, noted, body, identity in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True):
            if last < place(at):
                number += 1
                stream[time, number] = [b"m", model, b"i", identity, b"t", noted, b"e", body]
                last, added = place(at), added + 1
        _trim(stream, int(most))
        if added:
            self._data.hashes.setdefault(keys[1], {})[member] = _text(last)
        return [_text(last), added]

    def forget(self, keys: Sequence[str], args: Args) -> int:
        """Mark a model as gone, and sweep the marks of those that have been gone for long."""
        marks, gone = self._data.hashes.get(keys[0], {}), self._data.scores.setdefault(keys[1], {})
        now = self._scripts._now_ms()
        if args[0] in marks:
            marks[args[0]] = b"gone"
            gone[args[0]] = now
        old = [member for member, since in gone.items() if since <= now - int(args[1])]
        for member in old:
            del gone[member]
            marks.pop(member, None)
        return len(old)


def place(text: bytes) -> Place:
    """The two numbers of an id."""
    left, right = text.split(b"-")
    return int(left), int(right)


def _text(at: Place) -> bytes:
    return b"%d-%d" % at


def _trim(stream: dict[Any, Any], most: int) -> None:
    for oldest in sorted(stream)[: max(0, len(stream) - most)]:
        del stream[oldest]
