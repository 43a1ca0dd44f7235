"""A balancer in the test's own process: each model goes to one of the ready services, chosen by hashing its name."""

import hashlib
import threading
from collections.abc import Sequence

from tests.faults.load import Client, Row
from tests.faults.processes import Answer, Service, eventually

LOOK_S = 0.02


class Router:
    """Polls every service's /readyz and knows where each model belongs.

    ``sent``: (model, service) of every row answered with 200, in order.
    """

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services
        self._ready = set(range(len(services)))
        self._ended = threading.Event()
        self.sent: list[tuple[str, int]] = []
        self._threads = [threading.Thread(target=self._watch, args=(at,), daemon=True) for at in range(len(services))]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop polling."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def home(self, model: str) -> int:
        """The service of a model: the ready service with the highest hash of both names."""
        ready = [*self._ready] or range(len(self._services))
        return max(ready, key=lambda at: hashlib.blake2b(f"{model} {at}".encode()).digest())

    def homes(self, models: Sequence[str]) -> dict[str, int]:
        return {model: self.home(model) for model in models}

    def until(self, at: int, *, ready: bool) -> None:
        """Wait until a service is known to be ready, or known not to be."""
        assert ready is eventually(ready, lambda: at in self._ready)

    def _watch(self, at: int) -> None:
        while not self._ended.wait(LOOK_S):
            if self._services[at].port and self._services[at].ready() == 200:
                self._ready.add(at)
            else:
                self._ready.discard(at)

    def client(self, _: Service, model: str) -> "Routed":
        """Make a client for ``Load``."""
        return Routed(self, self._services, model)


class Routed:
    """A client that sends rows to the service of their model, on a separate connection to each service."""

    def __init__(self, router: Router, services: Sequence[Service], model: str) -> None:
        self._router, self._model = router, model
        self._clients = [Client(service, model) for service in services]

    def send(self, row: Row) -> Answer:
        """Try once; if the connection breaks, the fate of the row is unknown."""
        home = self._router.home(self._model)
        answer = self._clients[home].send(row)
        if answer.status == 200:
            self._router.sent.append((self._model, home))
        return answer

    def close(self) -> None:
        for client in self._clients:
            client.close()
