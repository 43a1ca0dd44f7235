"""Shared by the parts of a schedule: the store, the replicas of the service, and the answers to their clients."""

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
"""The model that everything happens to, one that must not be affected, and one that is only read."""
NAMES = "abcd"
"""All possible features; the first model starts with two of them."""
RETRIES = 6
ANSWER_S = 40 * TIMEOUT_S
"""The longest time a request may take, including threads and bad weather."""
BOUNDS = Bounds(
    committer=CommitLimits(64, 8, id_ttl_ms=10**9, ids_max=10**6, read_bytes_max=500, timeout_s=TIMEOUT_S),
    budget_bytes=2**30, model_bytes_max=2**30, body_bytes_max=2**20, bodies_bytes_max=2**20,
    batch_rows_max=100, prediction_ttl_ms=10**6, pending_max=100, wait_timeout_s=0.5, grace_s=1.0,
    snapshots_kept=2, challengers_max=8, snapshot_min_bytes=10**9,
)  # fmt: skip
SMALL_BUDGETS = (1, 61_000)
"""Bytes: enough for only the model in use, and for about two of three."""


def _config(on_drift: str | None) -> Config:
    watch = None if on_drift is None else {"class_mean": {"delta": 0.9, "batch_size": 4}, "episode_rows": 20}
    asked = {"algorithm": "rls", "task": "regression", "features": [*NAMES[:2]], "watch": watch}
    return Config.parse(asked if on_drift is None else asked | {"on_drift": on_drift})


find("rls").load()  # no schedule may depend on whether another one ran before
CONFIGS = {on_drift: _config(on_drift) for on_drift in (None, "report", "reset")}
SMALL = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"], "watch": None})


@dataclass(frozen=True)
class Setting:
    """The choices a seed makes for the whole schedule.

    ``on_drift``: the first model's action, None without a watch; ``themes``: groups of further events;
    ``thread_s``: the longest time a thread takes; ``ids``: how many clients use.
    """

    on_drift: str | None
    themes: frozenset[str]
    thread_s: float
    budget_bytes: int
    ids: int

    @classmethod
    def drawn(cls, draw: random.Random) -> "Setting":
        """Each theme takes place with a third of the seeds: alarms, changes of features, moved states, threads for
        everything, little memory, blocks of few entries, challengers.
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
    """A client's answer to its request; ``version`` is -1 if the client was not told which one it made.

    ``outcome``: the whole answer to at most one row; (prediction, loss) for one of several; the text of a refusal.
    """

    incarnation: str
    version: int
    outcome: Any


@dataclass
class Seen:
    """What a reader saw of a model held still; ``state`` is set if it read all of it."""

    incarnation: str
    version: int
    uid: str
    rows: int
    state: bytes | None


@dataclass
class Simulation:
    """The current state of a run."""

    loop: Loop  # provides the time
    draw: random.Random  # decides everything random
    setting: Setting  # the choices for the whole run
    say: Callable[..., None]  # called with what happens, for a human reader
    members: list[Member] = field(default_factory=list)  # the running replicas of the service
    created: set[str] = field(default_factory=set)  # names of models that were certainly created
    told: dict[str, list[Told]] = field(default_factory=dict)  # the answers to clients, by the first model's ids
    told_second: dict[str, list[Told]] = field(default_factory=dict)  # the same for rows of the second model
    written: dict[str, bytes] = field(default_factory=dict)  # states and segments that entries name, by digest
    seen: list[Seen] = field(default_factory=list)  # what readers saw of the first model
    dropped: list[tuple[str, int, frozenset[str]]] = field(default_factory=list)  # (incarnation, version, ids) if lost
    # Replicas that have applied lost entries, each with the number of lost tails it had reported before.
    owed: list[tuple[Member, Any, int, int, str]] = field(default_factory=list)
    on_loop: list[str] = field(default_factory=list)  # work on the event loop that should have run in threads
    # How often the store has gone back: it may have lost the stored answer to an id whose entry it has kept, and once
    # the log is trimmed the answer cannot be given again.
    cuts: int = 0
    torn: bool = False  # whether snapshots survived that rest on lost entries
    over: bool = False  # whether the verdict has begun
    counts: Counter[str] = field(default_factory=Counter)  # what has happened, by kind
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)  # for everything that needs a unique name

    def __post_init__(self) -> None:
        self.world = World(self.loop, self.draw, Weather.drawn(self.draw))
        self.config = CONFIGS[self.setting.on_drift]
        self.bounds = replace(BOUNDS, budget_bytes=self.setting.budget_bytes)

    @property
    def configs(self) -> dict[str, Config]:
        """The configurations of the models, by name."""
        return {FIRST: self.config, SECOND: SMALL, THIRD: SMALL}

    def anyone(self, *, writes: bool = False) -> Member | None:
        """Some replica of the service; one that ``writes`` if required."""
        found = [member for member in self.members if not (writes and member.reads_only)]
        return self.draw.choice(found) if found else None

    @asynccontextmanager
    async def attempt(self, what: str, member: Member) -> AsyncIterator[None]:
        """Make a request that may be refused, and check that it does not take too long."""
        try:
            async with asyncio.timeout(ANSWER_S):
                yield
        except (OnepassError, TimeoutError, ValueError) as error:
            self.say(f"no {what} by", member.number, repr(error))

    async def pause(self, longest_s: float) -> None:
        await asyncio.sleep(self.draw.uniform(0, longest_s))
