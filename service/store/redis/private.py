"""Ping and shut down the embedded server on its Unix socket. For embedded.py, outside the event loop."""

from pathlib import Path

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

ANSWER_S = 1.0  # what an answer may take


def answers(socket: Path) -> bool:
    """Whether there is a server behind ``socket`` that answers, and has loaded its data."""
    return _sent(socket, "PING")


def shut_down(socket: Path) -> None:
    """Ask the server behind ``socket`` to stop; it ends without an answer, or cannot yet: the caller looks again.

    NOSAVE concerns the dump, which is not used; the append-only file is written and synced before the server ends.
    """
    _sent(socket, "SHUTDOWN", "NOSAVE")


def _sent(socket: Path, *command: str) -> bool:
    try:
        with Redis(unix_socket_path=str(socket), socket_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)) as client:
            client.execute_command(*command)
    except (RedisError, OSError):
        return False
    return True
