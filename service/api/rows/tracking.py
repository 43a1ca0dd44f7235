"""Keeps predictions, with their rows, until their labels arrive."""

import asyncio
import math
import secrets
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from core.contract import Floats, Label
from core.entry import ServedPrediction
from core.features import Space
from core.model import Model
from core.problems import Invalid, Problem
from service.api.http.context import Context
from service.api.rows.idempotency import validator_of
from service.errors import IdsFull, PendingFull, RequestConflict, Unavailable, no_model
from service.runtime.replicas.replica import Replica
from service.runtime.rows.table import Table
from service.runtime.threads import in_thread_if_large
from service.store.due_labels import GRACE_MS
from service.store.log import codec
from service.store.log.appends import RememberedIds
from service.store.pending import Track, TrackOutcome

QUERY = "track"  # the query parameter of a batch, for bodies that cannot hold it
ROWS_MAX, VALUES_MAX = 10_000, 500_000
"""Most rows of a tracked batch, and most values: the columns and probabilities of a row, for every learner."""
AT_ONCE = 256  # rows that are encoded, and sent to the store, together
DROP_S = 0.5
"""How long dropping rows of unknown fate may delay the refusal of a request that has waited for the store already."""
ROW_BYTES = 512  # assumed cost of encoding a row, in bytes of a body


def is_tracked(given: bool | None, text: str | None) -> bool:
    """Whether the rows of a batch are kept, by the body (``given``) or the query (``text``).

    ``Invalid`` if the query is neither true nor false, or if both are given.
    """
    if text is None:
        return bool(given)
    if given is not None:
        raise Invalid.of(QUERY, "is given both in the body and in the query")
    if text not in ("true", "false"):
        raise Invalid.of(QUERY, "is not true or false", ["true", "false"])
    return text == "true"


def rows_most(ctx: Context, model: Model) -> int:
    """The most rows that a tracked batch may have."""
    values = sum(len(parts.row_columns) + len(model.labels) + 1 for parts in model.learners)
    return max(1, min(ROWS_MAX, VALUES_MAX // values, ctx.engine.bounds.pending_max))


def outside_of(ctx: Context, replica: Replica, table: Table, track: bool) -> Sequence[Label | float | None] | None:
    """What a model outside predicted for tracked rows; None if nothing was sent.

    ``Invalid`` names a value that cannot be a label, or the field if the rows are not tracked.
    """
    if table.served is None:
        return None
    if not track:
        raise Invalid.of("served", "is for tracked rows: otherwise send it with the label", '"track": true')
    found = validator_of(ctx, replica).outside(table)
    if isinstance(found, np.ndarray):
        return [None if math.isnan(value) else value for value in found.tolist()]
    return found


def with_outside(
    served: list[ServedPrediction], outside: Sequence[Label | float | None] | None
) -> list[ServedPrediction]:
    """Predictions together with what a model outside predicted."""
    if outside is None:
        return served
    return [replace(one, outside=own) for one, own in zip(served, outside, strict=True)]


async def keep(
    ctx: Context,
    replica: Replica,
    rows: tuple[Space, Floats],
    table: Table,
    served: Sequence[ServedPrediction],
    version: int,
    given: str | None = None,
) -> list[str]:
    """Keep rows (n, F) of a space, sent as ``table`` and predicted at a version, all or none; returns their ids.

    ``given`` is the client's own id of the one row. If the store fails, it may still have kept some rows: these are
    dropped too, unless the store does not answer within ``DROP_S``, or their ids are the client's own.

    Raises:
        NotFound, RequestConflict, PendingFull, IdsFull, Unavailable: no row is kept.
    """
    (space, raw), validator = rows, validator_of(ctx, replica)
    pending, kept = ctx.engine.pending, list[str]()

    def tracks(part: slice) -> list[Track]:
        own = validator.rows_to_keep(space, raw[part], table._replace(rows=table.rows[part]))
        return _tracks(ctx, replica, own, served[part], version, given)

    for begin in range(0, len(raw), AT_ONCE):
        part = slice(begin, min(begin + AT_ONCE, len(raw)))
        some = await in_thread_if_large(ROW_BYTES * (part.stop - begin), tracks, part)
        outcomes = await pending.track_many(some)
        for item, found in zip(some, outcomes, strict=True):
            if found is None or (isinstance(found, Unavailable) and not item.given):
                kept.append(item.prediction_id)
        for found in outcomes:
            if found is not None:
                with suppress(Unavailable, TimeoutError):  # rows that are not dropped expire
                    async with asyncio.timeout(DROP_S):
                        await pending.drop(replica.name, replica.incarnation, kept)
                if found == "gone":
                    await replica.inbox.sync()  # raises if the store has lost the model
                raise _refusal(ctx, replica, found)
    for at, one in enumerate(served, 1):
        ctx.note_unlabelled(replica, space, raw[at - 1 : at], one)
        if at % AT_ONCE == 0:
            await asyncio.sleep(0)  # lets other tasks run
    return kept


def _tracks(
    ctx: Context,
    replica: Replica,
    rows: Sequence[tuple[Space, Floats]],
    served: Sequence[ServedPrediction],
    version: int,
    given: str | None,
) -> list[Track]:
    """What the store keeps of rows (1, F) and their predictions; ``given``: the client's own id of the one row."""
    bounds = ctx.engine.bounds
    due = replica.model.config.labels_due
    ttl_ms = bounds.prediction_ttl_ms if due is None else 1000 * due["after_s"]
    due_ms, grace_ms = None, 0
    if due is not None and due["then"] != "drop":
        due_ms, grace_ms = ttl_ms, GRACE_MS
    life = (ttl_ms + grace_ms, bounds.pending_max, bounds.committer.ids_max)
    found = []
    for (space, raw), one in zip(rows, served, strict=True):
        identity = secrets.token_urlsafe(15) if given is None else given
        blob = codec.encode_tracked(space.id, raw, one, version, grace_ms)
        found.append(Track(replica.name, replica.incarnation, identity, blob, *life, given is not None, due_ms))
    return found


def _refusal(ctx: Context, replica: Replica, outcome: TrackOutcome) -> Exception:
    if outcome == "gone":
        return no_model(replica.name)
    if outcome == "known":
        return RequestConflict(
            "a prediction with this id is waiting for its label, or a label has this id",
            [Problem("id", "is in use", "another id")],
        )
    if outcome == "full":
        return PendingFull(f"model {replica.name} has the maximum number of tracked predictions waiting")
    if isinstance(outcome, RememberedIds):
        return IdsFull(replica.name, ctx.engine.bounds.committer.ids_max, outcome.count, outcome.wait_ms)
    assert isinstance(outcome, Exception)
    return outcome
