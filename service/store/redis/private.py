"""Ping and shut down the embedded server on its Unix socket. For embedded.py, outside the event loop."""

from pathlib import Path
from typing import Literal

from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

State = Literal["up", "loading", "down"]
ANSWER_S = 1.0
"""What an answer may take."""


def state(socket: Path) -> State:
    """Whether the server behind ``socket`` answers; "down" also where there is none."""
    try:
        with _client(socket) as client:
            client.execute_command("PING")
    except exceptions.BusyLoadingError:
        return "loading"
    except (exceptions.RedisError, OSError):
        return "down"
    return "up"


def shut_down(socket: Path) -> None:
    """Ask the server behind ``socket`` to stop, if there is one.

    NOSAVE concerns the dump, which is not used; the append-only file is written and synced before the server ends.
    """
    try:
        with _client(socket) as client:
            client.execute_command("SHUTDOWN", "NOSAVE")
    except (exceptions.RedisError, OSError):  # it ends without an answer, or cannot yet: the caller looks again
        pass


def _client(socket: Path) -> Redis:
    return Redis(
        unix_socket_path=str(socket),
        socket_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
