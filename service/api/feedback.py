"""POST /models/{name}/feedback and /feedback/batch: each row is tested, then trained, exactly once.

The order of things matters. An id that has been seen is recognised even where the row would no longer validate, so a
refusal looks the ids up before it is given. Everything is checked before anything is queued: a request is learned whole
or refused whole.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from core.contract import Floats
from core.entry import Rows
from core.features import Space
from core.features.labels import Label
from core.metrics import classification_batch, regression_batch
from core.problems import Conflict, Invalid, Problem
from service.api import bodies, idempotency, tables
from service.api.context import Context, known_queries
from service.api.schemas import FeedbackColumns, FeedbackRow, FeedbackSparse, Learnt, LearntBatch
from service.errors import ModelDown, NotFound
from service.runtime.engine import Bounds
from service.runtime.replica import Replica, Reply
from service.runtime.row_validation import (
    DISCOUNT,
    DISCOUNTS,
    LABEL,
    LABELS,
    FieldPath,
    RowValidator,
    digest_of,
    digest_of_bytes,
    matrix,
    same_count,
)
from service.store import codec

_row = msgspec.json.Decoder(FeedbackRow)
_columns = msgspec.json.Decoder(FeedbackColumns)
_sparse_rows = msgspec.json.Decoder(FeedbackSparse)
_encode = msgspec.json.Encoder().encode


class Batch(NamedTuple):
    """A batch as it was read, before its rows are checked against a model.

    Attributes:
        names: proposed or given column names; None where the columns are in schema order.
        data: cells: JSON values, CSV texts, or an array; of sparse rows the rows themselves.
        labels: as sent, and how errors name them; ids, discounts: one per row, or None.
        size: number of rows.
    """

    names: list[str] | None
    data: Any
    labels: Any
    label_path: FieldPath
    ids: list[str] | None
    discounts: Any
    discount_path: FieldPath
    size: int


async def feedback_row(ctx: Context, request: Request) -> Response:
    """One labelled row."""
    engine = ctx.engine
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    ask = bodies.decode(body, _row)
    given = 1 + sum(part is not None for part in (ask.features, ask.prediction_id, ask.id, ask.discount))
    bodies.refuse_repeated(body, given + len(ask.features or ()))
    replica = await engine.replica(request.path_params["name"])
    identity, digest = _identity(ask, request.headers.get("idempotency-key"), body)
    validator = RowValidator(engine.models, replica)
    if ask.prediction_id is not None:
        reply = await _tracked(ctx, replica, validator, ask, digest)
    else:
        size = len(body) if validator.sparse else 0
        try:
            rows = await tables.in_thread_if_large(
                size, validator.row, ask.features or {}, ask.label, ask.discount, identity
            )
        except (Invalid, Conflict) as error:
            reply = await _unfit(ctx, replica, ask, identity, digest, size, error)
        else:
            reply = await _submit(ctx, replica, rows, digest)
    return Response(_encode(_learnt(ctx, replica, reply)), media_type=bodies.JSON)


async def _submit(ctx: Context, replica: Replica, rows: Rows, digest: str) -> Reply:
    return await ctx.engine.committer.submit(replica, rows, (digest or digest_of(rows.y[0]),) if rows.ids else ())


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
        return idempotency.PREDICTION + idempotency.printable(ask.prediction_id, "prediction_id"), ""
    if ask.features is None:
        raise Invalid.of("features", "is required", "features, or prediction_id")
    if idempotency_key is not None:
        return idempotency.REQUEST + idempotency.printable(idempotency_key, "Idempotency-Key"), digest_of_bytes(body)
    return None if ask.id is None else idempotency.ID + idempotency.printable(ask.id, "id"), ""


async def _tracked(ctx: Context, replica: Replica, validator: RowValidator, ask: FeedbackRow, digest: str) -> Reply:
    """The label of a tracked prediction: the row as it was kept, scored by what was told."""
    identity = idempotency.PREDICTION + str(ask.prediction_id)
    blob, _, seen = await ctx.engine.pending.fetch(replica.name, replica.incarnation, str(ask.prediction_id), identity)
    if blob is None and seen is None:
        problem = Problem("prediction_id", "is not waiting: unknown, expired, or never tracked", "GET .../pending")
        raise NotFound("there is no such tracked prediction", [problem])
    digest = digest_of(validator.bare_labels([ask.label], LABEL)[0])
    if seen is not None:
        idempotency.same([seen], [digest])
        return await idempotency.first_reply(ctx, replica, [identity], [seen])
    labels = validator.labels([ask.label], LABEL)
    discounts = None if ask.discount is None else validator.discounts([ask.discount], DISCOUNT)
    try:
        tracked = codec.decode_tracked(blob or b"")
    except ValueError as error:
        raise ModelDown(f"model {replica.name}: {error}") from error
    rows = Rows(tracked.space, None, tracked.raw, labels, discounts, tracked.served, (identity,))
    return await ctx.engine.committer.submit(replica, rows, (digest,), str(ask.prediction_id))


async def _unfit(
    ctx: Context, replica: Replica, ask: FeedbackRow, identity: str | None, digest: str, size: int, error: Exception
) -> Reply:
    """A row that does not validate: read again where the replica stood behind the log, as after a change of features.

    If it still does not validate and its id has been seen, the first answer.
    """
    if await ctx.engine.caught_up(replica):
        validator = RowValidator(ctx.engine.models, replica)
        try:
            rows = await tables.in_thread_if_large(
                size, validator.row, ask.features or {}, ask.label, ask.discount, identity
            )
        except (Invalid, Conflict) as still:
            error = still
        else:
            return await _submit(ctx, replica, rows, digest)
    ids = () if identity is None else (identity,)
    seen = await idempotency.known(ctx, replica, ids, error)
    bare = RowValidator(ctx.engine.models, replica)
    idempotency.same(seen, [digest or digest_of(_bare(bare, [ask.label], LABEL, error)[0])])
    return await idempotency.first_reply(ctx, replica, ids, seen)


def _bare(validator: RowValidator, labels: Any, path: FieldPath, error: Exception) -> "list[Label] | Floats":
    """The labels of rows that were refused; where these are wrong too, what the rows were refused for."""
    try:
        return validator.bare_labels(labels, path)
    except Invalid:
        raise error from None


def _learnt(ctx: Context, replica: Replica, reply: Reply) -> Learnt:
    return Learnt(
        reply.predictions[0],
        reply.losses[0],
        reply.version,
        reply.rows,
        reply.all_duplicate,
        reply.learned,
        ctx.engine.durability,
        replica.incarnation,
    )


# ------------------------------------------------------------------------------------------------ batches


async def feedback_batch(ctx: Context, request: Request) -> Response:
    """Many labelled rows: JSON by column, CSV, or .npy with the label last; sparse ones: JSON or SVMlight."""
    engine = ctx.engine
    kind = bodies.table_type(request)
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    replica = await engine.replica(request.path_params["name"])
    validator = RowValidator(engine.models, replica)
    bodies.check_media_type(kind, validator.sparse)
    batch = _read(kind, request, body, validator)
    _bounded(engine.bounds, validator, batch)
    ids, digests = _batch_ids(ctx, request, batch, body)
    try:
        rows = await _batch_rows(ctx, replica, batch, kind, ids, len(body))
    except (Invalid, Conflict) as error:
        reply = await _batch_again(ctx, replica, validator, batch, ids, digests, error)
        labels = _bare(validator, batch.labels, batch.label_path, error)
    else:
        labels = rows.y
        if ids and not digests:
            digests = _digests(labels)
        reply = await engine.committer.submit(replica, rows, digests)
    return Response(_encode(_learnt_batch(ctx, replica, reply, labels)), media_type=bodies.JSON)


async def _batch_rows(ctx: Context, replica: Replica, batch: Batch, kind: str, ids: tuple[str, ...], size: int) -> Rows:
    """The rows as the model reads them; once more where the replica stood behind the log."""

    async def read() -> Rows:
        validator = RowValidator(ctx.engine.models, replica)
        return await tables.in_thread_if_large(size if validator.sparse else 0, _rows, validator, batch, kind, ids)

    try:
        return await read()
    except (Invalid, Conflict):
        if not await ctx.engine.caught_up(replica):
            raise
    return await read()


def _read(kind: str, request: Request, body: bytes, validator: RowValidator) -> Batch:
    if kind == bodies.CSV:
        return _read_csv(request, body)
    known_queries(request)
    if kind == bodies.NPY:
        array = tables.npy(body)
        if array.ndim != 2 or array.shape[1] < 2:
            raise Invalid.of("body", "is not a table of features and a label", "two dimensions, the label last")
        return Batch(None, array, array[:, -1].tolist(), LABELS, None, None, DISCOUNTS, len(array))
    if kind == bodies.SVMLIGHT:
        return _read_svmlight(body)
    if validator.sparse:
        sparse = bodies.decode(body, _sparse_rows)
        return _read_json(body, sparse, None, sparse.rows, 2 + 2 * len(sparse.rows))
    ask = bodies.decode(body, _columns)
    return _read_json(body, ask, ask.columns, ask.data, 3)


def _read_json(
    body: bytes, ask: FeedbackColumns | FeedbackSparse, columns: list[str] | None, data: Sequence[Any], names: int
) -> Batch:
    bodies.refuse_repeated(body, names + (ask.ids is not None) + (ask.discounts is not None))
    count = len(data)
    same_count(ask.labels, count, "labels")
    if ask.ids is not None:
        same_count(ask.ids, count, "ids")
    if ask.discounts is not None:
        same_count(ask.discounts, count, "discounts")
    return Batch(columns, data, ask.labels, LABELS, ask.ids, ask.discounts, DISCOUNTS, count)


def _read_svmlight(body: bytes) -> Batch:
    """Every line begins with its label; ids and discounts have no place in it."""
    lines = tables.svmlight(body)
    bare = [line.place(-1) for line in lines if line.label is None]
    if bare:
        raise Invalid(*(Problem(place, "is no label", "label name:value ...") for place in bare[:20]))
    labels = [line.label for line in lines]
    return Batch(None, lines, labels, FieldPath("labels", lines=lines), None, None, DISCOUNTS, len(lines))


def _bounded(bounds: Bounds, validator: RowValidator, batch: Batch) -> None:
    if validator.sparse:
        tables.check_sparse_size(batch.size, validator.sparse_schema(), bounds.batch_rows_max, bounds.body_bytes_max)
    else:
        tables.check_size(batch.size, bounds.batch_rows_max)


def _read_csv(request: Request, body: bytes) -> Batch:
    query = request.query_params
    header, rows = tables.csv_rows(body)
    label = query.get("label")
    if label is None:
        raise Invalid.of("label", "is required as a query parameter: the column that holds the label", header[:100])
    labels = tables.pop_column(header, rows, label, "label")
    ids = tables.pop_column(header, rows, query.get("id"), "id")
    discounts = tables.pop_column(header, rows, query.get("discount"), "discount")
    path, discount_path = FieldPath("label", column=label), FieldPath("discount", column=query.get("discount", ""))
    return Batch(header, rows, labels, path, ids, discounts, discount_path, len(rows))


def _batch_ids(ctx: Context, request: Request, batch: Batch, body: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of a batch, one per row or one for all of it, and the digest of the latter."""
    whole = request.headers.get("idempotency-key")
    if whole is not None:
        if batch.ids is not None:
            raise Invalid.of("ids", "exclude Idempotency-Key")
        query = request.scope["query_string"]
        return (idempotency.REQUEST + idempotency.printable(whole, "Idempotency-Key"),), (
            digest_of_bytes(query + b"\n" + body),
        )
    if batch.ids is None:
        return (), ()
    tables.check_size(len(batch.ids), ctx.engine.bounds.batch_ids_max)
    return idempotency.per_row(batch.ids, idempotency.ID), ()


