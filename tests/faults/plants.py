"""Services that are broken on purpose, each in one way, so that tests can show that the judge finds it."""

import itertools
from collections.abc import Callable

import msgspec

from core.model import read, save
from service.runtime.commit import answerer
from service.runtime.engine import Engine
from service.runtime.replicas.follower import Follower
from service.runtime.replicas.replica import Replica
from service.store.log import scripts
from service.store.log.codec import Tracked

PLANTS: dict[str, Callable[[], None]] = {}


def sow(name: str) -> None:
    """Break this process in one way, before it serves."""
    PLANTS[name]()


def plant(breaks: Callable[[], None]) -> Callable[[], None]:
    """Make it known by its name."""
    PLANTS[breaks.__name__] = breaks
    return breaks


def _slow_followers() -> None:
    """What others append is noticed late."""
    Follower.on_notice = lambda *_: None


@plant
def ids_are_learned_again() -> None:
    """The append script overlooks that an id was seen."""
    source = scripts.APPEND.source.replace("local record = known[id] or records[id]", "local record = records[id]")
    assert source != scripts.APPEND.source
    scripts.APPEND.__init__(source)


@plant
def strong_reads_are_not() -> None:
    """They do not ask for the head of the log."""

    async def as_it_is(_: object, replica):
        return replica

    _slow_followers()
    Engine._at_head = as_it_is


@plant
def min_version_is_not_waited_for() -> None:
    """A read with it is answered at once."""

    async def at_once(*_: object) -> None:
        pass

    _slow_followers()
    Engine._reach = at_once


@plant
def entries_of_others_are_applied_twice() -> None:
    """One in five of them."""
    applied, count = Replica._applied, itertools.count(1)

    def twice(self, step):
        if not step.own and next(count) % 5 == 0:
            step.apply(self.model)
        return applied(self, step)

    Replica._applied = twice


@plant
def entries_of_others_are_left_out() -> None:
    """One in five of them moves the version and nothing else."""
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
def a_repeated_id_is_answered_anew() -> None:
    """With the number of rows that there are now, not with the first answer."""
    repeated = answerer.repeated

    def anew(rows, earlier):
        reply = repeated(rows, earlier)
        return reply._replace(answer=msgspec.structs.replace(reply.answer, rows=reply.answer.rows + 1))

    answerer.repeated = anew


@plant
def what_was_told_is_forgotten() -> None:
    """The label of a tracked prediction is scored by what the model says by then."""
    Tracked.served = None


@plant
def predictions_teach() -> None:
    """Each moves the weights a little."""
    predict = read.predict

    def teaches(parts, raw):
        said = predict(parts, raw)
        parts.switching.in_force.own.learner.W *= 1.001
        return said

    read.predict = teaches
