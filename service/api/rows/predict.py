"""POST /models/{name}/predict and /predict/batch: predictions, which change nothing."""

import secrets
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from fastapi import APIRouter
from starlette.responses import Response

from core.contract import Floats, Prediction
from core.entry import ServedPrediction
from core.features import Space, SparseSchema
from core.features.labels import key
from core.model import Model, cost, read
from core.problems import Invalid, Problem
from service.api.http.context import Context, Ctx, Fresh, ModelName
from service.api.http.lines import lines_of
from service.api.http.route import READ
from service.api.openapi import examples
from service.api.openapi.document import raw_body
from service.api.rows import interval, plain_rows
from service.api.rows.batches import read_batch, read_row
from service.api.rows.formats.csv_tables import CSV_QUERIES
from service.api.rows.formats.json_tables import PREDICT
from service.api.rows.idempotency import read_rows, validator_of
from service.api.rows.identity import PREDICTION
from service.api.rows.interval import level_of
from service.api.rows.large_answers import ROW_BYTES, large_answer
from service.api.rows.row_request import RowRequest
from service.api.rows.row_route import RowRoute
from service.api.rows.table_queries import described
from service.api.schemas import (
    PredictColumns,
    Predicted,
    PredictedBatch,
    PredictRecord,
    PredictRecords,
    PredictRow,
    PredictSparse,
)
from service.errors import IdsFull, PendingFull, RequestConflict, no_model
from service.runtime import threads
from service.runtime.replicas.replica import Replica
from service.runtime.rows.table import Table, alone
from service.runtime.threads import in_thread_if_large, in_thread_if_long
from service.store.log import codec
from service.store.log.appends import RememberedIds
from service.store.pending import Track

router = APIRouter(route_class=RowRoute)
_row = msgspec.json.Decoder(PredictRow)
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")
ROW_FLOPS = 200.0
"""Assumed cost of naming one prediction of a batch, in floating-point operations."""


@router.post(
    "/models/{name}/predict",
    tags=["one row"],
    dependencies=[READ],
    response_model=Predicted,
    openapi_extra=raw_body(PredictRow, shown=examples.PREDICT),
)
async def predict_row(ctx: Ctx, name: ModelName, request: RowRequest, fresh: Fresh) -> bytes:
    """Predict one row.

    Changes nothing. With `interval`, a share of labels such as 0.9, a regression returns low and high, which adapt so
    that this share of labels lies between them. With `track`, the row is kept under a `prediction_id` until its label
    arrives; that needs the scope `learn`. With `explain`, the answer has the contribution of each feature (linear
    models), the prediction and weight of each expert (`auto`), or the log density of the row in each class and how
    ambiguous the row is (VIGO). After a change of features several experts predict together: contributions are those of
    their mean weights, as in `GET /weights`; `share` is the part of the experts' weight that is linear in the current
    features; other explanations are those of the expert with the largest weight. Probabilities are calibrated on the
    rows learned so far. The prediction is the most probable label; with `class_costs`, the label of least expected
    cost. A model of named sparse rows (`sparse_dfop`) takes any names; an absent one is 0.
    """
    engine = ctx.engine
    body, replica = await request.small_json(engine.bounds.body_bytes_max), engine.models.at_hand(name)
    if body is not None and fresh is None and replica is not None:
        answer = _plain(replica, body)
        if answer is not None:
            return _encode(answer)
    ask, body = await read_row(ctx, request, body, _row)
    if ask.track:
        ctx.keys.allow(lines_of(request.scope), "learn", name)
    if fresh is not None or replica is None:
        replica = await engine.replica(name, fresh)
    return _encode(await predict_asked(ctx, replica, ask, len(body)))


def _plain(replica: Replica, body: bytes) -> Predicted | None:
    """The answer to a plain row; None: it is not plain, or has to wait."""
    row, plan = plain_rows.asked(body), replica.row_plan
    if row is None or plan.is_long or replica.lock.locked() or (values := plan.to_predict(row.features)) is None:
        return None
    return _answer(replica, read.predict(replica.model.own, np.array((values,), np.float64)), None)


