"""POST /models/{name}/feedback and /feedback/batch: each row is predicted, then learned, exactly once.

A single row is a table with one row. Everything is checked before anything is queued: a request is learned whole or
refused whole. A repeated id gets its first answer again, even if the row would be refused now (see ``idempotency``).
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from fastapi import APIRouter, Depends
from starlette.responses import Response

from core.entry import Rows
from core.problems import NAMED_MAX, Invalid, Problem
from service.api.http.context import Context, Ctx, ModelName, idempotency_key
from service.api.http.route import LEARN
from service.api.openapi import examples
from service.api.openapi.document import raw_body
from service.api.rows.batch_metrics import metrics_of
from service.api.rows.batches import identity_of_batch, let_go, read_batch, read_row
from service.api.rows.formats.json_tables import FEEDBACK
from service.api.rows.formats.tables import TABLE_QUERIES
from service.api.rows.idempotency import REFUSED, answer_if_seen, first_reply, read_rows, validator_of
from service.api.rows.large_answers import answered, large_answer, learnt_bytes, reserve
from service.api.rows.row_route import RowRequest, RowRoute
from service.api.rows.table_queries import described
from service.api.schemas import (
    FeedbackColumns,
    FeedbackRecord,
    FeedbackRecords,
    FeedbackRow,
    FeedbackSparse,
    Learnt,
    LearntBatch,
)
from service.errors import ModelDown, NotFound
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.rows.ids import ID, PREDICTION, Identity, digests_of, identity_of, is_id, printable
from service.runtime.rows.row_numbers import factors
from service.runtime.rows.row_plan import labelled
from service.runtime.rows.row_validation import Labels, RowValidator
from service.runtime.rows.table import Table, alone
from service.runtime.threads import in_thread_if_large
from service.store.log import codec

router = APIRouter(route_class=RowRoute)
IDEMPOTENT = Depends(idempotency_key)
_row = msgspec.json.Decoder(FeedbackRow)
_encode = msgspec.json.Encoder().encode
KEY = b"idempotency-key"


@router.post(
    "/models/{name}/feedback",
    tags=["one row"],
    dependencies=[LEARN, IDEMPOTENT],
    response_model=Learnt,
    openapi_extra=raw_body(FeedbackRow, shown=examples.FEEDBACK),
)
async def feedback_row(ctx: Ctx, name: ModelName, request: RowRequest) -> bytes:
    """Learn one labelled row.

    The answer has the prediction that the model made *before* it learned the row. With an `id`, a `prediction_id` (not
    both) or else the header `Idempotency-Key`, the row is learned once, however often it is sent within a day: a retry
    gets the first answer with `duplicate: true`; a different label is 409. If the body has an id, the header only
    matters to proxies. `served` is what a model outside Onepass predicted for the row: `GET metrics` compares the two.
    """
    engine = ctx.engine
    body, key = await request.small_json(engine.bounds.body_bytes_max), request.lines.get(KEY)
    if body is not None and (replica := engine.models.at_hand(name)) is not None:
        reply = _plain(replica, body, key)
        if reply is not None:
            return _answer(await reply, engine.durability, replica.incarnation)
    ask, body = await read_row(ctx, request, body, _row)
    size, replica = len(body), await engine.replica(name)  # after the body: the model may change while it arrives
    if key is None:
        identity = _identity_of(ask)
    else:
        whole = key.decode("latin-1")
        printable(whole, "Idempotency-Key")  # even if an id in the body takes precedence
        identity = await in_thread_if_large(size, _identity_of, ask, whole, body)
    row = _table_of(ask)
    if ask.prediction_id is not None:
        found = await _learn_tracked(ctx, replica, row, str(ask.prediction_id), identity.ids, size)
    else:
        found, _ = await _learn(ctx, replica, row, identity, size)
    return _answer(found, engine.durability, replica.incarnation)


def _plain(replica: Replica, body: bytes, key: bytes | None) -> "asyncio.Future[Reply] | None":
    """Queue a plain row; None if it is not plain, or if there is a ``key`` but no id in the row."""
    row, plan = labelled(body), replica.row_plan
    if row is None or (values := plan.to_learn(row.features)) is None or (label := plan.label(row.label)) is None:
        return None
    if key is not None and (row.id is None or not is_id(key.decode("latin-1"))):
        return None
    if row.id is None:
        return replica.inbox.submit_row(plan, values, label, "", "")
    if not row.id.isprintable():
        return None
    return replica.inbox.submit_row(plan, values, label, ID + row.id, codec.digest_of(label))


def _answer(reply: Reply, durability: str, incarnation: str) -> bytes:
    outcome = reply.answer
    return _encode(
        Learnt(
            outcome.predictions[0],
            outcome.losses[0],
            outcome.version,
            outcome.rows,
            reply.all_duplicate,
            outcome.learned,
            durability,
            incarnation,
            outcome.mapped,
            [label for _, label in outcome.joined] if outcome.joined else None,
        )
    )


def _identity_of(ask: FeedbackRow, key: str | None = None, body: bytes = b"") -> Identity:
    """The identity of a row, used to recognise a retry; ``Invalid`` for missing or excess ids or features."""
    if ask.prediction_id is not None:
        if ask.id is not None:
            raise Invalid(Problem("id", "excludes prediction_id"), Problem("prediction_id", "excludes id"))
        if ask.features is not None:
            raise Invalid.of("features", "cannot be sent with prediction_id: the row was stored when it was predicted")
        return Identity((PREDICTION + printable(ask.prediction_id, "prediction_id"),))
    if ask.features is None:
        raise Invalid.of("features", "is required", "features, or prediction_id")
    return identity_of(key, None if ask.id is None else [ask.id], ID, (body,))


def _table_of(ask: FeedbackRow) -> Table:
    """A row as a table with one row."""
    discounts, weights = (None if given is None else [given] for given in (ask.discount, ask.weight))
    served = None if ask.served is None else [ask.served]
    return Table([ask.features], alone, labels=[ask.label], discounts=discounts, weights=weights, served=served)


async def _learn(
    ctx: Context, replica: Replica, table: Table, identity: Identity, size: int, batch: RowRequest | None = None
) -> tuple[Reply, Labels]:
    """Learn rows by their features, or give the first answers again; also returns their labels.

    The rows of a ``batch`` are freed before this waits for the answer.
    """

    def read(validator: RowValidator) -> tuple[Rows, tuple[str, ...]]:
        rows = validator.feedback(table, identity.ids)
        return rows, identity.digests or (digests_of(rows.y) if rows.ids else ())

    try:
        rows, reply = await _queued(ctx, replica, size, read)
    except REFUSED as error:
        labels = await in_thread_if_large(size, _bare_labels, validator_of(ctx, replica), table)
        if labels is None and not identity.digests:
            raise
        digests = identity.digests or (digests_of(labels) if labels is not None and identity.ids else ())
        first = await answer_if_seen(ctx, replica, Identity(identity.ids, digests), error)
        if labels is None:
            raise
        return first, labels
    if batch is not None:
        let_go(ctx, batch, table, rows.X)
    return await reply, rows.y


async def _queued(
    ctx: Context,
    replica: Replica,
    size: int,
    read: Callable[[RowValidator], tuple[Rows, tuple[str, ...]]],
    prediction_id: str | None = None,
) -> tuple[Rows, "asyncio.Future[Reply]"]:
    """Validate rows, and queue them with the digests of their ids; raises what ``read`` raises.

    Rows that add classes are checked and learned one request at a time: together they might not fit the limit.
    """

    def read_more(validator: RowValidator) -> tuple[Rows, tuple[str, ...], bool]:
        rows, digests = read(validator)
        return rows, digests, isinstance(rows.y, list) and not validator.known.knows(rows.y)

    plan = replica.row_plan
    rows, digests, grows = await read_rows(ctx, replica, size, read_more)
    if not grows:
        return rows, replica.inbox.submit(rows, digests, prediction_id)
    async with replica.growing():
        if replica.row_plan is not plan:  # other requests have added classes or challengers
            rows, digests, grows = await read_rows(ctx, replica, size, read_more)
        reply = replica.inbox.submit(rows, digests, prediction_id)
        if grows:
            await asyncio.wait([reply])
    return rows, reply


def _bare_labels(validator: RowValidator, table: Table) -> Labels | None:
    """The labels of rows that were refused; None if these are wrong, too."""
    try:
        return validator.bare_labels(table)
    except Invalid:
        return None


async def _learn_tracked(
    ctx: Context, replica: Replica, row: Table, prediction_id: str, ids: tuple[str, ...], size: int
) -> Reply:
    """Learn the label of a tracked prediction: the stored row, scored by the prediction that was served."""
    blob, _, seen = await ctx.engine.pending.fetch(replica.name, replica.incarnation, prediction_id, ids[0])
    if blob is None and seen is None:
        await replica.inbox.sync()  # raises if the store has lost the model: then the client must keep the label
        waiting, _ = await ctx.engine.pending.list(replica.name, replica.incarnation, NAMED_MAX)
        known = [own for own, *_ in waiting]
        problem = Problem("prediction_id", "is unknown, expired, or already has its label", known)
        raise NotFound("there is no such tracked prediction", [problem])
    identity = Identity(ids, digests_of(validator_of(ctx, replica).bare_labels(row)))
    if seen is not None:
        return await first_reply(ctx, replica, identity, [seen])
    try:
        told = codec.decode_tracked(blob or b"")
    except ValueError as error:
        raise ModelDown(f"model {replica.name}: {error}") from error

    def read(validator: RowValidator) -> tuple[Rows, tuple[str, ...]]:
        labels = validator.labels(row, tracked=True)
        (discounts, weights), outside = factors(row, validator.config), validator.outside(row)
        if outside is not None and told.served.outside is not None:
            raise Invalid.of("served", "was sent with the prediction: leave it out")
        rows = Rows(told.space, None, told.raw, labels, discounts, told.served, ids, weights=weights, outside=outside)
        return rows, identity.digests

    _, reply = await _queued(ctx, replica, size, read, prediction_id)
    return await reply


# ------------------------------------------------------------------------------------------------ batches


LABELLED_ROWS = raw_body(
    FeedbackColumns,
    FeedbackRecords,
    FeedbackSparse,
    shown=examples.FEEDBACK_BATCH,
    record=FeedbackRecord,
    lines=examples.FEEDBACK_LINES,
    csv=examples.FEEDBACK_CSV,
    npy="features in the order of the model, the label (a number) last",
    svmlight=True,
)
"""The body of a batch of labelled rows, for /openapi.json."""


@router.post(
    "/models/{name}/feedback/batch",
    tags=["batches"],
    dependencies=[LEARN, IDEMPOTENT, described(*TABLE_QUERIES)],
    response_model=LearntBatch,
    openapi_extra=LABELLED_ROWS,
)
async def feedback_batch(ctx: Ctx, name: ModelName, request: RowRequest) -> Response:
    """Learn many labelled rows.

    Takes JSON by column or by name, `application/x-ndjson` (one row by name per line), `text/csv` with a header (name
    the columns: `?label=`, `?id=`, `?discount=`, `?weight=`, `?served=`; leave out others with `?drop=`; `?delimiter=`)
    and `application/x-npy`, a file of `numpy.save` (float64, columns in schema order, then the label, a number).
    `metrics` are those of this batch. Models of sparse rows take JSON, also as
    `{"rows": [{"names": [...], "values": [...]}], "labels": [...]}`, and `text/x-svmlight` (`label name:value ...`).
    """
    replica, table, body = await read_batch(ctx, request, name, FEEDBACK)
    count = len(table.rows)
    reserve(ctx, request, count, learnt_bytes(replica.model))  # first: rows that are learned must not be refused
    identity = await identity_of_batch(ctx, request, body, table, ID)
    reply, labels = await _learn(ctx, replica, table, identity, len(body), request)
    told = (reply, labels, ctx.engine.durability, replica.incarnation)
    return await answered(ctx, request, count, _learnt, *told)


def _learnt(reply: Reply, labels: Labels, durability: str, incarnation: str) -> Response:
    answer = LearntBatch(
        reply.answer.predictions,
        reply.answer.losses,
        reply.answer.version,
        reply.answer.rows,
        _metrics(reply, labels),
        reply.all_duplicate,
        reply.duplicates,
        reply.answer.learned,
        durability,
        incarnation,
        reply.answer.mapped,
        [label for _, label in reply.answer.joined] or None,
    )
    return large_answer(answer)


def _metrics(reply: Reply, labels: Labels) -> dict[str, Any]:
    """Metrics of the rows of the batch, by the predictions returned when they were learned."""
    answer = reply.answer
    truth, predicted, p_true = labels, answer.predictions, answer.p_true or [math.nan] * len(answer.predictions)
    refused = {row for row, earlier in reply.earlier if earlier.refusal is not None}  # when first sent
    if refused:
        kept = [row for row in range(len(predicted)) if row not in refused]
        truth = labels[kept] if isinstance(labels, np.ndarray) else [labels[row] for row in kept]
        predicted = [predicted[row] for row in kept]
        p_true = [p_true[row] for row in kept]
    return metrics_of(predicted, truth, p_true)
