"""Webhooks: one of the replicas posts every drift event to every configured URL, unless the event is held back.

    POST URL                          the event as JSON, as GET /drift shows it, without later alarms, and what it is:
                                      "type": "drift.detected", "timestamp": when it happened
    webhook-id: INC-VERSION-INDEX     the event's id: the same however often it is sent
    webhook-timestamp: SECONDS        when this attempt was made
    webhook-signature: v1,BASE64      HMAC-SHA256 of "ID.TIMESTAMP.BODY" under the secret

These are the headers of the Standard Webhooks specification, whose libraries verify them: a secret that begins with
``whsec_`` continues in base64, any other is used as it is. Only a 2xx answer counts; redirects are not followed, and
the bodies of answers are not read. URLs are http or https.

Each URL has its own task and position in the stream, so a dead one does not delay the others. Events are delivered in
order, at least once (a crash between a delivery and its record repeats it). A failed post is tried again after pauses
that double, with jitter, until the event's budget ends; then the event is dropped and counted.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from service.errors import Unavailable
from service.runtime.backoff import Backoff
from service.runtime.broadcast import EventSubscription
from service.store.drift.deliveries import TURN_MS, Deliveries
from service.store.drift.events import StoredEvent, iso

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

CONNECT_S, ATTEMPT_S = 5.0, 15.0  # how long connecting and a whole attempt may take
BUDGET_S = 3600.0  # how long one event is posted again before it is dropped
BACKOFF_S, BACKOFF_S_MAX = 1.0, 300.0  # first pause after a failure, which doubles; the longest
LAST_S = 1.0  # how long, on stop, the current attempt and giving the turn back may each take
LOOK_S = 5.0  # how often a webhook checks whether it can take over the turn of a replica that died
TYPE = "drift.detected"  # the type of every event, in the form of the specification


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature``."""
    signed = b".".join((event_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def enveloped(event: StoredEvent) -> bytes:
    """The body of a post: type and time, then the event's own fields."""
    return b'{"type":"%b","timestamp":"%b",%b' % (TYPE.encode(), iso(event.time_ms).encode(), event.shown()[1:])


def name_of(url: str) -> str:
    """A webhook's name in the store; it does not reveal the URL."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


class Webhook:
    """One URL, and its number in logs and metrics; without a ``key`` nothing is signed.

    ``outcomes`` counts failed attempts, events delivered, dropped, and held back by their model's cool-down, and the
    entries missed: they left the stream before their turn, also later alarms and events held back.
    """

    def __init__(self, number: int, url: str, key: bytes, deliveries: Deliveries, news: EventSubscription) -> None:
        self.number, self._url, self._key, self._deliveries, self._news = number, url, key, deliveries, news
        self._settled: StoredEvent | None = None
        self.outcomes: Counter[str] = Counter(delivered=0, failed=0, dropped=0, missed=0, held_back=0)

    async def run(self) -> None:
        """Deliver forever; the supervisor restarts it if it dies."""
        import httpx  # noqa: PLC0415  only where there are webhooks

        limits = httpx.Timeout(ATTEMPT_S, connect=CONNECT_S)
        secure = self._url.lower().startswith("https:")  # else the authorities, which take 40 ms to read, are useless
        async with httpx.AsyncClient(timeout=limits, follow_redirects=False, verify=secure) as client:
            try:
                while True:
                    await self._next(client)
            except asyncio.CancelledError:
                with suppress(Exception):  # the turn ends by itself
                    async with asyncio.timeout(LAST_S):
                        self._record_missed(await self._deliveries.leave(self._settled))
                raise

    async def _next(self, client: "httpx.AsyncClient") -> None:
        try:
            missed, event = await self._deliveries.next(self._settled)
            self._record_missed(missed)
            self._settled = None
            if event is not None and await self._is_settled(client, event):
                self._settled = event
        except Unavailable:
            await asyncio.sleep(BACKOFF_S)
            return
        if event is None:
            await self._news.wait(LOOK_S)

    async def _is_settled(self, client: "httpx.AsyncClient", event: StoredEvent) -> bool:
        """Post an event until it is accepted or its budget ends; False as for ``_rest``."""
        if event.joined or event.held_back:
            self.outcomes["held_back"] += event.held_back
            return True
        clock = asyncio.get_running_loop().time
        deadline, backoff = clock() + BUDGET_S, Backoff(BACKOFF_S, BACKOFF_S_MAX)
        while (why := await self._post_whole(client, event)) is not None:
            self.outcomes["failed"] += 1
            again = not backoff.first
            rest_s = backoff.next_s()
            if clock() + rest_s > deadline:
                logger.warning("webhook %d: dropped event %s: %s", self.number, event.id, why)
                self.outcomes["dropped"] += 1
                return True
            if not again:
                logger.info("webhook %d: will retry event %s: %s", self.number, event.id, why)
            if not await self._rest(event, rest_s):
                return False
        self.outcomes["delivered"] += 1
        return True

    async def _rest(self, event: StoredEvent, rest_s: float) -> bool:
        """Pause and keep the turn; False if another replica has it by now, or another event is due."""
        while rest_s > 0:
            step_s = min(rest_s, TURN_MS / 4000)
            await asyncio.sleep(step_s)
            rest_s -= step_s
            try:
                missed, due = await self._deliveries.next()
            except Unavailable:  # the budget runs on, and nothing is posted until it is known whose turn it is
                rest_s = max(rest_s, BACKOFF_S)
                continue
            if due != event:  # it may also have left the stream
                self._record_missed(missed)
                return False
        return True

    def _record_missed(self, count: int) -> None:
        if count:
            text = "webhook %d: %d entries left the stream of drift events before their turn: too many events or alarms"
            logger.warning(text, self.number, count)
            self.outcomes["missed"] += count

    async def _post_whole(self, client: "httpx.AsyncClient", event: StoredEvent) -> str | None:
        """Post as ``_post`` does; on stop, let the attempt end within LAST_S: the receiver may have the event."""
        attempt = asyncio.create_task(self._post(client, event))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            with suppress(Exception):
                async with asyncio.timeout(LAST_S):
                    self._settled = event if await attempt is None else None
            raise

    async def _post(self, client: "httpx.AsyncClient", event: StoredEvent) -> str | None:
        """Make one attempt; returns why it failed, or None."""
        import httpx  # noqa: PLC0415  only where there are webhooks

        timestamp, body = int(time.time()), enveloped(event)
        headers = {
            "content-type": "application/json",
            "user-agent": "onepass",
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._key:
            headers["webhook-signature"] = signature(self._key, event.id, timestamp, body)
        client.cookies.clear()  # cookies that a receiver sets are neither kept nor sent
        try:
            async with asyncio.timeout(ATTEMPT_S):
                async with client.stream("POST", self._url, content=body, headers=headers) as response:
                    return None if response.is_success else f"status {response.status_code}"
        # The last two come from the address of a redirect, which httpx parses although it does not follow it.
        except (httpx.HTTPError, OSError, httpx.InvalidURL, ValueError) as error:
            return type(error).__name__
