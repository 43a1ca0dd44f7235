"""POST /models/{name}/feedback and /feedback/batch: each row is tested, then trained, exactly once.

The order of things matters. An id that has been seen is recognised even where the row would no longer validate, so a
refusal looks the ids up before it is given. Everything is checked before anything is queued: a request is learned whole
or refused whole.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from core.entry import Rows
from core.model import Floats
from core.problems import Conflict, Invalid, Problem
from service.api import bodies, tables
from service.api.context import Context
from service.api.schemas import FeedbackColumns, FeedbackRow, Learnt, LearntBatch
from service.errors import Clash, ModelDown, NotFound
from service.runtime import replies
from service.runtime.intake import Intake, digest_of, digest_of_bytes, same_count
from service.runtime.replica import Replica, Reply
from service.store import codec
from service.store.log import Seen

_row = msgspec.json.Decoder(FeedbackRow)
_columns = msgspec.json.Decoder(FeedbackColumns)
_encode = msgspec.json.Encoder().encode

ID, PREDICTION, REQUEST = "i:", "p:", "k:"
"""Prefixes that keep a client's ids, prediction ids and Idempotency-Keys apart."""


class Batch(NamedTuple):
    """A batch as it was read, before its rows are checked against a model.

    Attributes:
        names: proposed or given column names; None where the columns are in schema order.
        data: cells: JSON values, CSV texts, or an array.
        labels: as sent; ids, discounts: one per row, or None.
        size: number of rows.
    """

    names: list[str] | None
    data: Any
    labels: Any
    ids: list[str] | None
    discounts: Any
    size: int


async def feedback_row(ctx: Context, request: Request) -> Response:
    """One labelled row."""
    engine = ctx.engine
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read(request, engine.bounds.body_bytes_max)
    ask = bodies.decode(body, _row)
    given = 1 + sum(part is not None for part in (ask.features, ask.prediction_id, ask.id, ask.discount))
    bodies.refuse_repeated(body, given + len(ask.features or ()))
    replica = await engine.replica(request.path_params["name"])
    identity, digest = _identity(ask, request.headers.get("idempotency-key"), body)
    intake = Intake(engine.hub, replica)
    if ask.prediction_id is not None:
        reply = await _tracked(ctx, replica, intake, ask, digest)
    else:
        try:
            rows = intake.row(ask.features or {}, ask.label, ask.discount, identity)
            digest = digest or (digest_of(rows.y[0]) if identity else "")
        except (Invalid, Conflict, Clash) as error:
            reply = await _again(ctx, replica, intake, ask.label, identity, digest, error)
        else:
            reply = await engine.pump.submit(replica, rows, (digest,) if identity else ())
    return Response(_encode(_learnt(ctx, replica, reply)), media_type=bodies.JSON)


def _identity(ask: FeedbackRow, idempotency_key: str | None, body: bytes) -> tuple[str | None, str]:
    """The id a row is remembered by, and the digest where that is of the whole body.

    Raises:
        Invalid: several ids, or features missing or superfluous.
    """
    given = {"id": ask.id, "prediction_id": ask.prediction_id, "Idempotency-Key": idempotency_key}
    several = [name for name, value in given.items() if value is not None]
    if len(several) > 1:
        raise Invalid(*(Problem(name, f"excludes {', '.join(n for n in several if n != name)}") for name in several))
    if ask.prediction_id is not None:
        if ask.features is not None:
            raise Invalid.of("features", "go without prediction_id: the row was kept when it was predicted")
        return PREDICTION + ask.prediction_id, ""
    if ask.features is None:
        raise Invalid.of("features", "is required", "features, or prediction_id")
    if idempotency_key is not None:
        return _request_identity(idempotency_key), digest_of_bytes(body)
    return None if ask.id is None else ID + ask.id, ""


def _request_identity(key: str) -> str:
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise Invalid.of("Idempotency-Key", "is not 1 to 200 printable characters")
    return REQUEST + key


