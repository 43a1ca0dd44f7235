"""Services that are broken on purpose, each in one way, to show that the judge notices."""

import itertools
from collections.abc import Callable

import msgspec

from core.model import read, save
from service.runtime.commit import answerer
from service.runtime.engine import Engine
from service.runtime.replicas.follower import Follower
from service.runtime.replicas.replica import Replica
from service.store.log import appends
from service.store.log.codec import Tracked

PLANTS: dict[str, Callable[[], None]] = {}


def sow(name: str) -> None:
    """Break this process in one way, before it starts to serve."""
    PLANTS[name]()


def plant(breaks: Callable[[], None]) -> Callable[[], None]:
    """Register it by its name."""
    PLANTS[breaks.__name__] = breaks
    return breaks


def _slow_followers() -> None:
    """Entries that others append are noticed late."""
    Follower.on_notice = lambda *_: None


@plant
def ids_are_learned_again() -> None:
    """The append script ignores that an id was seen."""
    source = appends.APPEND.source.replace("local record = known[id] or records[id]", "local record = records[id]")
    assert source != appends.APPEND.source
    appends.APPEND.__init__(source)


@plant
def strong_reads_are_not() -> None:
    """Strong reads do not ask for the head of the log."""

    async def as_it_is(_: object, replica):
        return replica

    _slow_followers()
    Engine._at_head = as_it_is


@plant
def min_version_is_ignored() -> None:
    """A read with min_version is answered at once."""

    async def at_once(*_: object) -> None:
        pass

    _slow_followers()
    Engine._reach = at_once


@plant
def entries_of_others_are_applied_twice() -> None:
    """Every fifth entry of others is applied twice."""
    applied, count = Replica._applied, itertools.count(1)

    def twice(self, step):
        if not step.own and next(count) % 5 == 0:
            step.apply(self.model)
        return applied(self, step)

    Replica._applied = twice


@plant
def entries_of_others_are_left_out() -> None:
    """Every fifth entry of others moves the version and changes nothing else."""
    applied, count = Replica._applied, itertools.count(1)

    def less(self, step):
        if not step.own and next(count) % 5 == 0:
            before = save.to_bytes(self.model, {})
            done = applied(self, step)
            self.model = save.from_bytes(before)[0]
            return done
        return applied(self, step)

    Replica._applied = less


@plant
def repeated_ids_get_new_answers() -> None:
    """The answer has the current number of rows instead of the first one."""
    repeated = answerer.repeated

    def anew(rows, earlier):
        reply = repeated(rows, earlier)
        return reply._replace(answer=msgspec.structs.replace(reply.answer, rows=reply.answer.rows + 1))

    answerer.repeated = anew


@plant
def tracked_predictions_are_forgotten() -> None:
    """The label of a tracked prediction is scored by the current prediction."""
    Tracked.served = None


@plant
def predictions_teach() -> None:
    """Every prediction moves the weights a little."""
    predict = read.predict

    def teaches(parts, raw):
        said = predict(parts, raw)
        parts.switching.in_force.own.learner.W *= 1.001
        return said

    read.predict = teaches
