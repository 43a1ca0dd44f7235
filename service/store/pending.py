"""Tracked predictions: rows and served predictions, kept until their label arrives or they expire."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from service.errors import Unavailable
from service.store.due_labels import DueLabels
from service.store.keys import LABEL, ROW, ModelKeys, raw, text
from service.store.log.appends import RememberedIds, SeenId, decode_seen, remembered_ids
from service.store.lua import script
from service.store.redis.connection import Call, Connection
from service.store.redis.node import Command

BYTES_AT_ONCE = 2**20  # a script stops once it has looked at more bytes of predictions than this; so does a page

_TRACK = script("basics", "look", "sweep", "track")

_FETCH = script("basics", "look", "fetch_pending")

_PAGE = script("basics", "page_pending")

_ROWLESS = script("rowless_pending")

_COUNTS = script("basics", "count_pending")


@dataclass(frozen=True, slots=True)
class Track:
    """A prediction to keep for ``ttl_ms``, unless ``cap`` are waiting already, or ``id_cap`` ids remembered."""

    name: str
    incarnation: str
    prediction_id: str
    blob: bytes
    ttl_ms: int
    cap: int
    id_cap: int
    given: bool = False  # the id is the client's own: a label may have used it already
    due_ms: int | None = None  # time until it is learned with the configured label; None: never


TrackOutcome = Literal["gone", "full", "known"] | RememberedIds | Unavailable | None
"""None: it is kept. Otherwise the model is gone, or has no room for predictions or ids; the prediction id is pending or
seen; the store failed."""


class Pending:
    """The tracked predictions of all models of one store.

    Every method but ``track_many`` raises StoreDown if the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._due = connection, DueLabels(connection)

    async def track_many(self, items: Sequence[Track]) -> list[TrackOutcome]:
        """Keep predictions in one round trip, after another one if labels become due; None for each that is kept."""
        if due := {(item.name, item.incarnation): item.due_ms for item in items if item.due_ms is not None}:
            try:
                await self._due.mark(due)
            except Unavailable as error:
                return [error] * len(items)
        calls = [_track_call(item) for item in items]
        return [_tracked(result) for result in await self._connection.run(calls)] if calls else []

    async def drop(self, name: str, incarnation: str, prediction_ids: Sequence[str]) -> int:
        """Drop predictions, and return how many of them existed."""
        if not prediction_ids:
            return 0
        keys, ids = ModelKeys(name, incarnation), [raw(one) for one in prediction_ids]
        places = ("ZREM", keys.pending_due), ("ZREM", keys.labels_due), ("HDEL", keys.pending)
        commands: list[Command] = [(verb, key, *ids) for verb, key in places]
        return int((await self._connection.ask(*commands))[-1])

    async def fetch(
        self, name: str, incarnation: str, prediction_id: str, seen_id: str
    ) -> tuple[bytes | None, int | None, SeenId | None]:
        """A prediction, when it expires (ms), and the record of the id its label is learned under."""
        keys = ModelKeys(name, incarnation)
        own = (keys.pending, keys.pending_due, keys.idempotency, keys.idempotency_expiry)
        blob, due, seen = await self._connection.one(Call(_FETCH, own, (raw(prediction_id), raw(seen_id))))
        return blob, due, None if seen is None else decode_seen(seen)

    async def list(
        self, name: str, incarnation: str, limit: int, after: str | None = None
    ) -> tuple[list[tuple[str, int, bytes]], str | None]:
        """Up to ``limit`` as (id, expires ms, blob with an empty row), first to expire first, and the next cursor.

        The cursor is None at the end of the list. A page ends early if its blobs are large, even without the rows, and
        lacks predictions that leave while it is read. ``ValueError`` if ``after`` is not one.
        """
        last = _cursor(after)
        keys = ModelKeys(name, incarnation)
        page = await self._connection.one(Call(_PAGE, (keys.pending, keys.pending_due), (last[0], limit + 1)))
        waiting = [(i, due) for i, due in page if (due, i) > last]
        blobs: list[bytes | None] = []
        most = min(limit, len(waiting))
        while len(blobs) < most and sum(len(blob or b"") for blob in blobs) <= BYTES_AT_ONCE:
            ids = [i for i, _ in waiting[len(blobs) : most]]
            blobs += await self._connection.one(Call(_ROWLESS, (keys.pending,), (BYTES_AT_ONCE, *ids)))
        shown = waiting[: len(blobs)]
        found = [(text(i), due, blob) for (i, due), blob in zip(shown, blobs, strict=True) if blob is not None]
        return found, f"{shown[-1][1]}:{text(shown[-1][0])}" if len(shown) < len(waiting) else None

    async def counts(self, name: str, incarnation: str) -> tuple[int, int]:
        """How many wait for their labels and how many have expired, swept or not; 0 if the incarnation is gone."""
        keys = ModelKeys(name, incarnation)
        waiting, expired = await self._connection.one(_counts_call(keys, incarnation))
        return int(waiting), int(expired)

    async def counts_of(self, models: Sequence[tuple[str, str]]) -> Sequence[tuple[int, int] | None]:
        """The same for several models by name and incarnation, in one round trip; None if the store cannot say."""
        calls = [_counts_call(ModelKeys(*model), model[1]) for model in models]
        results = await self._connection.run(calls) if calls else []
        return [None if isinstance(found, Exception) else (int(found[0]), int(found[1])) for found in results]


def _counts_call(keys: ModelKeys, incarnation: str) -> Call:
    return Call(_COUNTS, (keys.meta, keys.pending_due), (incarnation,))


def _track_call(item: Track) -> Call:
    keys = ModelKeys(item.name, item.incarnation)
    limits = item.ttl_ms, item.cap, item.id_cap
    due = "" if item.due_ms is None else item.due_ms
    known = [raw(kind + item.prediction_id) for kind in (LABEL, ROW)] if item.given else []
    args = (item.incarnation, raw(item.prediction_id), item.blob, *limits, due, *known)
    seen = keys.idempotency_expiry, keys.idempotency
    return Call(_TRACK, (keys.meta, keys.pending, keys.pending_due, *seen, keys.labels_due), args)


def _tracked(result: Any) -> TrackOutcome:
    if isinstance(result, Unavailable):
        return result
    if isinstance(result, list):
        return remembered_ids(*result)
    return None if result is None else _OUTCOMES[result]


_OUTCOMES: dict[bytes, Literal["gone", "full", "known"]] = {b"gone": "gone", b"full": "full", b"known": "known"}


def _cursor(after: str | None) -> tuple[int, bytes]:
    """The expiry and id after which a page begins, in the server's order."""
    if after is None:
        return 0, b""
    due, colon, prediction_id = after.partition(":")
    if not (colon and due.isascii() and due.isdigit()):
        raise ValueError("not a cursor of this list")
    return int(due), raw(prediction_id)
