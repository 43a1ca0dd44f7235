"""What the parts of a schedule share: the store, the replicas of the service, and what their clients were told."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from core.config import Config
from core.learners.catalogue import find
from service.errors import OnepassError
from service.runtime.commit.committer import CommitLimits
from service.runtime.engine import Bounds
from tests.simulator.clock import Loop
from tests.simulator.member import Member
from tests.simulator.network import TIMEOUT_S, Weather, World

FIRST, SECOND, THIRD = "m", "n", "o"
"""The model that everything happens to, one that must not notice, and one that is only looked at."""
NAMES = "abcd"
"""Features there may be; the first model begins with two of them."""
RETRIES = 6
ANSWER_S = 40 * TIMEOUT_S
"""The longest that any request may take, threads and bad weather included."""
BOUNDS = Bounds(
    committer=CommitLimits(64, 8, id_ttl_ms=10**9, ids_max=10**6, read_bytes_max=500, timeout_s=TIMEOUT_S),
    budget_bytes=2**30,
    model_bytes_max=2**30,
    body_bytes_max=2**20,
    bodies_bytes_max=2**20,
    batch_rows_max=100,
    prediction_ttl_ms=10**6,
    pending_max=100,
    wait_timeout_s=0.5,
    grace_s=1.0,
    snapshots_kept=2,
    challengers_max=8,
    snapshot_min_bytes=10**9,
)  # fmt: skip
SMALL_BUDGETS = (1, 61_000)
"""Bytes: room for the model in use alone, and for about two of three."""


def _config(on_drift: str | None) -> Config:
    watch = None if on_drift is None else {"class_mean": {"delta": 0.9, "batch_size": 4}, "episode_rows": 20}
    asked = {"algorithm": "rls", "task": "regression", "features": [*NAMES[:2]], "watch": watch}
    return Config.parse(asked if on_drift is None else asked | {"on_drift": on_drift})


find("rls").load()  # no schedule is to depend on whether another one came before
CONFIGS = {on_drift: _config(on_drift) for on_drift in (None, "report", "reset")}
SMALL = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"], "watch": None})


@dataclass(frozen=True)
class Setting:
    """What a seed decides once for the whole schedule.

    Attributes:
        on_drift: what the first model does about drift; None: it is not watched.
        themes: the groups of events that take place besides the ordinary ones.
        thread_s: the longest that a thread takes.
        budget_bytes: of memory for models.
        ids: how many different ids clients use.
    """

    on_drift: str | None
    themes: frozenset[str]
    thread_s: float
    budget_bytes: int
    ids: int

    @classmethod
    def drawn(cls, draw: random.Random) -> "Setting":
        """A third of the seeds each: alarms, changes of features, states that are moved, threads for everything, little
        memory, blocks of few entries, challengers.
        """
        themes = ("alarms", "features", "states", "threads", "memory", "merged", "challengers")
        third = {theme: draw.random() < 1 / 3 for theme in themes}
        return cls(
            on_drift=draw.choice(("report", "reset")) if third["alarms"] else None,
            themes=frozenset(theme for theme, drawn in third.items() if drawn),
            thread_s=draw.choice((0.0, 0.002, 0.02)),
            budget_bytes=draw.choice(SMALL_BUDGETS) if third["memory"] else 2**30,
            ids=draw.choice((4, 30)),
        )


@dataclass
class Told:
    """What a client was told of its request.

    Attributes:
        incarnation: of which model.
        version: the version that it made; -1 where it was not told.
        outcome: the whole answer of a request with one row or none; (prediction, loss) of one row of several; the
            text of a refusal.
    """

    incarnation: str
    version: int
    outcome: Any


@dataclass
class Seen:
    """What a reader saw of a model that was held still; ``state`` where it took the whole of it."""

    incarnation: str
    version: int
    uid: str
    rows: int
    state: bytes | None


@dataclass
class Simulation:
    """A run as far as it has come.

    Args:
        loop: whose time it is.
        draw: decides everything.
        setting: what the seed decides for the whole of it.
        say: told what happens, for a person.

    Attributes:
        members: the replicas of the service that run.
        created: names of models that were certainly created.
        told: what clients were told, by the first model's ids.
        told_second: the same for the rows of the second model.
        written: what was written in pieces for an entry to name, by digest: states, large segments.
        seen: what readers saw of the first model.
        dropped: (incarnation, version, ids) of every entry that the store has lost.
        owed: replicas that have applied what the store has lost, each with what they had noticed before.
        on_loop: work that was done on the event loop, though everything is meant to be done in threads.
        over: whether the verdict has begun.
        cuts: how often the store has gone back: it may have lost the stored answer to an id whose entry it has kept,
            and once the log is trimmed nobody can say it again.
        torn: whether snapshots were kept that rest on what is lost.
        counts: what has happened, by kind.
        numbers: for everything that needs a name of its own.
    """

    loop: Loop
    draw: random.Random
    setting: Setting
    say: Callable[..., None]
    members: list[Member] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    told: dict[str, list[Told]] = field(default_factory=dict)
    told_second: dict[str, list[Told]] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    dropped: list[tuple[str, int, frozenset[str]]] = field(default_factory=list)
    owed: list[tuple[Member, Any, int, int, str]] = field(default_factory=list)
    on_loop: list[str] = field(default_factory=list)
    cuts: int = 0
    torn: bool = False
    over: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.world = World(self.loop, self.draw, Weather.drawn(self.draw))
        self.config = CONFIGS[self.setting.on_drift]
        self.bounds = replace(BOUNDS, budget_bytes=self.setting.budget_bytes)

    @property
    def configs(self) -> dict[str, Config]:
        """The models, by name."""
        return {FIRST: self.config, SECOND: SMALL, THIRD: SMALL}

    def anyone(self, *, writes: bool = False) -> Member | None:
        """Some replica of the service; one that ``writes``, if need be."""
        found = [member for member in self.members if not (writes and member.reads_only)]
        return self.draw.choice(found) if found else None

    @asynccontextmanager
    async def attempt(self, what: str, member: Member) -> AsyncIterator[None]:
        """A request that may be refused, and takes no longer than any may."""
        try:
            async with asyncio.timeout(ANSWER_S):
                yield
        except (OnepassError, TimeoutError, ValueError) as error:
            self.say(f"no {what} by", member.number, repr(error))

    async def pause(self, longest_s: float) -> None:
        """Wait for some time."""
        await asyncio.sleep(self.draw.uniform(0, longest_s))
