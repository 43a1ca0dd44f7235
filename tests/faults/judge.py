"""A judge of histories: whether one serial log explains what clients saw. It shares no code with the service.

A history is a list of calls. Each has the time it was sent, the time its answer came, what was sent, and what came
back: nothing if the connection broke or the answer left open whether the row was learned.

The judged model is `rls` with one feature x, without a constant column, for regression. Its prediction after the rows
(x_i, y_i) is a plain formula, so that a prediction is a fingerprint of the learned rows:

    w = sum x_i y_i / (sum x_i^2 + 1 / p0);  p = w x, from row 20 on clipped to a tenth beyond the labels' range

Every answer to a label contains its row's number, so the places of acknowledged rows are known. The judge looks for
places of the rows whose fate the client does not know, and for contradictions:

    order      a call that began after another was answered comes after it
    once       all answers to one id agree; no two rows have the same number
    lost       every acknowledged row is in the final log
    state      each prediction follows from the rows before it; versions and numbers of rows grow together
    fresh      a strong read includes every row acknowledged before it; `min_version` is reached
    told       the answer to a tracked prediction repeats that prediction
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

HOLD_ROWS, BEYOND = 20, 0.1
CLOSE = 1e-7


@dataclass(slots=True)
class Call:
    """One call of a client, "learn", "predict" or "read", with the times of one clock when it was sent and answered.

    ``sent``: "x", "y", "id", "told" of a row; "x" of a prediction; "strong" or "min_version" of a read. ``answer``: its
    body; None if it is unknown.
    """

    kind: str
    begin: float
    end: float
    sent: dict[str, Any]
    answer: dict[str, Any] | None


@dataclass(slots=True)
class Row:
    """A row that clients sent, once or several times with one id.

    ``begin``, ``end``: when it was first sent and first acknowledged; ``number``, ``version``: its place in the log.
    """

    x: float
    y: float
    begin: float
    end: float = math.inf
    number: int | None = None
    version: int | None = None
    said: float | None = None
    told: float | None = None
    tracked: bool = False


@dataclass(slots=True)
class State:
    """The model after some rows."""

    p0: float
    rows: int = 0
    xy: float = 0.0
    xx: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def predict(self, x: float) -> float:
        """The prediction for a row."""
        value = x * self.xy / (self.xx + 1 / self.p0)
        if self.rows < HOLD_ROWS:
            return value
        reach = BEYOND * (self.high - self.low)
        return min(max(value, self.low - reach), self.high + reach)

    def after(self, row: Row) -> "State":
        """The model after one more row."""
        low, high = min(self.low, row.y), max(self.high, row.y)
        return State(self.p0, self.rows + 1, self.xy + row.x * row.y, self.xx + row.x**2, low, high)


def close(one: float | None, other: float) -> bool:
    """Whether two numbers are equal up to round-off."""
    return one is not None and abs(one - other) <= CLOSE * (1 + abs(other))


@dataclass(slots=True)
class Judge:
    """Judges one history of one model, whose last strong read came after everything else.

    ``tries``: bound of the search for places of rows with an unknown fate; ``contradictions``: what no log explains;
    ``states``: the model after 0, 1, ... rows, if a log was found.
    """

    calls: Sequence[Call]
    p0: float
    tries: int = 200_000
    contradictions: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def verdict(self) -> list[str]:
        """Return the contradictions, in the order in which they were found."""
        rows = [*self._rows()]
        final = max((call for call in self.calls if call.kind == "read" and call.answer), key=lambda call: call.begin)
        total = int(final.answer["rows"]) if final.answer else 0
        placed = self._placed(rows, total)
        if not self.contradictions:
            self._order(rows)
            self._serial(rows, placed, total)
        if not self.contradictions:
            self._reads(placed)
        return self.contradictions

    def _say(self, what: str) -> None:
        self.contradictions.append(what)

    # ------------------------------------------------------------ rows and their places

    def _rows(self) -> Iterator[Row]:
        """The rows that were sent: all calls with one id are one row."""
        groups: dict[Any, list[Call]] = defaultdict(list)
        for at, call in enumerate(self.calls):
            if call.kind == "learn":
                groups[call.sent.get("id") or at].append(call)
        for name, calls in groups.items():
            yield self._row(name, calls)

    def _row(self, name: Any, calls: Sequence[Call]) -> Row:
        first = calls[0].sent
        row = Row(first["x"], first["y"], min(call.begin for call in calls), told=first.get("told"))
        row.tracked = row.told is not None
        answered = [call for call in calls if call.answer is not None]
        if not answered:
            return row
        answers = [call.answer for call in answered if call.answer is not None]
        seen = {(answer["version"], answer["rows"], answer["prediction"]) for answer in answers}
        if len(seen) > 1:
            self._say(f"once: {name} got {len(seen)} different answers: {sorted(seen, key=repr)[:3]}")
        if [answer["duplicate"] for answer in answers].count(False) > 1:
            self._say(f"once: {name} was learned as new more than once")
        row.version, row.number, row.said = answers[0]["version"], answers[0]["rows"], answers[0]["prediction"]
        row.end = min(call.end for call in answered)
        return row

    def _placed(self, rows: Iterable[Row], total: int) -> dict[int, Row]:
        placed: dict[int, Row] = {}
        for row in rows:
            if row.number is None:
                continue
            if row.number in placed:
                self._say(f"once: two rows are number {row.number}")
            if row.number > total:
                self._say(f"lost: row {row.number} was acknowledged; {total} rows are left")
            placed[row.number] = row
        return placed

    def _order(self, rows: Sequence[Row]) -> None:
        """A row acknowledged before another was sent comes before it in the log."""
        known = [row for row in rows if row.number is not None]
        acknowledged = [*_most((row.end, row.number or 0) for row in known)]
        for row in known:
            if (before := _latest(acknowledged, row.begin, 0)) >= (row.number or 0):
                self._say(f"order: row {row.number} was sent after row {before} was acknowledged")
        versions = [row.version or 0 for row in sorted(known, key=lambda row: row.number or 0)]
        if versions != sorted(versions):
            self._say("state: versions do not grow with the numbers of rows")

    # ------------------------------------------------------------ a serial log

    def _serial(self, rows: Sequence[Row], placed: dict[int, Row], total: int) -> None:
        """Fill the unknown numbers with rows of unknown fate, so that every prediction fits."""
        loose, begun = [row for row in rows if row.number is None], self._begun(placed, total)
        chosen: dict[int, Row] = {}
        options: dict[int, list[Row]] = {}
        self.states = [State(self.p0)]
        number = deepest = 1
        while number <= total:
            self.tries -= 1
            if number not in placed and number not in options:
                free = (row for row in loose if all(row is not chosen[at] for at in options))
                options[number] = [row for row in free if row.begin <= begun[number]]
            row = placed.get(number) or (options[number].pop() if options[number] else None)
            if row is not None and (number not in placed or self._fits(row, self.states[-1])):
                chosen[number] = row
                self.states.append(self.states[-1].after(row))
                number += 1
                continue
            deepest = max(deepest, number)
            options.pop(number, None)
            if not options or self.tries <= 0:
                self._say(self._unexplained(placed.get(deepest), deepest, len(loose)))
                return
            number = max(options)
            del self.states[number:]

    def _unexplained(self, row: Row | None, number: int, loose: int) -> str:
        if row is None:
            return f"state: row {number} is in the log but no client sent it; {loose} rows had no answer"
        return f"state: no order of rows explains the prediction for row {number}: {row.said}"

    def _begun(self, placed: dict[int, Row], total: int) -> list[float]:
        """The latest time a row at each number can have been sent: before any later row was acknowledged."""
        latest = [math.inf] * (total + 2)
        for number in range(total, 0, -1):
            own = placed[number].end if number in placed else math.inf
            latest[number] = min(latest[number + 1], own)
        return latest

    def _fits(self, row: Row, state: State) -> bool:
        if row.tracked:
            return close(row.said, row.told or 0.0)
        return (row.said is None and state.rows == 0) or close(row.said, state.predict(row.x))

    # ------------------------------------------------------------ what was read

    def _reads(self, placed: dict[int, Row]) -> None:
        known = [(placed[number].version or 0, number) for number in sorted(placed)]
        acknowledged = [*_most((row.end, number) for number, row in placed.items())]
        to_come = [*_most((-row.begin, -number) for number, row in placed.items())]
        for call in self.calls:
            if call.kind == "learn" or call.answer is None:
                continue
            low, high = self._between(known, call.answer["version"])
            if call.kind == "read":
                self._read(call, low, high, acknowledged)
            elif not self._was_said(call, low, high):
                self._say(f"state: version {call.answer['version']} does not predict {call.answer['prediction']}")
            future = -_latest(to_come, -call.end, -len(self.states))
            if low >= future:
                self._say(f"order: a {call.kind} saw row {low} before row {future} was sent")

    def _was_said(self, call: Call, low: int, high: int) -> bool:
        assert call.answer is not None
        said = (self.states[number].predict(call.sent["x"]) for number in range(low, high + 1))
        return any(close(call.answer["prediction"], value) for value in said)

    def _between(self, known: Sequence[tuple[int, int]], version: int) -> tuple[int, int]:
        """The smallest and the largest number of rows that a version can have."""
        at = bisect.bisect_right(known, (version, math.inf))
        low = known[at - 1][1] if at else 0
        high = known[at][1] - 1 if at < len(known) else len(self.states) - 1
        return low, high

    def _read(self, call: Call, low: int, high: int, acknowledged: Sequence[tuple[float, int]]) -> None:
        assert call.answer is not None
        rows, version = call.answer["rows"], call.answer["version"]
        if not low <= rows <= high:
            self._say(f"state: version {version} was read with {rows} rows; it has {low} to {high}")
        if version < call.sent.get("min_version", 0):
            self._say(f"fresh: version {version} instead of at least {call.sent['min_version']}")
        before = _latest(acknowledged, call.begin, 0)
        if call.sent.get("strong") and rows < before:
            self._say(f"fresh: a strong read has {rows} rows; {before} were acknowledged before it")


def _most(points: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Points in order of time, each with the largest number so far."""
    most = -math.inf
    for time, number in sorted(points):
        most = max(most, number)
        yield time, int(most)


def _latest(points: Sequence[tuple[float, int]], time: float, nothing: int) -> int:
    """The number of the last point before a given time."""
    at = bisect.bisect_left(points, (time, -math.inf))
    return points[at - 1][1] if at else nothing
