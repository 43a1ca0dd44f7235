"""Errors of the store translated: StoreDown if it is down or cannot, StoreFull if it only has no room."""

import logging
import re
import ssl
import time
from collections.abc import Sequence
from functools import lru_cache

from redis import exceptions

from service.errors import StoreDown, StoreFull, Unavailable

logger = logging.getLogger(__name__)

REPEATED_S = 60.0  # least time, about, between two lines with the same unknown error

_FULL = {
    "OOM": "the store is out of memory: writes fail, reads still work; give it more memory or delete models",
    "MISCONF": "the store cannot write to its disk: writes fail, reads still work; make room on that disk",
}
_CANNOT = {
    "READONLY": "the store is a read-only replica",
    "UNBLOCKED": "the store has become a replica",
    "LOADING": "the store is loading its data",
    "NOREPLICAS": "the store has too few replicas to write",
    "BUSY": "the store is busy",
    "DENIED": "the store is in protected mode: it has no password and only accepts connections from its own machine",
    "CLUSTERDOWN": "the store's cluster is down",
    "TRYAGAIN": "the store is moving its data",
    "MASTERDOWN": "the store has lost its primary",
    "MOVED": "the store is part of a cluster",
    "ASK": "the store is moving its data",
    "NOAUTH": "the store requires credentials",
    "WRONGPASS": "the store rejects the credentials",
    "ERR AUTH": "the store rejects the credentials",
    "ERR DB index is out of range": "the store does not have the database that its URL names",
    "ERR max number of clients": "the store has no free connection: raise its maxclients",
    "NOPERM": "the store's user lacks a permission",
    "ERR The user executing the script can't": "the store's user lacks a permission",
    "The user executing the script can't": "the store's user lacks a permission",  # Redis before 7
    "ERR ACL failure in script": "the store's user lacks a permission",
    "NOSCRIPT": "the store does not keep its scripts",
}
# At the start, or after "-" or the line where Redis before 7 wraps an error inside a script.
_WORD = re.compile(rf"(?:^|[\s:]-|\d: )({'|'.join({**_FULL, **_CANNOT})})\b")
_CLASSES: dict[str, type[exceptions.ResponseError]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
}
_WORDS = {kind: word for word, kind in _CLASSES.items()}


def reply_error(text: str) -> exceptions.ResponseError:
    """A server's error, as the client library would raise it if that makes a difference here."""
    word, _, rest = text.partition(" ")
    return _CLASSES[word](rest) if word in _CLASSES else exceptions.ResponseError(text)


def word_of(error: BaseException) -> str | None:
    """The word by which a server says what it cannot do; None for any other error."""
    if not isinstance(error, exceptions.ResponseError):
        return None
    found = _WORD.search(str(error))
    return _WORDS.get(type(error)) or (None if found is None else found[1])


def unavailable(error: BaseException) -> StoreDown | StoreFull | None:
    """What ``error`` means for a caller, or None if the store is neither down nor full nor unable.

    Its text is never the server's own message, which names hosts and paths.
    """
    if (word := word_of(error)) is not None:
        return StoreFull(_FULL[word]) if word in _FULL else StoreDown(_CANNOT[word])
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreDown("the store did not answer in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreDown("the store's certificate is not accepted")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):  # that one: the server went away
        return StoreDown("no TLS connection to the store can be made")
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreDown("the store cannot be reached")
    return None


def translated(error: BaseException, keys: Sequence[str] = ()) -> Unavailable:
    """What ``error`` means for a caller; an unknown one, such as foreign data under our keys, is logged once a minute.

    An unknown one becomes a StoreDown, with the error as its cause, since the stored data may be intact: it never takes
    a model out of service.
    """
    if (meant := error if isinstance(error, Unavailable) else unavailable(error)) is not None:
        return meant
    _tell(f"{error} (keys: {', '.join(keys)})" if keys else str(error), time.monotonic() // REPEATED_S)
    down = StoreDown("the store gave an unexpected answer")
    down.__cause__ = error
    return down


@lru_cache(maxsize=1000)
def _tell(error: str, _minute: float) -> None:
    logger.error("unexpected answer from the store: %s", error)