def _rows(validator: RowValidator, batch: Batch, kind: str, ids: tuple[str, ...]) -> Rows:
    """Check a batch against the model as it stands.

    Raises:
        Invalid, RequestConflict: naming the first fields that are wrong.
    """
    space, names, raw = _raw(validator, batch, kind)
    discounts: Floats | None = None
    labels = validator.labels(batch.labels, batch.label_path)
    if batch.discounts is not None:
        discounts = validator.discounts(batch.discounts, batch.discount_path)
    return Rows(space.id, names, raw, labels, discounts, None, ids)


def _raw(validator: RowValidator, batch: Batch, kind: str) -> tuple[Space, tuple[str, ...] | None, Floats]:
    """The space a batch is of, the names it proposes where there is none yet, and its rows."""
    if validator.sparse:
        sparse = validator.sparse_schema()
        return sparse, None, tables.sparse(sparse, kind, batch.data)
    if batch.names is None:
        schema = validator.teaching_schema()
        table = matrix(batch.data, schema.raw_width + 1)
        return schema, None, schema.matrix(table[:, :-1], validator.missing_allowed, "body")
    schema, names = validator.schema(batch.names, "columns" if kind == bodies.JSON else "header")
    read = schema.block if kind == bodies.JSON else schema.text_cells
    return schema, names, read(batch.names, batch.data, validator.missing_allowed)


