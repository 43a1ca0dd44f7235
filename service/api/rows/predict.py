"""POST /models/{name}/predict and /predict/batch: predictions, which change nothing."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from fastapi import APIRouter
from starlette.responses import Response

from core.contract import Floats, Prediction
from core.entry import ServedPrediction
from core.features import Space
from core.model import cost, read
from core.numerics.shapley import EVALUATIONS_MAX
from service.api.http.context import Context, Ctx, Fresh, ModelName
from service.api.http.headers import LINES
from service.api.http.route import READ
from service.api.openapi import examples
from service.api.openapi.document import raw_body
from service.api.rows import interval, tracking
from service.api.rows.batches import let_go, read_batch, read_row
from service.api.rows.formats.csv_tables import CSV_QUERIES
from service.api.rows.formats.json_tables import PREDICT
from service.api.rows.idempotency import read_rows
from service.api.rows.interval import level_of
from service.api.rows.large_answers import answered, large_answer, predicted_bytes, reserve
from service.api.rows.predicted import Explained, Predicted, explained
from service.api.rows.row_route import RowRequest, RowRoute
from service.api.rows.table_queries import described
from service.api.schemas import (
    PredictColumns,
    PredictedBatch,
    PredictRecord,
    PredictRecords,
    PredictRow,
    PredictSparse,
)
from service.errors import Unavailable
from service.runtime import threads
from service.runtime.replicas.replica import Replica
from service.runtime.rows.row_plan import asked
from service.runtime.rows.table import Table, alone, check_size
from service.runtime.threads import in_thread_if_long

router = APIRouter(route_class=RowRoute)
_row = msgspec.json.Decoder(PredictRow)
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")
ROW_FLOPS = 200.0
"""Assumed cost of naming one prediction of a batch, in floating-point operations."""
EXPLAINED_FLOPS = 1e5
"""Assumed cost of one feature of an explanation: some 70 microseconds of Python and of small arrays."""
EXPLAINED_ROWS = 2 * EVALUATIONS_MAX  # most rows that are predicted to explain one
ATTEMPTS_MAX = 10  # how often rows are read: again whenever the features change before they are predicted


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
    arrives; that needs the scope `learn`. With `explain`, the answer has the contribution of each feature to the score,
    compared with a row of mean values, whose score is `base`; `base` plus all contributions is the number, or the log
    odds of the predicted class. Contributions are exact for linear and additive models, else Shapley values from at
    most 64 evaluations (`sampled`). `auto` adds the prediction and weight of each expert, VIGO the log density of each
    class and how ambiguous the row is. Probabilities are calibrated on the rows learned so far. The prediction is
    the most probable label; with `class_costs`, the label of least expected cost. A model of named sparse rows
    (`sparse_dfop`) takes any names; an absent one is 0.
    """
    engine = ctx.engine
    body = await request.small_json(engine.bounds.body_bytes_max)
    if body is not None and fresh is None and (replica := engine.models.at_hand(name)) is not None:
        answer = _plain(replica, body)
        if answer is not None:
            return _encode(answer)
    ask, body = await read_row(ctx, request, body, _row)
    if ask.track:
        ctx.keys.allow(request.scope[LINES], "learn", name)
    replica = await engine.replica(name, fresh)  # after the body: the model may change while it arrives
    return _encode(await predict_asked(ctx, replica, ask, len(body)))


def _plain(replica: Replica, body: bytes) -> Predicted | None:
    """The answer to a plain row; None if it is not plain, or has to wait."""
    row, plan = asked(body), replica.row_plan
    if row is None or plan.is_long or replica.lock.locked() or (values := plan.to_predict(row.features)) is None:
        return None
    return _answer(replica, read.predict(replica.model.own, np.array((values,), np.float64)), None)


