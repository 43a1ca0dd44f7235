"""Models of a backup, brought into the store one by one: each is there whole, or not at all.

    no model of its name                       restored
    the same incarnation, version and uid      skipped: it is that model
    anything else of its name                  conflict: passed over, nothing of it changes
    its content is refused                     refused: passed over, likewise

Whoever is interrupted sends the backup again: what is there is skipped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.machine import Learners
from core.problems import Problem
from service.errors import QueueFull, StoreDown, Unavailable
from service.runtime import admission
from service.runtime.backoff import Backoff
from service.runtime.backup import checks
from service.runtime.backup.checks import EventOrder
from service.runtime.engine import Engine
from service.runtime.threads import in_thread_if_large
from service.store.backup.contents import Contents
from service.store.backup.frames import Frame
from service.store.backup.parts import Begin, End, Events, LeftOut, Page, Standing, Unlabelled
from service.store.backup.staging import DriftEvent, Restored, Staging
from service.store.log import Head

logger = logging.getLogger(__name__)

AGAIN_S, AGAIN_S_MAX, WAIT_S = 0.1, 2.0, 30.0
"""Pauses while other requests hold as many bytes of states as may be, and how long all of them may take."""
REFUSED = (ValueError, msgspec.MsgspecError, RecursionError)
"""What the checks of a model's content raise."""


@dataclass(slots=True)
class Report:
    """What became of the models of a backup.

    Attributes:
        restored, skipped: by name.
        passed_over: how many were not asked for.
        conflicts, refused: models that are not restored, and why.
        left_out: models that the backup lacks, and why.
    """

    restored: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    passed_over: int = 0
    conflicts: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


class _Model:
    """A model on its way.

    Attributes:
        begin: which one.
        staging: where its parts go.
        told, state, summary: what has come of it.
        widths: of the rows of its tracked predictions.
        drift, unlabelled: check its events.
    """

    def __init__(self, begin: Begin, staging: Staging) -> None:
        self.begin, self.staging = begin, staging
        self.told: Standing | None = None
        self.state, self.summary = bytearray(), b""
        self.checked = False
        self.counts = [0, 0, 0, 0]
        self.widths: checks.Widths = set()
        self.drift = self.unlabelled = EventOrder(begin, 0)

    @property
    def standing(self) -> Standing:
        """Where it stands; ``Contents`` sees to it that this has come first."""
        assert self.told is not None
        return self.told


