"""Errors of the store translated: StoreDown where it is down or cannot, StoreFull where it only has no room to write,
unchanged where they are a bug of ours.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from service.errors import StoreDown, StoreFull

_FULL = {
    "OOM": "the store has no memory left: it takes no writes, reading goes on; raise its maxmemory or delete models",
    "MISCONF": "the store cannot write to its disk: it takes no writes, reading goes on; make room on that disk",
}
_CANNOT = {
    "READONLY": "the store is a read-only replica",
    "LOADING": "the store is loading its data",
    "NOREPLICAS": "the store has too few replicas to write",
    "BUSY": "the store is busy",
    "DENIED": "the store is in protected mode: it has no password and takes connections from its own machine only",
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
_WORD = re.compile(rf"(?:^|[\s:]-)({'|'.join({**_FULL, **_CANNOT})})\b")


def unavailable(error: BaseException) -> StoreDown | StoreFull | None:
    """What ``error`` means for whoever asked, or None where the store is neither down nor full nor unable.

    Its text is never the library's own message, which names hosts and paths.
    """
    for kind, word in _CLASSES:
        # What goes wrong while connecting comes wrapped in a ConnectionError.
        if isinstance(error, kind) or isinstance(error.__cause__, kind):
            return _meaning(word)
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreDown("the store did not answer in time")
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreDown("the store cannot be reached")
    if isinstance(error, exceptions.ResponseError) and (found := _WORD.search(str(error))):
        return _meaning(found[1])
    return None


def _meaning(word: str) -> StoreDown | StoreFull:
    return StoreFull(_FULL[word]) if word in _FULL else StoreDown(_CANNOT[word])


@contextmanager
def translated() -> Iterator[None]:
    """Raise StoreDown or StoreFull for every error that means it; let all others through."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        if (meant := unavailable(error)) is not None:
            raise meant from error
        raise