async def predict_asked(
    ctx: Context, replica: Replica, ask: PredictRow, size: int, identity: str | None = None
) -> Predicted:
    """Predict one row, and keep or explain it if requested.

    Args:
        ctx: the handler's.
        replica: the model.
        ask: the row; the caller has checked whether its key may track.
        size: bytes of the body.
        identity: the client's own prediction id if the row is tracked; None generates one.
    """
    level = level_of(ask.interval, replica.model.config.task)
    space, raw, prediction, served = await _predicted(ctx, replica, Table([ask.features], alone), size, ask.track)
    answer = _answer(replica, prediction, level)
    if ask.explain:  # before anything is awaited: the model may move on then
        answer.explanation = await _explain(replica.model, ask.features, raw, prediction, size)
    if served is not None:
        kept = validator_of(ctx, replica).row_to_keep(space, raw, ask.features)
        answer.prediction_id = await _track(ctx, replica, *kept, served, answer.version, identity)
        ctx.unlabelled.note(replica, space, raw, served)
    return answer


@router.post(
    "/models/{name}/predict/batch",
    tags=["batches"],
    dependencies=[READ, described(*CSV_QUERIES, interval.QUERY)],
    response_model=PredictedBatch,
    openapi_extra=raw_body(
        PredictColumns,
        PredictRecords,
        PredictSparse,
        shown=examples.PREDICT_BATCH,
        record=PredictRecord,
        lines=examples.PREDICT_LINES,
        csv=examples.PREDICT_CSV,
        npy="features in the order of the model",
        svmlight=True,
    ),
)
async def predict_batch(ctx: Ctx, name: ModelName, request: RowRequest, fresh: Fresh) -> Response:
    """Predict many rows.

    JSON by column or by name, `application/x-ndjson` (one row by name per line), `text/csv` with a header, and
    `application/x-npy`, a file of `numpy.save` (float64, columns in schema order). Models of sparse rows take rows by
    name, `{"rows": [{"names": [...], "values": [...]}]}` and `text/x-svmlight`, whose labels are ignored. `?interval=`
    requests intervals if the body cannot hold `interval`.
    """
    replica, table, body = await read_batch(ctx, request, name, PREDICT, fresh)
    level = level_of(table.interval, replica.model.config.task, request.query_params.get(interval.QUERY))
    while True:  # until the rows are read with the features that the model has when it predicts them
        space, raw = await read_rows(ctx, replica, len(body), methodcaller("prediction", table))
        answer = await predict_many(replica, space, raw, level)
        if answer is not None:
            return await in_thread_if_large(ROW_BYTES * len(raw), large_answer, answer)


async def predict_many(
    replica: Replica, space: Space, raw: Floats, level: float | None = None
) -> PredictedBatch | None:
    """Predict rows that were read.

    Args:
        replica: the model.
        space: the feature space they were read in.
        raw: their values (n, F).
        level: level of the requested intervals.

    Returns:
        The answer with its numbers as arrays; None if the model no longer predicts in this space.

    Raises:
        TooLarge: they would take hours.
    """
    flops = cost.flops_to_predict(replica.model.own, len(raw)) + ROW_FLOPS * len(raw)
    threads.refuse_hours(flops, len(raw))
    return await held(replica, space, flops, partial(_many, replica, raw, level))


async def _predicted(
    ctx: Context, replica: Replica, row: Table, size: int, keep: bool
) -> tuple[Space, Floats, Prediction, ServedPrediction | None]:
    """Read and predict a row in one space, again if the features changed in between; ``keep``: for its label."""
    while True:
        space, raw = await read_rows(ctx, replica, size, methodcaller("prediction", row))
        model = replica.model
        flops = cost.flops_to_keep(model) if keep else cost.flops_to_predict(model.own, len(raw))
        if flops > threads.THREAD_FLOPS or replica.lock.locked():
            found = await held(replica, space, flops, partial(_predict, replica, raw, keep))
        else:
            found = _predict(replica, raw, keep) if model.prediction_schema == space else None
        if found is not None:
            return space, raw, *found


def _predict(replica: Replica, raw: Floats, keep: bool) -> tuple[Prediction, ServedPrediction | None]:
    model = replica.model
    return read.predict_to_keep(model, raw) if keep else (read.predict(model.own, raw), None)


async def held(replica: Replica, space: Space, flops: float, answer: Callable[[], T]) -> T | None:
    """Answer from a consistent state: waits for a thread that learns; does much work in a thread.

    Args:
        replica: the model.
        space: what the rows were read in.
        flops: the cost of the answer.
        answer: predicts the rows, and reads what must be of the same version.

    Returns:
        The answer; None if the model no longer predicts in this space.
    """
    async with replica.held():
        if replica.model.prediction_schema != space:
            return None
        return await in_thread_if_long(flops, answer)