class Restoring:
    """One restore.

    Args:
        engine: of the store.
        wanted: whether a model is to be restored.
        allow: raises where the key may not restore a model.

    Attributes:
        report: what has become of the models so far.
    """

    def __init__(self, engine: Engine, wanted: Callable[[str], bool], allow: Callable[[str], None]) -> None:
        self._engine, self._wanted, self._allow = engine, wanted, allow
        self._contents, self.report = Contents(), Report()
        self._model: _Model | None = None
        self._other: tuple[Begin, Head] | None = None
        self._budgeted = 0
        self._steps: dict[bytes, Callable[[_Model, Any], Awaitable[None]]] = {
            b"P": self._pending,
            b"S": self._standing,
            b"C": self._state,
            b"I": self._ids,
            b"D": self._events,
            b"U": self._unlabelled,
            b"E": self._end,
        }

    @property
    def finished(self) -> bool:
        """Whether the backup has its end."""
        return self._contents.finished

    @property
    def behind(self) -> str:
        """Where reading stands, for people."""
        last = self._contents.last
        return f"behind model {last}" if last else "before its first whole model"

    async def take(self, frame: Frame) -> None:
        """Take in what comes next.

        Raises:
            Damaged: the backup is not as it was written.
            OnepassError: the key does not allow it, or the store is away.
        """
        part = await in_thread_if_large(len(frame.payload), self._contents.note, frame)
        if frame.kind == b"M":
            await self._begin(part)
        elif frame.kind == b"S" and self._other is not None:
            self._compare(*self._other, part)
        elif frame.kind in self._steps:
            if self._model is not None:
                await self._step(self._model, frame.kind, part)
        else:
            await self.drop()
            if isinstance(part, LeftOut):
                self.report.left_out.append(part)

    async def drop(self) -> None:
        """Let go of a model that is not whole."""
        model, self._model, self._other = self._model, None, None
        self._give()
        if model is not None:
            with suppress(StoreDown):  # it expires
                await model.staging.drop()

    def _give(self) -> None:
        self._engine.state_budget.give(self._budgeted)
        self._budgeted = 0

    # ---------------------------------------------------------------- which models

    async def _begin(self, begin: Begin) -> None:
        await self.drop()
        if not self._wanted(begin.name):
            self.report.passed_over += 1
            return
        self._allow(begin.name)
        (head,) = await self._engine.store.log.heads([begin.name])
        if head is None:
            self._model = _Model(begin, Staging(self._engine.store.connection, begin.name, begin.incarnation))
        else:
            self._other = begin, head

    def _compare(self, begin: Begin, head: Head, told: Standing) -> None:
        """A model has the name already."""
        self._other = None
        if (head.incarnation, head.version, head.uid) == (begin.incarnation, told.version, told.uid):
            self.report.skipped.append(begin.name)
        elif head.incarnation != begin.incarnation:
            self._conflict(begin.name, "is the name of another model here", f"incarnation {begin.incarnation}")
        else:
            self._conflict(begin.name, f"is at version {head.version} here", f"version {told.version}")

    def _conflict(self, name: str, problem: str, of_backup: str) -> None:
        self.report.conflicts.append(Problem(f"models.{name}", problem, f"{of_backup}, as in the backup, or no model"))

    async def _step(self, model: _Model, kind: bytes, part: Any) -> None:
        try:
            await self._steps[kind](model, part)
        except REFUSED as error:
            detail = str(error)[:500]
            logger.warning("model %s of a backup is refused: %s", model.begin.name, detail)
            self.report.refused.append(Problem(f"models.{model.begin.name}", f"is refused: {detail}"))
            await self.drop()

    # ---------------------------------------------------------------- the parts of one

    async def _pending(self, model: _Model, page: Page) -> None:
        await in_thread_if_large(_size(page), checks.pending, page.items, model.widths)
        model.counts[0] += len(page.items)
        await model.staging.pending(page.items)

    async def _standing(self, model: _Model, told: Standing) -> None:
        checks.standing(told, model.begin)
        bounds = self._engine.bounds
        most = bounds.model_bytes_max + bounds.body_bytes_max  # its arrays, and the rest
        if told.state_bytes > most:
            raise ValueError(f"its state has {told.state_bytes} bytes, of at most {most} (ONEPASS_MODEL_LIMIT_MB)")
        await self._budget(told.state_bytes)
        model.told = told
        model.drift, model.unlabelled = (EventOrder(model.begin, told.version) for _ in range(2))

    async def _budget(self, size: int) -> None:
        """Count a state, when others hold less.

        Raises:
            QueueFull: they do for long.
        """
        clock, backoff = asyncio.get_running_loop().time, Backoff(AGAIN_S, AGAIN_S_MAX)
        until = clock() + WAIT_S
        while True:
            try:
                self._engine.state_budget.take(size)
            except QueueFull:
                if clock() > until:
                    raise
                await backoff.wait()
            else:
                self._budgeted = size
                return

    async def _state(self, model: _Model, piece: bytes) -> None:
        model.state += piece
        if len(model.state) > model.standing.state_bytes:
            raise ValueError("its state is longer than it says")
        if len(model.state) == model.standing.state_bytes:
            await self._whole_state(model)

    async def _whole_state(self, model: _Model) -> None:
        """Check a state and write it; from here on it is not held."""

        def admit(learners: Learners) -> None:
            self._engine.models.admit(admission.of_state(learners))

        # In a thread whatever its size: it may be the first of its algorithm, whose kernels are loaded then.
        own = model.state, model.begin, model.standing, model.widths
        model.summary = await asyncio.to_thread(checks.state, *own, admit)
        await model.staging.state(model.state, model.standing.state_digest)
        model.state, model.checked = bytearray(), True
        self._give()

    async def _ids(self, model: _Model, page: Page) -> None:
        await in_thread_if_large(_size(page), checks.ids, page.items, model.standing.version)
        model.counts[1] += len(page.items)
        await model.staging.ids(page.items)

    async def _events(self, model: _Model, page: Events) -> None:
        found = [DriftEvent(*item) for item in page.items]
        for one in found:
            model.drift.check(one.place, one.body, one.later)
        model.counts[2] += len(found)
        await model.staging.events(found)

    async def _unlabelled(self, model: _Model, page: Unlabelled) -> None:
        for place, _, _, body in page.items:
            model.unlabelled.check(place, body)
        model.counts[3] += len(page.items)
        await model.staging.unlabelled(page.items)

    async def _end(self, model: _Model, end: End) -> None:
        if not model.checked or model.counts != [end.pending, end.ids, end.events, end.unlabelled]:
            raise ValueError("it is not as much as its end says")
        name, told = model.begin.name, model.standing
        await model.staging.settle()
        outcome = await model.staging.publish(
            Restored(
                told.config, told.created_ms, told.expired, told.origin, told.published, model.summary,
                checks.snapshot_info(told),
            )
        )  # fmt: skip
        self._model = None
        if outcome == "incomplete":
            raise Unavailable(f"parts of model {name} have expired while they were written: send the backup again")
        if outcome == "restored":
            self.report.restored.append(name)
            logger.info("model %s is restored at version %d", name, told.version)
            return
        (head,) = await self._engine.store.log.heads([name])  # somebody else was faster
        if head is not None:
            self._compare(model.begin, head, told)


def _size(page: Page) -> int:
    return sum(len(value) for *_, value in page.items)
