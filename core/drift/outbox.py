"""Drift events: how alarms are grouped into events, and the newest events, as a bounded part of the state.

One drift is one event, however many tests fire in however many classes. The first alarm opens an episode and is the
event. Alarms up to ``episode_rows`` rows later join it; the next one opens another episode, even if the drift goes on.
An episode that starts up to ``cooldown_rows`` rows after one that was acted on is held back: nothing acts on it, and it
is not sent to webhooks.

Events are a function of the log: every replica finds the same ones, and finds them again after a crash. Readers do not
remove events from the outbox: each remembers how far it has read, and new events replace old ones (``Outbox.put``).

    position of an alarm = (version, index)    its entry, and its number among the alarms of that entry, from 0

An event has the position of its first alarm; a reader remembers the position of the newest alarm it knows. An alarm
joins the newest event of its own learner: other learners may have had events since.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from core.contract import Alarm, Floats, Header, Label
from core.state.layout import LARGEST, ROWS_MAX, Counts, Holder, Layout

KEPT = 256
"""Events kept. A reader that is further behind has missed some; ``total`` shows it."""
LISTED_MAX = 20  # most later alarms that an event lists; it only counts the others
LISTED_KEPT = 512  # most later alarms that all kept events list together; beyond it the oldest events lose their lists

OnDrift = Literal["report", "reset", "forget"]
Count = Annotated[int, Meta(ge=0)]
AlarmPosition = tuple[Count, Count]
NO_ALARM: AlarmPosition = (0, 0)  # before every alarm of a model
Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


class EpisodePlace(NamedTuple):
    """Whether an alarm joins the latest episode; if it opens one, whether the cool-down of another holds that back."""

    joins: bool
    held_back: bool


class Episodes(Holder):
    """The episodes of one model, whose rows count from 1; 0 is before every row."""

    layout = Layout()
    object_bytes = 200
    counts: Mapping[str, int] = {"opened": ROWS_MAX, "acted": ROWS_MAX}

    def __init__(self) -> None:
        self.opened = 0  # the row of the first alarm of the latest episode
        self.acted = 0  # the same for the latest episode that was not held back

    def place(self, row: int, episode_rows: int, cooldown_rows: int) -> EpisodePlace:
        """Place the alarm of a row in an episode; rows never decrease."""
        if self.opened and row - self.opened <= episode_rows:
            return EpisodePlace(joins=True, held_back=False)
        self.opened = row
        if self.acted and row - self.acted <= cooldown_rows:
            return EpisodePlace(joins=False, held_back=True)
        self.acted = row
        return EpisodePlace(joins=False, held_back=False)

    def _check(self, _held: Mapping[str, Floats], found: Counts) -> None:
        if found["acted"] > found["opened"] or (found["opened"] > 0) != (found["acted"] > 0):
            raise ValueError("not the state of episodes")


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature whose mean moved: its encoded column and the means of the two windows."""

    name: str
    before: Finite
    after: Finite


class Joined(Struct, frozen=True, forbid_unknown_fields=True, rename={"label": "class"}):
    """A later alarm of an event; attributes as in ``Drift``."""

    kind: str
    label: Label | None
    row: Count
    features: tuple[Change, ...]
    position: AlarmPosition

    def to_json(self) -> Header:
        """The alarm as clients see it."""
        shown: Header = to_builtins(self)
        del shown["position"]
        return shown


class Drift(Struct, frozen=True, forbid_unknown_fields=True):
    """One event: its first alarm, and the later alarms that joined it."""

    version: Count
    index: Count
    row: Count  # absolute number of the row that raised it; the first row learned is 1
    time_ms: Count  # of the entry
    kind: str  # which test: "class_mean" or "error_rate"
    label: Label | None  # the class whose rows the test compared, None for regression
    features: tuple[Change, ...]  # the columns that moved, largest change first (class_mean); () otherwise
    before: float | None  # share of wrong rows (regression: large errors) in the past window (error_rate)
    after: float | None  # the same in the recent window
    epsilon_cut: Finite  # the threshold that was exceeded; for means, in ranges of the column that moved most
    rows_before: Count
    rows_after: Count
    action: OnDrift  # what the model did
    last_alarm: AlarmPosition  # of its latest alarm
    held_back: bool = False
    joined: Count = 0  # how many later alarms have joined it
    alarms: tuple[Joined, ...] = ()  # the first LISTED_MAX of them
    challenger: str | None = None  # the challenger that raised it, by its name at the time; None: the model itself

    @property
    def place(self) -> AlarmPosition:
        """The position of its first alarm."""
        return self.version, self.index

    def to_json(self) -> Header:
        """The first alarm as clients see it, without the model's name, the id and the time."""
        shown = to_builtins(self) | {"windows": {"before": self.rows_before, "after": self.rows_after}}
        names = ("version", "row", "features", "before", "after", "epsilon_cut", "windows", "action", "challenger")
        return {"kind": self.kind, "class": self.label, **{name: shown[name] for name in names}}


