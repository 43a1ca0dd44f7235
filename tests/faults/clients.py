"""Clients in threads, each with its own random draws, that go on until they are told to finish."""

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Self

from tests.faults.processes import Service

PATIENCE_S = 120


class Clients(ABC):
    """Clients that each go to any of several services; what happened, and what must not."""

    ends_by_itself = False

    def __init__(self, services: Sequence[Service], clients: int, seed: int) -> None:
        self.services = services
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(number, random.Random(f"{seed} {number}")), daemon=True)
            for number in range(clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.ends_by_itself:
            self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._over.set()
        assert not any(thread.is_alive() for thread in self._threads), "a client never got an answer"
        assert [] == self.failures, self.failures[:3]

    def _guarded(self, number: int, draw: random.Random) -> None:
        try:
            self._client(number, draw)
        except BaseException as error:
            self.failures.append(repr(error))

    @abstractmethod
    def _client(self, number: int, draw: random.Random) -> None:
        """Act as one client until told to finish."""
