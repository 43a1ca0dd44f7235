"""Errors of the store translated: StoreDown where it is down or cannot, unchanged where they are a bug of ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from service.errors import StoreDown

_CANNOT = {
    "OOM": "the store is out of memory",
    "READONLY": "the store is a read-only replica",
    "LOADING": "the store is loading its data",
    "MISCONF": "the store cannot write to disk",
    "NOREPLICAS": "the store has too few replicas to write",
    "BUSY": "the store is busy",
    "CLUSTERDOWN": "the store's cluster is down",
    "TRYAGAIN": "the store is moving its data",
    "MASTERDOWN": "the store has lost its primary",
    "MOVED": "the store is part of a cluster",
    "ASK": "the store is moving its data",
    "NOAUTH": "the store asks for credentials",
    "WRONGPASS": "the store refuses the credentials",
    "NOPERM": "the store's user lacks a permission",
    "NOSCRIPT": "the store does not keep its scripts",
}
# The client library turns some words into classes and cuts them from the message; the others it leaves in place.
_CLASSES: tuple[tuple[type[exceptions.RedisError], str], ...] = (
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.MasterDownError, "MASTERDOWN"),  # before its base
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
    (exceptions.AuthenticationError, "WRONGPASS"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.NoScriptError, "NOSCRIPT"),
)
# At the start, or behind "-" where Redis before 7 wraps what a script ran into.
_WORD = re.compile(rf"(?:^|[\s:]-)({'|'.join(_CANNOT)})\b")


def store_down(error: BaseException) -> StoreDown | None:
    """The StoreDown that ``error`` means, or None where the store is neither down nor unable.

    Its text is never the library's own message, which names hosts and paths.
    """
    for kind, word in _CLASSES:
        # What goes wrong while connecting comes wrapped in a ConnectionError.
        if isinstance(error, kind) or isinstance(error.__cause__, kind):
            return StoreDown(_CANNOT[word])
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreDown("the store did not answer in time")
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreDown("the store cannot be reached")
    if isinstance(error, exceptions.ResponseError) and (found := _WORD.search(str(error))):
        return StoreDown(_CANNOT[found[1]])
    return None


@contextmanager
def translated() -> Iterator[None]:
    """Raise StoreDown for every error that means it; let all others through."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        if (down := store_down(error)) is not None:
            raise down from error
        raise
