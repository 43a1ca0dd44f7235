"""An event loop whose time is its own: nothing waits, and the same seed is the same run."""

import asyncio
from collections.abc import Callable
from typing import Any


class Stuck(Exception):
    """Somebody waits for something that nobody will ever do."""


class Loop(asyncio.BaseEventLoop):
    """Time moves only when nothing else is left to do, and then to the next thing that is due."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """What the loop calls when it would wait."""
        if timeout is None:
            raise Stuck
        self._now += timeout
        return []

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Threads would bring the machine's own time in."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