async def _tracked(ctx: Context, replica: Replica, intake: Intake, ask: FeedbackRow, digest: str) -> Reply:
    """The label of a tracked prediction: the row as it was kept, scored by what was told."""
    identity = PREDICTION + str(ask.prediction_id)
    blob, _, seen = await ctx.engine.pending.fetch(replica.name, replica.incarnation, str(ask.prediction_id), identity)
    if blob is None and seen is None:
        problem = Problem("prediction_id", "is not waiting: unknown, expired, or never tracked", "GET .../pending")
        raise NotFound("there is no such tracked prediction", [problem])
    labels = intake.labels([ask.label], "label")
    discounts = None if ask.discount is None else intake.discounts([ask.discount], "discount")
    digest = digest_of(labels[0])
    if seen is not None:
        return await _seen_again(ctx, replica, identity, seen, digest)
    try:
        tracked = codec.decode_tracked(blob or b"")
    except ValueError as error:
        raise ModelDown(f"model {replica.name}: {error}") from error
    rows = Rows(tracked.space, None, tracked.raw, labels, discounts, tracked.told, (identity,))
    return await ctx.engine.pump.submit(replica, rows, (digest,), str(ask.prediction_id))


async def _again(
    ctx: Context, replica: Replica, intake: Intake, label: Any, identity: str | None, digest: str, error: Exception
) -> Reply:
    """A row that does not validate (any more): the first answer, if its id has been seen."""
    if identity is None:
        raise error
    (seen,) = await ctx.engine.store.log.lookup(replica.name, replica.incarnation, [identity])
    if seen is None:
        raise error
    return await _seen_again(ctx, replica, identity, seen, digest or digest_of(_loose(intake, label, error)))


def _loose(intake: Intake, label: Any, error: Exception) -> Any:
    try:
        return intake.labels([label], "label")[0]
    except (Invalid, Conflict, Clash):
        raise error from None


async def _seen_again(ctx: Context, replica: Replica, identity: str, seen: Seen, digest: str) -> Reply:
    if seen.digest != digest:
        raise Clash("this id has been sent before with another label or body; nothing was learned from this request")
    answer = replica.answer(identity, seen.answer)
    if answer is None:
        answer = await ctx.engine.settler.regenerate(replica, identity, seen.version)
    reply = replies.repeated(1, [(0, answer)])
    if isinstance(reply, Exception):
        raise reply
    return reply


def _learnt(ctx: Context, replica: Replica, reply: Reply) -> Learnt:
    return Learnt(
        reply.predictions[0],
        reply.losses[0],
        reply.version,
        reply.rows,
        reply.whole,
        reply.learned,
        ctx.engine.durability,
        replica.incarnation,
    )


# ------------------------------------------------------------------------------------------------ batches


async def feedback_batch(ctx: Context, request: Request) -> Response:
    """Many labelled rows: JSON by column, CSV, or .npy with the label last."""
    engine = ctx.engine
    kind = bodies.media_type(request, (bodies.JSON, bodies.CSV, bodies.NPY))
    body = await bodies.read(request, engine.bounds.body_bytes_max)
    replica = await engine.replica(request.path_params["name"])
    intake = Intake(engine.hub, replica)
    batch = _read(kind, request, body, intake)
    tables.bounded(batch.size, engine.bounds.batch_rows_max)
    ids, digests = _batch_ids(ctx, request, batch, body)
    try:
        rows = _rows(intake, batch, kind, ids)
    except (Invalid, Conflict, Clash) as error:
        reply = await _batch_again(ctx, replica, batch, ids, digests, error)
    else:
        if ids and not digests:
            digests = tuple(digest_of(label) for label in _plain(rows.y))
        reply = await engine.pump.submit(replica, rows, digests)
    return Response(_encode(_learnt_batch(ctx, replica, reply)), media_type=bodies.JSON)


def _read(kind: str, request: Request, body: bytes, intake: Intake) -> Batch:
    if kind == bodies.CSV:
        return _read_csv(request, body)
    if kind == bodies.NPY:
        array = tables.npy(body, len(intake.known_schema().names) + 1)
        return Batch(None, array[:, :-1], array[:, -1], None, None, len(array))
    ask = bodies.decode(body, _columns)
    bodies.refuse_repeated(body, 3 + (ask.ids is not None) + (ask.discounts is not None))
    count = len(ask.data)
    same_count(ask.labels, count, "labels")
    if ask.ids is not None:
        same_count(ask.ids, count, "ids")
    if ask.discounts is not None:
        same_count(ask.discounts, count, "discounts")
    return Batch(ask.columns, ask.data, ask.labels, ask.ids, ask.discounts, count)


