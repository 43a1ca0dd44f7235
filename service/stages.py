"""How long the parts of a request take: for spans, and for the log at debug. Where neither is on nothing is measured.

    body        from the request's begin until its body is here
    decode      from there until its rows are read
    predict     of the model
    queue       until the append that takes the rows begins
    append      until the store has them
    apply       until they are learned, and answered
    redis NAME  a round trip to the store, by the name of its first command

Nothing here says what was in a request, but how many rows.
"""

from contextvars import ContextVar
from time import time_ns
from typing import NamedTuple

STAGES_MAX = 100
"""Most stages that are kept of one request: a stream of rows goes on for ever."""
on = False
"""Whether stages are measured."""


class Stage(NamedTuple):
    """A part of a request; nanoseconds since 1970."""

    name: str
    begun_ns: int
    ended_ns: int


class Stages:
    """The stages of one request.

    Attributes:
        begun_ns: when it began.
        done: the stages that are over.
        rows: how many rows it has brought.
        version: of the model, as it answers; None: of no model.
    """

    __slots__ = ("_mark_ns", "begun_ns", "done", "rows", "version")

    def __init__(self) -> None:
        self.begun_ns = self._mark_ns = time_ns()
        self.done: list[Stage] = []
        self.rows = 0
        self.version: int | None = None

    def reached(self, name: str) -> None:
        """End a stage that follows the last one of these."""
        self._mark_ns = self.add(name, self._mark_ns)

    def add(self, name: str, begun_ns: int) -> int:
        """Add a stage that ends now; when that is."""
        now = time_ns()
        if len(self.done) < STAGES_MAX:
            self.done.append(Stage(name, begun_ns, now))
        return now


CURRENT: ContextVar[Stages | None] = ContextVar("onepass_stages", default=None)
"""Those of the request that is answered."""


class Way:
    """The way of one request's rows to the log, beside others of the same request.

    Args:
        stages: of the request.
        rows: how many they are.
    """

    __slots__ = ("_mark_ns", "_stages")

    def __init__(self, stages: Stages, rows: int) -> None:
        stages.reached("decode")
        stages.rows += rows
        self._stages, self._mark_ns = stages, time_ns()

    def reached(self, name: str, version: int | None = None) -> None:
        """End the stage of this name."""
        self._mark_ns = self._stages.add(name, self._mark_ns)
        self._stages.version = version or self._stages.version


def switch(wanted: bool) -> None:
    """Measure from now on, or no longer."""
    global on  # noqa: PLW0603  one process
    on = wanted


def begin() -> Stages | None:
    """Begin a request; None where nothing is measured."""
    stages = Stages() if on else None
    CURRENT.set(stages)
    return stages


def reached(name: str, rows: int = 0, version: int | None = None) -> None:
    """End a stage of the request that is answered. To be called where ``on``."""
    stages = CURRENT.get()
    if stages is not None:
        stages.reached(name)
        stages.rows += rows
        stages.version = version or stages.version


def add(name: str, begun_ns: int) -> None:
    """Add a stage beside the others of the request that is answered, likewise."""
    stages = CURRENT.get()
    if stages is not None:
        stages.add(name, begun_ns)


def way(rows: int) -> Way | None:
    """Begin the way of rows to the log, likewise."""
    stages = CURRENT.get()
    return None if stages is None else Way(stages, rows)
