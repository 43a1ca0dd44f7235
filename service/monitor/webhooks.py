"""Webhooks: every drift event posted to every configured URL, by one of the replicas, unless it is held back.

    POST URL                          the event as JSON, as GET /drift shows it, without later alarms, and what it is:
                                      "type": "drift.detected", "timestamp": when it happened
    webhook-id: INC-VERSION-INDEX     the event's id: the same however often it is sent
    webhook-timestamp: SECONDS        when this attempt was made
    webhook-signature: v1,BASE64      HMAC-SHA256 of "ID.TIMESTAMP.BODY" under the secret

These are the headers of the Standard Webhooks specification, whose libraries verify them: a secret that begins with
``whsec_`` is base64 behind it, any other one is taken as it is. Only an answer 2xx counts; redirects are not followed
and answers' bodies are not read. URLs are http or https (``webhook_settings``).

Each URL has a task and a consumer group of its own, so a dead one does not delay the others. An event is delivered at
least once (a crash between delivery and acknowledgement repeats it), in order as long as nothing fails. What fails is
tried again after pauses that double, with jitter, until its budget ends; then it is dropped and counted.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.errors import Unavailable
from service.runtime.backoff import Backoff
from service.runtime.broadcast import Broadcast
from service.store.deliveries import IDLE_MS, Deliveries
from service.store.events import StoredEvent, iso, shown

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

CONNECT_S, ATTEMPT_S = 5.0, 15.0
"""How long connecting and a whole attempt may take."""
BUDGET_S = 3600.0
"""How long one event is posted again before it is dropped."""
BACKOFF_S, BACKOFF_S_MAX = 1.0, 300.0
"""Pause after a failure; it doubles up to the second."""
LOOK_S = 5.0
"""How often a webhook looks for pending events of replicas that died."""
TYPE = "drift.detected"
"""What every event is, as the specification names events."""


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature``."""
    signed = b".".join((event_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def enveloped(known: StoredEvent) -> bytes:
    """The body of a post: the event's own fields behind its type and time."""
    return b'{"type":"%b","timestamp":"%b",%b' % (TYPE.encode(), iso(known.time_ms).encode(), shown(known)[1:])


def group_of(url: str) -> str:
    """Name of a webhook's consumer group; it does not tell the URL."""
    return "hook:" + hashlib.sha256(url.encode()).hexdigest()[:16]


class Webhook:
    """One URL.

    Args:
        number: names it in logs and metrics.
        url: where to.
        key: signs; empty: nothing is signed.
        deliveries: what is owed.
        broadcast: signals new events.

    Attributes:
        outcomes: attempts that failed, events delivered, dropped, and held back by their model's cool-down.
    """

    def __init__(
        self,
        number: int,
        url: str,
        key: bytes,
        deliveries: Deliveries,
        broadcast: Broadcast,
    ) -> None:
        self.number, self._url, self._key = number, url, key
        self._deliveries, self._broadcast = deliveries, broadcast
        self._news = asyncio.Event()
        self.outcomes: Counter[str] = Counter(delivered=0, failed=0, dropped=0, held_back=0)

    async def run(self) -> None:
        """Deliver for ever; the supervisor restarts it should it die."""
        import httpx  # noqa: PLC0415  only where there are webhooks

        self._broadcast.waiters.add(self._news)
        limits = httpx.Timeout(ATTEMPT_S, connect=CONNECT_S)
        try:
            async with httpx.AsyncClient(timeout=limits, follow_redirects=False) as client:
                while True:
                    await self._next(client)
        finally:
            self._broadcast.waiters.discard(self._news)

    async def _next(self, client: "httpx.AsyncClient") -> None:
        self._news.clear()
        try:
            claimed = await self._deliveries.claim(1)
            self.outcomes["dropped"] += claimed.missed
            for known in claimed.events:
                await self._deliver(client, known)
        except Unavailable:
            await asyncio.sleep(BACKOFF_S)
            return
        if not claimed.events:
            await self._wait(LOOK_S)

    async def _wait(self, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def _deliver(self, client: "httpx.AsyncClient", known: StoredEvent) -> None:
        """Post an event until it is taken or its budget ends; one that is held back is settled without."""
        if known.held_back:
            self.outcomes["held_back"] += await self._deliveries.acknowledge(known)
            return
        clock = asyncio.get_running_loop().time
        deadline, backoff = clock() + BUDGET_S, Backoff(BACKOFF_S, BACKOFF_S_MAX)
        while (why := await self._post(client, known)) is not None:
            self.outcomes["failed"] += 1
            again = not backoff.first
            rest_s = backoff.next_s()
            if clock() + rest_s > deadline:
                logger.warning("webhook %d: event %s is dropped: %s", self.number, known.id, why)
                self.outcomes["dropped"] += await self._deliveries.acknowledge(known)
                return
            if not again:
                logger.info("webhook %d: event %s is tried again: %s", self.number, known.id, why)
            if not await self._rest(known, rest_s):
                return
        self.outcomes["delivered"] += 1
        await self._deliveries.acknowledge(known)

    async def _rest(self, known: StoredEvent, rest_s: float) -> bool:
        """Pause and keep the claim on the event; False where another replica has claimed it meanwhile."""
        while rest_s > 0:
            step_s = min(rest_s, IDLE_MS / 4000)
            await asyncio.sleep(step_s)
            rest_s -= step_s
            if not await self._deliveries.touch(known):
                return False
        return True

    async def _post(self, client: "httpx.AsyncClient", known: StoredEvent) -> str | None:
        """One attempt; why it failed, or None."""
        import httpx  # noqa: PLC0415  only where there are webhooks

        timestamp, body = int(time.time()), enveloped(known)
        headers = {
            "content-type": "application/json",
            "user-agent": "onepass",
            "webhook-id": known.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._key:
            headers["webhook-signature"] = signature(self._key, known.id, timestamp, body)
        try:
            async with asyncio.timeout(ATTEMPT_S):
                async with client.stream("POST", self._url, content=body, headers=headers) as response:
                    return None if response.is_success else f"status {response.status_code}"
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            return type(error).__name__


def quiet(urls: Sequence[str]) -> None:
    """Keep the client library from logging the URLs of what it posts."""
    if urls:
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
