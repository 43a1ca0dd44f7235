"""API keys and their permissions. Without configured keys everything is allowed.

    NAME:SECRET:SCOPES[:MODELS[:EXPIRES]],...       or one per line; a line that begins with # is a comment

    SECRET    the secret, or sha256$ and the 64 hexadecimal digits of its SHA-256 (``onepass keys new`` makes both)
    SCOPES    read | learn | admin, joined by +; admin includes learn, learn includes read
    MODELS    name patterns joined by +; empty: every model
    EXPIRES   the last day, in UTC: 2027-01-31

Clients send a key as ``Authorization: Bearer SECRET`` or ``X-API-Key: SECRET``. The service only keeps digests of the
secrets and looks keys up by digest. One name may have several secrets, so that a new one can be handed out while the
old one is valid. A file of keys, or a mounted secret, is read again while the service runs: changes need no restart.
"""

import asyncio
import hashlib
import logging
import math
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from time import time
from typing import Literal, cast

from service.errors import Forbidden, TooManyRequests, Unauthorized
from service.runtime.broadcast import OWNER

logger = logging.getLogger("onepass.audit")
Scope = Literal["read", "learn", "admin"]
SCOPES = {"read": 0, "learn": 1, "admin": 2}


HASHED = "sha256$"  # prefix of a secret that is given as its digest
SETTING = "ONEPASS_API_KEYS"
FILE_SETTING = f"{SETTING}_FILE"
HOW_SENT = "send one as 'Authorization: Bearer SECRET' or 'X-API-Key: SECRET'"


@dataclass(slots=True)
class Bucket:
    """The bucket of a rate limit: the remaining requests, and when it was last refilled."""

    tokens: float
    refilled_at: float