async def predict_asked(
    ctx: Context, replica: Replica, ask: PredictRow, size: int, identity: str | None = None
) -> Predicted:
    """Predict one row (``size`` bytes), and keep or explain it if requested; the caller checks that the key may track.

    ``identity`` is the client's own prediction id if the row is tracked; None generates one.
    """
    level = level_of(ask.interval, replica.model.config.task)
    table = Table([ask.features], alone, served=None if ask.served is None else [ask.served])
    outside = tracking.outside_of(ctx, replica, table, bool(ask.track))
    replica, space, raw, prediction, served, explanation = await _predicted(ctx, replica, ask, table, size)
    answer = _answer(replica, prediction, level)
    answer.explanation = explanation
    if served:
        served = tracking.with_outside(served, outside)
        (answer.prediction_id,) = await tracking.keep(
            ctx, replica, (space, raw), table, served, answer.version, identity
        )
    return answer


@router.post(
    "/models/{name}/predict/batch",
    tags=["batches"],
    dependencies=[READ, described(*CSV_QUERIES, "served", interval.QUERY, tracking.QUERY)],
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

    Takes JSON by column or by name, `application/x-ndjson` (one row by name per line), `text/csv` with a header, and
    `application/x-npy`, a file of `numpy.save` (float64, columns in schema order). Models of sparse rows take JSON,
    also as `{"rows": [{"names": [...], "values": [...]}]}`, and `text/x-svmlight`, whose labels are ignored. With
    `track`, all rows are kept until their labels arrive, each under one of `prediction_ids`; if not all can be kept,
    none is. That needs the scope `learn`.
    `?interval=` and `?track=` are for bodies that cannot hold these fields.
    """
    replica, table, body = await read_batch(ctx, request, name, PREDICT, fresh)
    level = level_of(table.interval, replica.model.config.task, request.query_params.get(interval.QUERY))
    track = tracking.is_tracked(table.track, request.query_params.get(tracking.QUERY))
    if track:
        ctx.keys.allow(request.scope[LINES], "learn", name)
        check_size(len(table.rows), tracking.rows_most(ctx, replica.model), of=" that are tracked, for this model")
    outside = tracking.outside_of(ctx, replica, table, track)
    while True:  # until the rows are read with the features that the model has when it predicts them
        space, raw = await read_rows(ctx, replica, len(body), methodcaller("prediction", table))
        reserve(ctx, request, len(raw), predicted_bytes(replica.model, track + 2 * (level is not None)))
        if not track:
            let_go(ctx, request, table, raw)
        found = await predict_many(replica, space, raw, level, keep=track)
        if found is None:
            replica, table, body = await read_batch(ctx, request, name, PREDICT, fresh, body)
            continue
        answer, served = found
        if track:
            served = tracking.with_outside(served, outside)
            answer.prediction_ids = await tracking.keep(ctx, replica, (space, raw), table, served, answer.version)
        return await answered(ctx, request, len(raw), large_answer, answer)


async def predict_many(
    replica: Replica, space: Space, raw: Floats, level: float | None = None, *, keep: bool = False
) -> tuple[PredictedBatch, list[ServedPrediction]] | None:
    """Predict rows (n, F) that were read in a space, with intervals of a ``level``; ``keep`` them for their labels.

    Returns the answer with its numbers as arrays, and the predictions to keep, if any; None if the model no longer
    predicts in this space. ``TooLarge`` if they would take hours.
    """
    model, n = replica.model, len(raw)
    flops = ROW_FLOPS * n + (n * cost.flops_to_keep(model) if keep else cost.flops_to_predict(model.own, n))
    threads.refuse_hours(flops, n)
    return await held(replica, space, flops, partial(_many, replica, raw, level, keep))


async def _predicted(
    ctx: Context, replica: Replica, ask: PredictRow, table: Table, size: int
) -> tuple[Replica, Space, Floats, Prediction, list[ServedPrediction], Explained | None]:
    """Read, predict and explain a row in one space; starts again if the features changed in between.

    Also returns the replica that did so.
    """
    replicas = attempts(ctx, replica)
    while True:
        replica = next(replicas)
        space, raw = await read_rows(ctx, replica, size, methodcaller("prediction", table))
        model = replica.model
        flops = cost.flops_to_keep(model) if ask.track else cost.flops_to_predict(model.own, len(raw))
        if ask.explain:
            flops = EXPLAINED_ROWS * flops + EXPLAINED_FLOPS * raw.shape[1]
        work = partial(_one, replica, raw, ask)
        if flops > threads.THREAD_FLOPS or replica.lock.locked():
            found = await held(replica, space, flops, work)
        else:
            found = work() if model.prediction_schema == space else None
        if found is not None:
            return replica, space, raw, *found


def attempts(ctx: Context, replica: Replica) -> Iterator[Replica]:
    """The replica for each attempt to read rows and to predict them in one space.

    It is another one if the model has left memory and was loaded again. Raises as ``ModelCache.current``, and
    ``Unavailable`` after ``ATTEMPTS_MAX``.
    """
    for _ in range(ATTEMPTS_MAX):
        yield ctx.engine.models.current(replica)
    raise Unavailable(f"the features of model {replica.name} keep changing: send the request again")


def _one(replica: Replica, raw: Floats, ask: PredictRow) -> tuple[Prediction, list[ServedPrediction], Explained | None]:
    prediction, served = _predict(replica, raw, bool(ask.track))
    return prediction, served, explained(replica.model, raw, ask.features) if ask.explain else None


def _predict(replica: Replica, raw: Floats, keep: bool) -> tuple[Prediction, list[ServedPrediction]]:
    model = replica.model
    return read.predict_to_keep(model, raw) if keep else (read.predict(model.own, raw), [])


async def held(replica: Replica, space: Space, flops: float, answer: Callable[[], T]) -> T | None:
    """Answer from a consistent state: wait while a thread learns, and do long work in a thread.

    ``answer`` predicts rows that were read in ``space``, and reads everything else that must be of the same version.
    None if the model no longer predicts in this space.
    """
    async with replica.held():
        if replica.model.prediction_schema != space:
            return None
        return await in_thread_if_long(flops, answer)


def _answer(replica: Replica, prediction: Prediction, level: float | None) -> Predicted:
    """The answer to a row that was predicted, at the version the model has now; ``level``: of the interval, if any."""
    model = replica.model
    (value,) = model.own.answers.named(prediction.value)
    answer = Predicted(prediction=value, version=replica.version, incarnation=replica.incarnation)
    if model.config.task == "classification":
        labels, shares = read.probabilities(model.own, prediction)
        answer.probabilities = {} if shares is None else dict(zip(labels.keys, shares[0].tolist(), strict=True))
    elif prediction.std is not None:
        answer.std = prediction.std[0].item()
    if level is not None:
        found = read.intervals_of(model.own, prediction, level)
        answer.interval = None if found is None else found[0].tolist()
    return answer


def _many(
    replica: Replica, raw: Floats, level: float | None, keep: bool
) -> tuple[PredictedBatch, list[ServedPrediction]]:
    """The answer to a batch, its numbers as arrays; and the predictions to keep, if any."""
    model, version = replica.model, replica.version
    prediction, served = _predict(replica, raw, keep)
    answer = PredictedBatch(
        predictions=model.own.answers.named(prediction.value), version=version, incarnation=replica.incarnation
    )
    if model.config.task == "classification":
        labels, shares = read.probabilities(model.own, prediction)
        answer.classes, answer.probabilities = list(labels.labels), [] if shares is None else cast("Any", shares)
    elif prediction.std is not None:
        answer.std = cast("Any", prediction.std)
    if level is not None:
        found = read.intervals_of(model.own, prediction, level)
        answer.intervals = [None] * len(raw) if found is None else cast("Any", found)
    return answer, served
