"""What the Lua of the drift stream and the index of alarms does, said again in Python; test_drift_scripts.py compares.

A stream is a dict from (left, right), the two numbers of an entry's id, to its names and values in turn.
"""

from collections.abc import Sequence
from typing import Any

from service.store import catalog
from service.store.drift import drift
from service.store.log import alarm_index
from tests.simulator.script_parts import Args, Data
from tests.simulator.scripts import Scripts

Place = tuple[int, int]


def teach(scripts: Scripts) -> None:
    """Let a server know the scripts of the drift events."""
    mine = DriftScripts(scripts)
    scripts._known |= {
        drift._PUBLISH: mine.publish,
        drift._ADD_UNLABELLED: mine.add_unlabelled,
        catalog._REMEMBER: mine.remember,
        alarm_index._ENTER: mine.enter,
        alarm_index._OLDER: mine.older,
        alarm_index._REMOVE: mine.remove,
    }


class DriftScripts:
    """The scripts, on the data of a server."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    @property
    def _data(self) -> Data:
        return self._scripts.data

    def _add(self, keys: Sequence[str], args: Args, fields: list[bytes]) -> None:
        """Add an entry, and drop the oldest ones, with the later alarms of their events."""
        stream, later = self._data.logs.setdefault(keys[0], {}), self._data.hashes.setdefault(keys[1], {})
        time, number = max(stream, default=(0, 0))
        stream[max(self._scripts._now_ms(), time + 1), number + 1] = [b"m", args[1], *fields]
        for oldest in sorted(stream)[: max(0, len(stream) - int(args[2]))]:
            later.pop(stream.pop(oldest)[3], None)

    def publish(self, keys: Sequence[str], args: Args) -> list[Any]:
        """Add the alarms that come after those that are published, and note how far they are."""
        member, _, _, believed, *rest = args
        if member in self._data.scores.get(keys[2], {}):
            return [b"gone", 0]
        published, later = self._data.hashes.setdefault(keys[3], {}), self._data.hashes.setdefault(keys[1], {})
        reached, added = published.get(member, b"0-0-0"), 0
        if numbers(reached) < numbers(believed):
            return [reached, 0]
        for reach, event, time, mark, body in zip(*(rest[i::5] for i in range(5)), strict=True):
            if numbers(reach) <= numbers(reached):
                continue
            if body:
                self._add(keys, args, [b"i", event, b"t", time, b"k", mark, b"e", body])
            if mark == b"j" and (body or event in later):
                listed = [part for part in (later.get(event, b" ").partition(b" ")[2], body) if part]
                later[event] = b"%d %b" % (numbers(reach)[2], b",".join(listed))
            reached, added = reach, added + 1
        if added:
            published[member] = reached
        return [reached, added]

    def add_unlabelled(self, keys: Sequence[str], args: Args) -> int:
        """Add an event of unlabelled rows to the stream and its model's list, unless one of the model is too young."""
        member, model, _, incarnation, version, first, most, pause_ms, time, rest = args
        own, now = self._data.logs.setdefault(keys[3], {}), self._scripts._now_ms()
        at = (int(version), int(first))
        if member in self._data.scores.get(keys[2], {}):
            return 0
        if own:
            top = max(own)
            if now - int(own[top][1]) < int(pause_ms):
                return 0
            at = (top[0], top[1] + 1) if top[0] >= at[0] else at
        event = b"%b-%d-%d" % (incarnation, *at)
        fields = [b"i", event, b"t", time, b"k", b"", b"e", b'{"id":"%b",%b' % (event, rest)]
        self._add(keys, args, fields)
        own[at] = [b"n", b"%d" % now, b"m", model, *fields]
        for oldest in sorted(own)[: max(0, len(own) - int(most))]:
            del own[oldest]
        return 1

    def remember(self, keys: Sequence[str], args: Args) -> list[bytes]:
        """Set a tombstone, and forget what is kept of the model beside the stream; nobody deletes too many here."""
        self._data.scores.setdefault(keys[0], {})[args[0]] = self._scripts._now_ms()
        self._data.hashes.get(keys[1], {}).pop(args[0], None)
        self._data.unlink(keys[2])
        return []

    # ---------------------------------------------------------------- the index of unpublished alarms

    def enter(self, keys: Sequence[str], args: Args) -> None:
        """Enter models, or renew them."""
        self._data.scores.setdefault(keys[0], {}).update(dict.fromkeys(args, self._scripts._now_ms()))

    def older(self, keys: Sequence[str], args: Args) -> list[bytes]:
        """Those entered so long ago, the oldest first."""
        before = self._scripts._now_ms() - int(float(args[0]))
        found = self._data.scores.get(keys[0], {})
        return [member for member, at in sorted(found.items(), key=lambda one: one[::-1]) if at <= before]

    def remove(self, keys: Sequence[str], args: Args) -> None:
        """Remove some of these."""
        old = {*self.older(keys, args)}
        for member in args[1:]:
            if member in old:
                del self._data.scores[keys[0]][member]


def numbers(text: bytes) -> tuple[int, ...]:
    """The numbers of an id, or of a reach."""
    return tuple(map(int, text.split(b"-")))
