"""The steps of the demo: a service, its models, rows in time, what happened, and the end."""

import itertools
import math
import os
import socket
import time
from argparse import Namespace
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.replay import Failed, Interrupted, ports, private, trust
from service.replay.client import Service
from service.replay.command import PRIVATE_PATIENCE_S, interruptible
from service.replay.demo.cast import Role, cast
from service.replay.demo.feeding import Feeder
from service.replay.demo.happenings import Teller, Watched

PORT = 8000
STEP_S = 1.0
"""Between two requests to a model, at most as often as the pages change."""
LEAVE_S = 2.0
"""How long the models of the demo are asked to go where the service does not answer."""
LOOK_EVERY = 3
"""Steps between two looks at what has happened to a model."""
FASTEST_S = 0.05


def run(options: Namespace) -> None:
    """Run the demo until it is told to end.

    Args:
        options: as ``options.add`` declares them.

    Raises:
        Failed: with the reason.
    """
    console = Console(highlight=False)
    with suppress(Interrupted), interruptible(), ExitStack() as ends:
        service = ends.enter_context(closing(_service(options, console, ends)))
        roles = cast()
        ends.enter_context(_models(service, roles, console, options.url is not None))
        _introduce(console, service.url, roles, options.speed, options.seconds)
        _feed(service, roles, Teller(console), options)


# ------------------------------------------------------------------------------------------------ the service


def _service(options: Namespace, console: Console, ends: ExitStack) -> Service:
    if options.url is not None:
        return Service(options.url, options.key, tls=trust.context(options.ca, options.client_cert))
    listener = _listener(options.port, console)
    console.print("Starting a service for the demo (a minute, where its kernels are still to be compiled) ...")
    url = ends.enter_context(private.service(listener, options.data_dir))
    return Service(url, private=True, patience_s=PRIVATE_PATIENCE_S)


def _listener(port: int | None, console: Console) -> socket.socket:
    """A socket on the port that was asked for, else on that of ONEPASS_PORT, or 8000, or one of the next ones.

    Raises:
        Failed: the port is taken; a free one is named. Or ONEPASS_PORT is none.
    """
    first = _usual_port(os.environ.get("ONEPASS_PORT") or str(PORT)) if port is None else port
    found = ports.listener(private.HOST, first)
    number = found.getsockname()[1]
    if port is not None and number != port:
        found.close()
        raise Failed(f"port {port} is taken; {number} is free: --port {number}")
    if port is None and first and number != first:
        console.print(f"Port {first} is taken, so the demo is on port {number}.")
    return found


def _usual_port(given: str) -> int:
    """The port of the service's own setting; 0 is any that is free."""
    if not (given.isascii() and given.isdigit() and int(given[:9]) <= 65535):
        raise Failed("ONEPASS_PORT: is not a port from 0 to 65535")
    return int(given)


# ------------------------------------------------------------------------------------------------ the models


@contextmanager
def _models(service: Service, roles: Sequence[Role], console: Console, delete: bool) -> Generator[None]:
    """Make the models; at the end delete those that were made, where the service goes on without them."""
    taken = [role.name for role in roles if service.has(role.name)]
    if taken:
        raise Failed(
            f"{service.url} has {', '.join(taken)} already, of a demo that runs or was killed; this deletes them:\n"
            f"  onepass delete {' '.join(taken)} --yes --url {service.url}"
        )
    made: list[str] = []
    try:
        for role in roles:
            made.append(role.name)  # before it is there: a signal may come in between
            _make(service, role, made)
        yield
    finally:
        if delete:
            _delete(service, made, console)


def _make(service: Service, role: Role, made: list[str]) -> None:
    try:
        service.create(role.name, {**role.body, "tags": {"demo": "onepass"}})
    except Failed:
        made.remove(role.name)
        raise
    for name, body in role.challengers.items():
        service.challenge(role.name, name, body)


def _delete(service: Service, made: list[str], console: Console) -> None:
    """Delete models; where the service is gone, the first one tells, and the others are not tried."""
    service.patience_s = LEAVE_S
    for at, name in enumerate(made):
        try:
            service.delete(name)
        except Failed:
            console.print(f"not deleted: {', '.join(made[at:])}", soft_wrap=True)
            return


# ------------------------------------------------------------------------------------------------ rows in time


def _introduce(console: Console, url: str, roles: Iterable[Role], speed: float, seconds: float | None) -> None:
    shown = Table.grid(padding=(0, 2))
    for role in roles:
        times = [f"[bold]{_time(row / role.rows_per_s / speed)}[/]" for row in role.at_rows]
        look = role.look.replace("{}", "at {}").format(*times)
        shown.add_row(f"[bold]{role.name}", f"{escape(role.shows)}\n[dim]{look}[/]")
    console.print(f"\nOpen [bold]{url}/[/] and watch:\n", soft_wrap=True)
    console.print(shown)
    until = "Ctrl-C ends it." if seconds is None else f"It ends after {seconds:g} s, or by Ctrl-C."
    console.print(f"\n{until} What happens is told here:\n", soft_wrap=True)


def _time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _feed(service: Service, roles: list[Role], teller: Teller, options: Namespace) -> None:
    """Send to each model what is due, evenly over time; the models take turns."""
    step_s = max(FASTEST_S, STEP_S / max(1.0, options.speed)) / len(roles)
    fed = [_Fed(role, service, options.speed) for role in roles]
    end_at = math.inf if options.seconds is None else time.monotonic() + options.seconds
    for turn in itertools.count():
        now = time.monotonic()
        if _over(now, end_at) or not fed:
            return
        one = fed[turn % len(fed)]
        try:
            told = one.step(now, look=turn // len(fed) % LOOK_EVERY == 0)
        except Failed:
            if service.has(one.role.name):
                raise
            fed.remove(one)
            told = ["was deleted by somebody else, and is fed no longer"]
        for text in told:
            teller.tell(one.role.name, text)
        time.sleep(max(0.0, now + step_s - time.monotonic()))


def _over(now: float, end_at: float) -> bool:
    return now >= end_at


class _Fed:
    """A model, what it is due, and what has happened to it."""

    def __init__(self, role: Role, service: Service, speed: float) -> None:
        self.role, self._rows_per_s = role, role.rows_per_s * speed
        self._feeder: Feeder = role.feeder(service, role.name)
        self._watched = Watched(service, role.name, str(role.body.get("algorithm", "auto")))
        self._begun: float | None = None
        self._sent = 0

    def step(self, now: float, look: bool) -> list[str]:
        """Send what is due at a time; what there is to tell."""
        self._begun = now if self._begun is None else self._begun
        rows = max(0, min(int((now - self._begun) * self._rows_per_s) + 1 - self._sent, int(5 * self._rows_per_s) + 1))
        self._sent += rows
        told = self._feeder.feed(rows) if rows else []
        return told + (self._watched.news(bool(self.role.challengers)) if look else [])