def _answer(replica: Replica, prediction: Prediction, level: float | None) -> Predicted:
    """The answer to a row that was predicted, at the version the model has now; ``level``: of the interval, if any."""
    model = replica.model
    (value,) = read.named(model.own, prediction.value)
    answer = Predicted(prediction=value, version=replica.version, incarnation=replica.incarnation)
    if model.config.task == "classification":
        shares = prediction.probabilities
        keys = model.own.answers.labels.keys
        answer.probabilities = {} if shares is None else dict(zip(keys, shares[0].tolist(), strict=True))
    elif prediction.std is not None:
        answer.std = prediction.std[0].item()
    if level is not None:
        found = read.intervals_of(model.own, prediction, level)
        answer.interval = None if found is None else found[0].tolist()
    return answer


def _many(replica: Replica, raw: Floats, level: float | None) -> PredictedBatch:
    """The answer to a batch, its numbers as arrays."""
    model, version = replica.model, replica.version
    prediction = read.predict(model.own, raw)
    answer = PredictedBatch(
        predictions=read.named(model.own, prediction.value), version=version, incarnation=replica.incarnation
    )
    if model.config.task == "classification":
        answer.classes = list(model.own.answers.labels.labels)
        answer.probabilities = [] if prediction.probabilities is None else cast("Any", prediction.probabilities)
    elif prediction.std is not None:
        answer.std = cast("Any", prediction.std)
    if level is not None:
        found = read.intervals_of(model.own, prediction, level)
        answer.intervals = [None] * len(raw) if found is None else cast("Any", found)
    return answer


async def _track(
    ctx: Context,
    replica: Replica,
    space: Space,
    raw: Floats,
    served: ServedPrediction,
    version: int,
    given: str | None,
) -> str:
    """Keep the row and its prediction until the label arrives; returns the prediction id, ``given`` or generated."""
    bounds = ctx.engine.bounds
    identity = secrets.token_urlsafe(15) if given is None else given
    label_id = "" if given is None else PREDICTION + given
    blob = codec.encode_tracked(space.id, raw, served, version)
    ids_max = bounds.committer.ids_max
    life = (bounds.prediction_ttl_ms, bounds.pending_max, ids_max)
    track = Track(replica.name, replica.incarnation, identity, blob, *life, label_id)
    (outcome,) = await ctx.engine.pending.track_many([track])
    if outcome == "gone":
        raise no_model(replica.name)
    if outcome == "known":
        raise RequestConflict(
            "a prediction with this id is waiting for its label or has it", [Problem("id", "is in use", "another id")]
        )
    if outcome == "full":
        raise PendingFull(f"model {replica.name} has the maximum number of tracked predictions waiting")
    if isinstance(outcome, RememberedIds):
        raise IdsFull(replica.name, ids_max, outcome.count, outcome.wait_ms)
    if outcome is not None:
        raise outcome
    return identity


async def _explain(
    model: Model, values: dict[str, Any], raw: Floats, prediction: Prediction, size: int
) -> dict[str, Any]:
    """Explain a prediction: densities per class, or the contribution of each column to the score.

    A sparse row's contributions are those of its names.

    Raises:
        Invalid: the algorithm supports neither.
    """
    if (found := read.explain(model.own, raw)) is not None:
        return found
    weights = read.weights(model.own)
    if weights is None or model.pipeline is None or model.prediction_schema is None:
        raise Invalid.of("explain", f"is not possible: {no_weights(model)}")
    (label,) = read.named(model.own, prediction.value)
    classes = model.config.task == "classification"
    output = model.labels.index(label) if classes else 0
    if output < 0:  # no row had this label: it has no weights
        return {"bias": 0.0, "contributions": {}}
    explained: dict[str, Any] = {"bias": float(weights.bias[output]), "contributions": {}}
    if (share := read.linear_share(model.own)) is not None:
        explained["share"] = share
    if classes:
        explained["class"] = key(label)
    w = weights.coefficients[output]
    if isinstance(model.prediction_schema, SparseSchema):
        explained["contributions"] = await in_thread_if_large(
            size, model.prediction_schema.projection.contributions, values, w
        )
    else:
        with np.errstate(over="ignore"):
            parts = np.clip(w * read.encoded(model.own, raw)[0], -1e300, 1e300)
        explained["contributions"] = dict(zip(model.own.row_columns, parts.tolist(), strict=True))
    return explained


def no_weights(model: Model) -> str:
    """Why a model has no weights to show."""
    config = model.config
    if config.params.get("random_features"):
        return f"with random_features {config.algorithm_id} is not linear in the columns"
    return f"{config.algorithm_id} is not a linear model"