def _read_csv(request: Request, body: bytes) -> Batch:
    query = request.query_params
    header, rows = tables.csv_rows(body)
    label = query.get("label")
    if label is None:
        raise Invalid.of("label", "is required as a query parameter: the column that holds the label", header[:100])
    labels = tables.pop_column(header, rows, label, "label")
    ids = tables.pop_column(header, rows, query.get("id"), "id")
    discounts = tables.pop_column(header, rows, query.get("discount"), "discount")
    return Batch(header, rows, labels, ids, discounts, len(rows))


def _batch_ids(ctx: Context, request: Request, batch: Batch, body: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of a batch, one per row or one for all of it, and the digest of the latter."""
    whole = request.headers.get("idempotency-key")
    if whole is not None:
        if batch.ids is not None:
            raise Invalid.of("ids", "exclude Idempotency-Key")
        query = request.scope["query_string"]
        return (_request_identity(whole),), (digest_of_bytes(query + b"\n" + body),)
    if batch.ids is None:
        return (), ()
    tables.bounded(len(batch.ids), ctx.engine.bounds.batch_ids_max)
    odd = [at for at, identity in enumerate(batch.ids) if not 1 <= len(identity) <= 200 or not identity.isprintable()]
    if odd:
        raise Invalid(*(Problem(f"ids[{at}]", "is not 1 to 200 printable characters") for at in odd[:20]))
    return tuple(ID + identity for identity in batch.ids), ()


def _rows(intake: Intake, batch: Batch, kind: str, ids: tuple[str, ...]) -> Rows:
    """Check a batch against the model as it stands.

    Raises:
        Invalid, Clash: naming the first fields that are wrong.
    """
    if batch.names is None:
        schema, names = intake.known_schema(), None
    else:
        schema, names = intake.schema(batch.names, "columns" if kind == bodies.JSON else "header")
    discounts: Floats | None = None
    if kind == bodies.JSON:
        raw = schema.block(batch.names or (), batch.data, intake.missing_allowed)
        labels = intake.labels(batch.labels)
        discounts = None if batch.discounts is None else intake.discounts(batch.discounts)
    elif kind == bodies.CSV:
        raw = schema.text_cells(batch.names or (), batch.data, intake.missing_allowed)
        labels = intake.label_texts(batch.labels, "label")
        if batch.discounts is not None:
            discounts = intake.discounts([_number(cell) for cell in batch.discounts])
    else:
        raw = schema.matrix(batch.data, intake.missing_allowed, "body")
        labels = intake.labels(batch.labels.tolist())
    return Rows(schema.id, names, raw, labels, discounts, None, ids)


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


def _plain(labels: Any) -> Any:
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


async def _batch_again(
    ctx: Context, replica: Replica, batch: Batch, ids: tuple[str, ...], digests: tuple[str, ...], error: Exception
) -> Reply:
    """A batch that does not validate (any more): the first answers, if every id of it has been seen."""
    found = await ctx.engine.store.log.lookup(replica.name, replica.incarnation, ids) if ids else [None]
    if any(seen is None for seen in found):
        raise error
    given = digests or tuple(digest_of(label) for label in _plain(batch.labels))
    earlier = []
    for row, (identity, seen) in enumerate(zip(ids, found, strict=True)):
        assert seen is not None
        if seen.digest != given[row]:
            raise Clash("an id has been sent before with another label or body; nothing was learned from this request")
        answer = replica.answer(identity, seen.answer)
        if answer is None:
            answer = await ctx.engine.settler.regenerate(replica, identity, seen.version)
        earlier.append((row, answer))
    reply = replies.repeated(len(ids), earlier)
    if isinstance(reply, Exception):
        raise reply
    return reply


def _learnt_batch(ctx: Context, replica: Replica, reply: Reply) -> LearntBatch:
    return LearntBatch(
        list(reply.predictions),
        list(reply.losses),
        reply.version,
        reply.rows,
        reply.statistics,
        reply.whole,
        reply.duplicates,
        reply.learned,
        ctx.engine.durability,
        replica.incarnation,
    )
