"""Clients that learn while something is ended beneath them, and count what was acknowledged."""

import threading
import time
from itertools import count
from types import TracebackType
from typing import Self

import httpx

CLIENTS = 4
PATIENCE_S = 120.0


class Load:
    """Clients of one model, each with a row under way; within ``with`` they learn.

    Args:
        url: of the service.
        again: whether a row that was not acknowledged is sent again, until it is; else its client ends there.
        key: the secret that they send.
        model: its name.
    """

    def __init__(self, url: str, *, again: bool, key: str = "", model: str = "m") -> None:
        self.acknowledged: list[str] = []
        self._url, self._again, self._path = url, again, f"/models/{model}/feedback"
        self._headers = {"X-API-Key": key} if key else {}
        self._over = threading.Event()
        self._clients = [threading.Thread(target=self._learn, args=(own,)) for own in range(CLIENTS)]

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish()

    def more(self, rows: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted, deadline = len(self.acknowledged) + rows, time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} rows of {wanted} in {PATIENCE_S:g} s"
            time.sleep(0.02)

    def finish(self) -> int:
        """Let the rows under way be acknowledged, or given up; how many were in all."""
        self._over.set()
        for client in self._clients:
            client.join()
        return len(self.acknowledged)

    def _learn(self, own: int) -> None:
        with httpx.Client(base_url=self._url, timeout=30, headers=self._headers) as client:
            for number in count():
                if self._over.is_set() or not self._acknowledged(client, own, number):
                    return

    def _acknowledged(self, client: httpx.Client, own: int, number: int) -> bool:
        row = {"id": f"{own}-{number}", "features": {"a": number % 7, "b": own}, "label": number % 2}
        deadline = time.monotonic() + PATIENCE_S
        while not self._sent(client, row):
            if not self._again or time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        self.acknowledged.append(f"{own}-{number}")
        return True

    def _sent(self, client: httpx.Client, row: dict[str, object]) -> bool:
        try:
            return client.post(self._path, json=row).is_success
        except httpx.TransportError:
            return False
