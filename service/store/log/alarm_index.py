"""The index of models that may have unpublished alarms, so that a crash leaves none unpublished without bound.

    onepass:{onepass:drift}:unpublished   ZSET   "NAME INC WRITER" -> when it was entered, by the store's clock, ms

An alarm is in its model's outbox once an entry is applied, and no other process need hold the model. So a process
enters a model before its first append, and renews this before the first append after ``RENEWED_S``. It removes the
model once everything is published and nothing is on its way. What has not been renewed for long is a dead process's:
anybody may load these models, publish their alarms, and remove them.

The entry goes in front of the append, on the same connection where both go to one server. In a cluster it may go to
another one, which the append does not wait for: where that server is away as the process dies, alarms of its last
appends wait until their model is loaded again.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import NamedTuple

from service.store.keys import DRIFT_UNPUBLISHED, ModelKeys
from service.store.log.appends import Append
from service.store.log.scripts import BASICS
from service.store.redis.connection import Call, Connection, Script

RENEWED_S = 60
"""How long an entry covers the appends of its process."""
ABANDONED_S = 180
"""After so long an entry is a dead process's; longer than it covers appends, and these may be under way."""

# KEYS index; ARGV members
_ENTER = Script(
    BASICS + "for _, member in ipairs(ARGV) do call('ZADD', KEYS[1], string.format('%.0f', now), member) end"
)
# KEYS index; ARGV least age in ms. Returns members.
_OLDER = Script(BASICS + "return call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1]))")
# KEYS index; ARGV least age in ms, members: those renewed meanwhile stay.
_REMOVE = Script(
    BASICS
    + """
for i = 2, #ARGV do
  local entered = call('ZSCORE', KEYS[1], ARGV[i])
  if entered and tonumber(entered) <= now - ARGV[1] then call('ZREM', KEYS[1], ARGV[i]) end
end
"""
)


class Entered(NamedTuple):
    """A model in the index, by the process that may leave alarms of it."""

    name: str
    incarnation: str
    writer: str

    def __str__(self) -> str:
        return f"{self.name} {self.incarnation} {self.writer}"


class AlarmIndex:
    """The index of one store.

    Args:
        connection: the store.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._entered: dict[str, tuple[Entered, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock: Callable[[], float] | None = None

    def _now(self) -> float:
        """The loop's time; asking for the loop is a system call."""
        if self._clock is None:
            self._clock = asyncio.get_running_loop().time
        return self._clock()

    # ---------------------------------------------------------------- what appends call

    def calls_before(self, appends: Sequence[Append]) -> list[Call]:
        """What has to go in front of some appends to one server; ``settle`` takes the results."""
        now, due = self._now(), []
        for each in appends:
            known = self._entered.get(each.incarnation)
            if known is None or now >= known[1] + RENEWED_S:
                entered = Entered(each.name, each.incarnation, each.writer)
                self._entered[each.incarnation] = entered, now
                due.append(str(entered))
        if not due:
            return []
        call = Call(_ENTER, (DRIFT_UNPUBLISHED,), due)
        node_key = self._connection.node_key
        if node_key(DRIFT_UNPUBLISHED) == node_key(ModelKeys(appends[0].name, "").meta):
            return [call]
        task = asyncio.get_running_loop().create_task(self._enter(call, appends), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return []

    async def _enter(self, call: Call, appends: Sequence[Append]) -> None:
        self.settle(appends, await self._connection.run([call], quick=True), appends)

    def settle(self, appends: Sequence[Append], entered: Sequence[object], results: Sequence[object]) -> None:
        """Take in what became of appends, and of the calls in front of them.

        A model that could not be entered is entered with its next append. So is one whose append has failed: that may
        still be carried out, and this process does not count on its entry, nor remove it.
        """
        failed = any(isinstance(one, Exception) for one in entered)
        for append, result in zip(appends, results, strict=True):
            if failed or isinstance(result, Exception):
                self._entered.pop(append.incarnation, None)

    # ---------------------------------------------------------------- what the publisher calls

    def covered(self, least_s: int) -> list[Entered]:
        """The models that this process entered so long ago."""
        before = self._now() - least_s
        return [entered for entered, at in self._entered.values() if at <= before]

    async def left(self, least_s: int) -> list[Entered]:
        """The models that any process entered so long ago, and has not removed; the oldest first."""
        found = await self._connection.one(Call(_OLDER, (DRIFT_UNPUBLISHED,), (1000 * least_s,)))
        return [Entered(*member.decode().split(" ")) for member in found]

    async def remove(self, models: Sequence[Entered], least_s: int) -> None:
        """Remove models, but for those entered again in the last ``least_s``.

        Raises:
            StoreDown, StoreFull: the store did not answer, or cannot.
        """
        for entered in models:
            if self._entered.get(entered.incarnation, (None,))[0] == entered:
                del self._entered[entered.incarnation]
        if models:
            await self._connection.one(Call(_REMOVE, (DRIFT_UNPUBLISHED,), (1000 * least_s, *map(str, models))))
