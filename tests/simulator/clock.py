"""An event loop with simulated time: nothing waits, and the same seed gives the same run.

Threads are tasks that end later: the work of a thread happens at once, either when it begins or when it ends, and its
result arrives at the end. So anything that can happen while a thread runs does happen with some seed.
"""

import asyncio
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Stuck(Exception):
    """A task waits for something that will never happen."""


@dataclass(eq=False)
class Work:
    """The work of one thread, by the loop's clock; ``concerns``: the object whose method runs, and its arguments."""

    concerns: tuple[Any, ...]
    begin: float
    end: float


class Loop(asyncio.BaseEventLoop):
    """Time moves only when nothing else is left to do, and then to the next event that is due.

    A thread takes at most ``thread_s``; ``works``: the work of all threads so far.
    """

    def __init__(self, draw: random.Random, thread_s: float) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self
        self._draw, self._thread_s = draw, thread_s
        self.works: list[Work] = []
        self.in_thread = False

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the time instead of waiting; called by the loop."""
        if timeout is None:
            raise Stuck
        self._now += timeout
        return []

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """A real thread would use the machine's time. Work that has begun goes on even if its caller has gone."""
        future, took_s = self.create_future(), self._draw.uniform(0, self._thread_s)
        self.works.append(Work(_concerns(func, args), self._now, self._now + took_s))
        early = self._draw.random() < 0.5
        outcome = self._outcome(func, args) if early else None

        def end() -> None:
            result, error = outcome or self._outcome(func, args)
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.call_later(took_s, end)
        return future

    def _outcome(self, func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        self.in_thread = True
        try:
            return func(*args), None
        except Exception as error:
            return None, error
        finally:
            self.in_thread = False

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _concerns(func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The owner and the arguments of a function in a thread; asyncio.to_thread passes all of them in one partial."""
    func, *given = func.args if isinstance(func, functools.partial) else (func, *args)
    return getattr(func, "__self__", None), *given
