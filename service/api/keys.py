"""API keys: who may do what. No keys configured: everybody may do everything.

    NAME:SECRET:SCOPES[:MODELS],...     scopes: read | learn | admin, joined by +; models: name patterns joined by +

``admin`` includes ``learn``, ``learn`` includes ``read``. A key is sent as ``Authorization: Bearer SECRET`` or
``X-API-Key: SECRET``. Only digests of the secrets are kept, and they are what is looked up.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, cast

from service.errors import Forbidden, TooManyRequests, Unauthorized

ROWS_MAX = 2**31
"""More rows at once than any stream sends."""
Scope = Literal["read", "learn", "admin"]
SCOPES = {"read": 0, "learn": 1, "admin": 2}


@dataclass(slots=True)
class Key:
    """One key.

    Attributes:
        name: for logs and errors.
        level: the highest scope's level.
        models: name patterns; empty: every model.
        tokens, refilled_at: the bucket of the rate limit.
    """

    name: str
    level: int
    models: tuple[str, ...]
    tokens: float = field(default=0.0)
    refilled_at: float = field(default=0.0)

    @property
    def scope(self) -> Scope:
        """The highest of its scopes."""
        return cast("Scope", next(name for name, level in SCOPES.items() if level == self.level))

    def allows(self, model: str) -> bool:
        """Whether the key may touch a model."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)


class Keys:
    """The configured keys.

    Args:
        text: as in ``ONEPASS_API_KEYS``.
        rate_per_s: requests a key may make per second, in bursts of one second; 0: no limit.
        clock: seconds, monotonic.

    Raises:
        ValueError: a key that is not NAME:SECRET:SCOPES[:MODELS], or one secret for two; it is not echoed.
    """

    def __init__(self, text: str, rate_per_s: float, clock: Callable[[], float]) -> None:
        self._keys: dict[bytes, Key] = {}
        self._rate_per_s, self._clock = rate_per_s, clock
        for at, part in enumerate(item.strip() for item in text.split(",")):
            if part:
                secret, key = _parse(part, at)
                if _digest(secret) in self._keys:
                    raise ValueError(f"ONEPASS_API_KEYS: key {at + 1} has the secret of a key before it")
                key.tokens, key.refilled_at = max(1.0, rate_per_s), clock()
                self._keys[_digest(secret)] = key

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        return bool(self._keys)

    def check(self, headers: Mapping[str, str], scope: str, model: str | None) -> Key | None:
        """Let a request in, and count it; once per request. Its key; None where no keys are configured.

        Raises:
            Unauthorized, Forbidden, TooManyRequests: the request may not go on.
        """
        key = self.caller(headers)
        if key is not None:
            self._spend(key)
            _require(key, scope, model)
        return key

    def burst(self, key: Key | None) -> int:
        """How many rows of a stream a key may send at once."""
        return ROWS_MAX if key is None or self._rate_per_s <= 0 else max(1, int(self._rate_per_s))

    def spend_rows(self, key: Key | None, rows: int) -> float:
        """Count rows of a stream, as so many requests; seconds that they have to wait for."""
        if key is None or self._rate_per_s <= 0:
            return 0.0
        self._refill(key)
        key.tokens -= rows
        return max(0.0, -key.tokens / self._rate_per_s)

    def caller(self, headers: Mapping[str, str]) -> Key | None:
        """The key of a request, or None where no keys are configured.

        Raises:
            Unauthorized: keys are configured, and this is none of them.
        """
        if not self._keys:
            return None
        key = self._keys.get(_digest(_secret(headers)))
        if key is None:
            raise Unauthorized("send a known key as 'Authorization: Bearer SECRET' or 'X-API-Key: SECRET'")
        return key

    def allow(self, headers: Mapping[str, str], scope: str, model: str | None) -> None:
        """Whether the key of a request that is in allows this, too.

        Raises:
            Unauthorized, Forbidden: it does not.
        """
        key = self.caller(headers)
        if key is not None:
            _require(key, scope, model)

    def _spend(self, key: Key) -> None:
        if self._rate_per_s <= 0:
            return
        self._refill(key)
        if key.tokens < 1:
            raise TooManyRequests(f"key {key.name} is over its rate", (1 - key.tokens) / self._rate_per_s)
        key.tokens -= 1

    def _refill(self, key: Key) -> None:
        now = self._clock()
        burst = max(1.0, self._rate_per_s)
        key.tokens = min(burst, key.tokens + (now - key.refilled_at) * self._rate_per_s)
        key.refilled_at = now


def _require(key: Key, scope: str, model: str | None) -> None:
    if key.level < SCOPES[scope]:
        raise Forbidden(f"key {key.name} lacks the scope {scope}")
    if model is not None and not key.allows(model):
        raise Forbidden(f"key {key.name} may not touch this model")


def _parse(part: str, at: int) -> tuple[str, Key]:
    fields = part.split(":")
    if len(fields) not in (3, 4) or not all(fields[:3]):
        raise ValueError(f"ONEPASS_API_KEYS: key {at + 1} is not NAME:SECRET:SCOPES[:MODELS]")
    name, secret, scopes = fields[:3]
    words = [word for word in re.split(r"[+|;/ ]", scopes) if word]
    unknown = [word for word in words if word not in SCOPES]
    if unknown or not words:
        raise ValueError(f"ONEPASS_API_KEYS: key {name}: scopes are {', '.join(SCOPES)}, joined by +")
    models = tuple(word for word in re.split(r"[+|;/ ]", fields[3]) if word) if len(fields) == 4 else ()
    return secret, Key(name, max(SCOPES[word] for word in words), models)


def _secret(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