@dataclass(slots=True)
class Key:
    """One secret of a key."""

    name: str  # for logs and errors
    scope: Scope  # the highest of its scopes
    models: tuple[str, ...]  # name patterns; empty: every model
    expires: float | None = None  # seconds since 1970, or None
    bucket: Bucket = field(default_factory=lambda: Bucket(0.0, 0.0))  # shared by all secrets of this name

    def allows(self, model: str) -> bool:
        """Whether the key covers a model."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)


def covered_by(key: Key | None) -> Callable[[str], bool] | None:
    """A function that tells whether a key covers a model; None: it covers all, or no keys are configured."""
    return key.allows if key is not None and key.models else None


class Keys:
    """The keys in a text such as ``ONEPASS_API_KEYS``; errors in a text ``from_file`` name the line.

    A key may make ``rate_per_s`` requests per second, in bursts of one second; 0: no limit. ``clock`` is monotonic,
    ``now`` returns seconds since 1970. ``ValueError``, which never repeats a secret, if a key is not
    NAME:SECRET:SCOPES[:MODELS[:EXPIRES]], if two share a secret, or if a file has no keys.
    """

    def __init__(
        self,
        text: str,
        rate_per_s: float,
        clock: Callable[[], float],
        now: Callable[[], float] = time,
        *,
        from_file: bool = False,
    ) -> None:
        self._from_file = from_file
        self._rate_per_s, self._clock, self._now = rate_per_s, clock, now
        self._buckets: dict[str, Bucket] = {}
        self._keys = self._parsed(text)
        if from_file and not self._keys:  # an empty file must not open the service to everybody
            raise ValueError(self._none_left)

    def _parsed(self, text: str) -> dict[bytes, Key]:
        """The keys of a text, by the digests of their secrets."""
        found: dict[bytes, Key] = {}
        for where, part in _members(text, self._from_file):
            try:
                digest, key = _parse(part)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            if digest in found:
                raise ValueError(f"{where}: repeats the secret of an earlier key")
            full = Bucket(max(1.0, self._rate_per_s), self._clock())
            key.bucket = self._buckets.setdefault(key.name, full)
            found[digest] = key
        return found

    def replace(self, text: str) -> int:
        """Replace the keys and return their number. Rate limits continue.

        ``ValueError`` as for ``Keys``, or if there are none, which would allow everything; the old keys then stay.
        """
        found = self._parsed(text)
        if not found:
            raise ValueError(self._none_left)
        self._keys = found
        return len(found)

    @property
    def _none_left(self) -> str:
        return f"{FILE_SETTING if self._from_file else SETTING}: there are no keys left"

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        return bool(self._keys)

    @property
    def expired(self) -> int:
        """Number of expired secrets."""
        now = self._now()
        return sum(key.expires is not None and now >= key.expires for key in self._keys.values())

    def warn_expired(self) -> None:
        """Log a warning if all keys have expired."""
        if self._keys and self.expired == len(self._keys):
            logger.warning("all %d keys have expired: every request is refused until a new key is added", self.expired)

    @property
    def expiries(self) -> dict[str, float]:
        """When the last key of each name with an expiry expires, in seconds since 1970."""
        last: dict[str, float] = {}
        for key in self._keys.values():
            last[key.name] = max(last.get(key.name, 0.0), math.inf if key.expires is None else key.expires)
        return {name: at for name, at in last.items() if at < math.inf}

    def check(self, sent: Mapping[bytes, bytes], scope: str, model: str | None) -> Key | None:
        """Admit and count a request, once per request; returns its key, None if no keys are configured.

        ``sent`` are its header lines; ``scope`` is the scope it needs, ``model`` its model, if any.

        Raises:
            Unauthorized, Forbidden, TooManyRequests: the request is refused.
        """
        OWNER.set(None)  # otherwise a pipelined request would inherit the owner of the previous one
        key = self.caller(sent)
        if key is not None:
            OWNER.set(key.name)
            if self._rate_per_s > 0:
                self._spend(key)
            if key.models or SCOPES[key.scope] < SCOPES[scope]:
                _require(key, scope, model)
        return key

    def caller(self, sent: Mapping[bytes, bytes]) -> Key | None:
        """The key of a request; None if no keys are configured. ``Unauthorized``: it is missing, unknown or expired."""
        if not self._keys:
            return None
        kind, _, token = sent.get(b"authorization", b"").partition(b" ")
        secret = token.strip() if kind.lower() == b"bearer" else sent.get(b"x-api-key", b"")
        key = self._keys.get(hashlib.sha256(secret).digest())
        if key is None:
            raise Unauthorized(f"{'this key is not known' if secret else 'no key was sent'}: {HOW_SENT}")
        if key.expires is not None and self._now() >= key.expires:
            raise Unauthorized("this key has expired: ask for a new one")
        return key

    def allow(self, sent: Mapping[bytes, bytes], scope: str, model: str | None) -> None:
        """Check that the key of an admitted request also allows this; ``Unauthorized`` or ``Forbidden`` if not."""
        key = self.caller(sent)
        if key is not None:
            _require(key, scope, model)

    def _spend(self, key: Key) -> None:
        bucket, now = key.bucket, self._clock()
        burst = max(1.0, self._rate_per_s)
        bucket.tokens = min(burst, bucket.tokens + (now - bucket.refilled_at) * self._rate_per_s)
        bucket.refilled_at = now
        if bucket.tokens < 1:
            raise TooManyRequests(f"key {key.name} is over its rate limit", (1 - bucket.tokens) / self._rate_per_s)
        bucket.tokens -= 1


def _require(key: Key, scope: str, model: str | None) -> None:
    if SCOPES[key.scope] < SCOPES[scope]:
        raise Forbidden(f"key {key.name} lacks the scope {scope}")
    if model is not None and not key.allows(model):
        raise Forbidden(f"key {key.name} may not use this model")


def _members(text: str, from_file: bool) -> Iterator[tuple[str, str]]:
    """The place of each key in a text, for errors, then the key. The place quotes nothing: it may be a secret."""
    at = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for item in line.split(","):
            at += 1
            if part := item.strip():
                yield f"{FILE_SETTING}: line {number}" if from_file else f"{SETTING}: key {at}", part


def _parse(part: str) -> tuple[bytes, Key]:
    """The digest of a secret, and its key; ``ValueError`` describes what is wrong without repeating the text."""
    fields = part.split(":")
    if not 3 <= len(fields) <= 5 or not all(fields[:3]):
        raise ValueError("is not NAME:SECRET:SCOPES[:MODELS[:EXPIRES]]")
    name, secret, scopes, models, expires = [*fields, "", ""][:5]
    words = {*_words(scopes)}
    if not words or not words <= SCOPES.keys():
        raise ValueError(f"scopes are {', '.join(SCOPES)}, joined by +")
    highest, patterns = cast("Scope", max(words, key=SCOPES.__getitem__)), tuple(_words(models))
    if models and not patterns:  # which would cover all
        raise ValueError("MODELS are names or patterns of names, joined by +")
    return _digest_of(secret), Key(name, highest, patterns, _end_of(expires))


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[+|;/ ]", text) if word]


def _digest_of(secret: str) -> bytes:
    if not secret.startswith(HASHED.rstrip("$")):
        return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
    digits = secret.removeprefix(HASHED)
    if re.fullmatch(r"[0-9a-fA-F]{64}", digits) is None:  # what a shell leaves of it could be guessed
        raise ValueError(
            f"{HASHED} must be followed by the 64 hexadecimal digits of a SHA-256; a shell replaces $ and what follows "
            "it: use single quotes"
        )
    return bytes.fromhex(digits)


def _end_of(text: str) -> float | None:
    """When a key expires: at the end of its last day."""
    if not text:
        return None
    try:
        last = date.fromisoformat(text)
    except ValueError:
        raise ValueError("EXPIRES is a date such as 2027-01-31") from None
    return datetime.combine(last, datetime.min.time(), UTC).timestamp() + DAY_S


DAY_S = 86_400.0
LOOK_S = 2.0  # how often the file is read; its content is compared, because a mounted file is a link that changes
BYTES_MAX = 2**20


def text_of(path: Path) -> str:
    """The content of a file with keys or another secret, without the byte order mark that some editors write.

    ``OSError`` or ``ValueError`` if it cannot be read, is not UTF-8, or is too large.
    """
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"larger than {BYTES_MAX} bytes")
    return content.decode("utf-8-sig")


class KeyFile:
    """Reads the file of some keys every ``look_s`` seconds, and updates the keys when it has changed."""

    def __init__(self, path: Path, keys: Keys, look_s: float = LOOK_S) -> None:
        self._path, self._keys, self._look_s = path, keys, look_s
        self._known: str | None = None
        self._failed = ""

    async def run(self) -> None:
        """Follow the file until cancelled; an unreadable or invalid file changes nothing and is logged once."""
        while True:
            try:
                self._take(await asyncio.to_thread(text_of, self._path))
                self._failed = ""
            except (OSError, ValueError) as error:
                self._say(f"{getattr(error, 'strerror', None) or error}")
            await asyncio.sleep(self._look_s)

    def _take(self, text: str) -> None:
        if text != self._known:
            count = self._keys.replace(text)
            if self._path.stat().st_mode & stat.S_IROTH:
                logger.warning("every user of this machine can read the keys: chmod o-r %s", self._path)
            if self._known is not None:
                expired = self._keys.expired
                logger.info("keys reloaded: %d secrets are valid, %d have expired", count - expired, expired)
                self._keys.warn_expired()
            self._known = text

    def _say(self, why: str) -> None:
        if why != self._failed:
            logger.error("cannot use the keys in %s, the previous ones stay valid: %s", self._path, why)
        self._failed = why