def of_alarm(alarm: Alarm, place: AlarmPosition, columns: Sequence[str], **known: Any) -> Drift:
    """The event that an alarm opens, in the client's terms: at its place, with the names of the alarm's columns, and
    the ``known`` values of row, time_ms, label, action, held_back and challenger.
    """
    before, after = (alarm.before[0], alarm.after[0]) if alarm.kind == "error_rate" else (None, None)
    return Drift(
        *place,
        kind=alarm.kind,
        features=changes_of(alarm, columns),
        before=before,
        after=after,
        epsilon_cut=alarm.epsilon,
        rows_before=alarm.n_before,
        rows_after=alarm.n_after,
        last_alarm=place,
        **known,
    )


def changes_of(alarm: Alarm, columns: Sequence[str]) -> tuple[Change, ...]:
    """The columns of an alarm, by name, with their means; none for the error-rate test."""
    return () if alarm.kind == "error_rate" else tuple(map(Change, columns, alarm.before, alarm.after))


class Outbox:
    """The last events of a model, oldest first."""

    def __init__(self) -> None:
        self.total = 0  # how many events there have been, kept or not
        self.last = NO_ALARM  # position of the newest alarm
        self._kept: deque[Drift] = deque(maxlen=KEPT)

    def next_position(self, version: int) -> AlarmPosition:
        """The position of the next alarm, which the entry of a version raised."""
        newest, index = self.last
        return version, index + 1 if version == newest else 0

    def put(self, drift: Drift) -> None:
        """Add an event, which must come after the last alarm.

        If there are too many, the oldest of the model or of its challengers falls out, whichever have more than half.
        """
        self._advance(drift.place)
        if len(self._kept) == KEPT:
            own = sum(one.challenger is None for one in self._kept) + (drift.challenger is None) > KEPT // 2
            del self._kept[next(at for at, one in enumerate(self._kept) if (one.challenger is None) == own)]
        self._kept.append(drift)
        self.total += 1

    def _advance(self, position: AlarmPosition) -> None:
        if position <= self.last:
            raise ValueError("alarms must come in the order of their positions")
        self.last = position

    def join(self, alarm: Joined, challenger: str | None) -> None:
        """Add a later alarm to the newest event of its learner, if that is still kept."""
        for at in range(len(self._kept) - 1, -1, -1):
            drift = self._kept[at]
            if drift.challenger == challenger:
                self._advance(alarm.position)
                whole = len(drift.alarms) == drift.joined < LISTED_MAX  # a list that was dropped does not begin again
                listed = (*drift.alarms, alarm) if whole else drift.alarms
                self._kept[at] = replace(drift, joined=drift.joined + 1, alarms=listed, last_alarm=alarm.position)
                self._shorten()
                return

    def _shorten(self) -> None:
        """Keep the lists of all events together within their bound."""
        excess = sum(len(drift.alarms) for drift in self._kept) - LISTED_KEPT
        for at, drift in enumerate(self._kept):
            if excess <= 0:
                return
            self._kept[at] = replace(drift, alarms=())
            excess -= len(drift.alarms)

    def after(self, alarm: AlarmPosition) -> list[Drift]:
        """The kept events that have alarms after a position, oldest first."""
        return [drift for drift in self._kept if drift.last_alarm > alarm]

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory held."""
        events = sum(450 + 150 * len(drift.features) for drift in self._kept)
        return events + sum(250 + 150 * len(alarm.features) for drift in self._kept for alarm in drift.alarms)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: no arrays, everything in the header."""
        return {}, {"total": self.total, "kept": [to_builtins(drift) for drift in self._kept]}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; a ``ValueError`` leaves the outbox unchanged."""
        try:
            kept, total = convert(header["kept"], Annotated[list[Drift], Meta(max_length=KEPT)]), header["total"]
        except (KeyError, ValidationError) as error:
            raise ValueError("not the state of an outbox") from error
        places, listed = [drift.place for drift in kept], sum(len(drift.alarms) for drift in kept)
        complete = all(len(raw) == len(Drift.__struct_fields__) for raw in header["kept"])
        if arrays or type(total) is not int or total < len(kept) or listed > LISTED_KEPT or not complete:
            raise ValueError("not the state of an outbox")
        if sorted(set(places)) != places or not all(map(_plausible, kept)):
            raise ValueError("not the state of an outbox: events or alarms out of order, or more than have joined")
        self.total, self._kept = total, deque(kept, maxlen=KEPT)
        self.last = max((drift.last_alarm for drift in kept), default=NO_ALARM)


def _plausible(drift: Drift) -> bool:
    """Whether the positions and the number of the alarms of an event agree."""
    positions = [drift.place, *(alarm.position for alarm in drift.alarms)]
    in_order = sorted(set(positions)) == positions and positions[-1] <= drift.last_alarm
    complete = drift.joined > len(drift.alarms) or drift.last_alarm == positions[-1]
    return in_order and complete and len(drift.alarms) <= min(drift.joined, LISTED_MAX)