def _digests(labels: "list[Label] | Floats") -> tuple[str, ...]:
    return tuple(map(digest_of, labels.tolist() if isinstance(labels, np.ndarray) else labels))


async def _batch_again(
    ctx: Context,
    replica: Replica,
    validator: RowValidator,
    batch: Batch,
    ids: tuple[str, ...],
    digests: tuple[str, ...],
    error: Exception,
) -> Reply:
    """A batch that does not validate (any more): the first answers, if every id of it has been seen."""
    seen = await idempotency.known(ctx, replica, ids, error)
    idempotency.same(seen, digests or _digests(_bare(validator, batch.labels, batch.label_path, error)))
    return await idempotency.first_reply(ctx, replica, ids, seen)


def _metrics(reply: Reply, labels: "list[Label] | Floats") -> dict[str, Any]:
    """Metrics of the rows of the batch, by what each was told when it was learned."""
    scored = [row for row, loss in enumerate(reply.losses) if loss is not None]
    told, truth = [reply.predictions[row] for row in scored], [labels[row] for row in scored]
    if isinstance(labels, np.ndarray):
        return regression_batch(np.array(told, dtype=np.float64), np.array(truth, dtype=np.float64))
    places: dict[tuple[type, Any], int] = {(type(None), None): -1}
    true, said = ([places.setdefault((type(x), x), len(places) - 1) for x in labels] for labels in (truth, told))
    p_true = np.array([reply.p_true[row] for row in scored], np.float64)
    return classification_batch(np.array(said, np.int64), np.array(true, np.int64), p_true)


def _learnt_batch(ctx: Context, replica: Replica, reply: Reply, labels: "list[Label] | Floats") -> LearntBatch:
    return LearntBatch(
        list(reply.predictions),
        list(reply.losses),
        reply.version,
        reply.rows,
        _metrics(reply, labels),
        reply.all_duplicate,
        reply.duplicates,
        reply.learned,
        ctx.engine.durability,
        replica.incarnation,
    )
