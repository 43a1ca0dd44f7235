"""POST /models/{name}/predict and /predict/batch: answers, and nothing changes."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from core.contract import Floats, Prediction
from core.features import Space, SparseSchema
from core.features.labels import key
from core.machine import Machine
from core.problems import Conflict, Invalid
from service.api import bodies, tables
from service.api.context import Context, freshness
from service.api.schemas import PredictColumns, Predicted, PredictedBatch, PredictRow, PredictSparse
from service.api.weights import no_weights
from service.errors import PendingFull, no_model
from service.runtime.engine import Bounds
from service.runtime.replica import THREAD_FLOPS, Replica
from service.runtime.row_validation import RowValidator
from service.store import codec
from service.store.pending import Track

_rows = msgspec.json.Decoder(PredictRow)
_columns = msgspec.json.Decoder(PredictColumns)
_sparse_rows = msgspec.json.Decoder(PredictSparse)
_encode = msgspec.json.Encoder().encode


async def predict_row(ctx: Context, request: Request) -> Response:
    """One row."""
    engine = ctx.engine
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    ask = bodies.decode(body, _rows)
    bodies.refuse_repeated(body, len(ask.features) + 1 + ask.track + ask.explain)
    if ask.track:
        ctx.keys.allow(request.headers, "learn", request.path_params["name"])
    replica = await engine.replica(request.path_params["name"], freshness(request))
    size = len(body)

    async def row(validator: RowValidator) -> Floats:
        return await tables.in_thread_if_large(
            size if validator.sparse else 0, validator.space().row, ask.features, validator.missing_allowed
        )

    space, raw, prediction = await _answered(ctx, replica, row)
    answer = _one(replica, prediction)
    if ask.explain:  # at once: the model may move on while anything is waited for
        answer.explanation = await _explain(replica.machine, ask.features, raw, prediction, size)
    if ask.track:
        space, raw = RowValidator(engine.models, replica).row_to_keep(space, raw, ask.features)
        answer.prediction_id = await _track(ctx, replica, space, raw, prediction, answer.version)
    return Response(_encode(answer), media_type=bodies.JSON)


async def predict_batch(ctx: Context, request: Request) -> Response:
    """Many rows: JSON by column, CSV, or .npy; sparse ones: JSON or SVMlight."""
    engine = ctx.engine
    kind = bodies.table_type(request)
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    replica = await engine.replica(request.path_params["name"], freshness(request))
    bodies.check_media_type(kind, replica.machine.config.algorithm.sparse)

    async def rows(validator: RowValidator) -> Floats:
        return await tables.in_thread_if_large(
            len(body) if validator.sparse else 0, _table, kind, body, validator, engine.bounds
        )

    _, _, prediction = await _answered(ctx, replica, rows)
    return Response(_encode(_many(replica, prediction)), media_type=bodies.JSON)


def _table(kind: str, body: bytes, validator: RowValidator, bounds: Bounds) -> Floats:
    if validator.sparse:
        return _sparse_table(kind, body, validator.sparse_schema(), bounds)
    raw = _dense_table(kind, body, validator)
    tables.check_size(len(raw), bounds.batch_rows_max)
    return raw


def _sparse_table(kind: str, body: bytes, schema: SparseSchema, bounds: Bounds) -> Floats:
    rows: Sequence[Any]
    if kind == bodies.SVMLIGHT:
        rows = tables.svmlight(body)
    else:
        rows = bodies.decode(body, _sparse_rows).rows
        bodies.refuse_repeated(body, 1 + 2 * len(rows))
    tables.check_sparse_size(len(rows), schema, bounds.batch_rows_max, bounds.body_bytes_max)
    return tables.sparse(schema, kind, rows)


def _dense_table(kind: str, body: bytes, validator: RowValidator) -> Floats:
    schema = validator.known_schema()
    if kind == bodies.CSV:
        header, rows = tables.csv_rows(body)
        return schema.text_cells(header, rows, validator.missing_allowed)
    if kind == bodies.NPY:
        return validator.prediction_matrix(tables.npy(body))
    ask = bodies.decode(body, _columns)
    bodies.refuse_repeated(body, 2)
    return schema.block(ask.columns, ask.data, validator.missing_allowed)


async def _answered(
    ctx: Context, replica: Replica, read: Callable[[RowValidator], Awaitable[Floats]]
) -> tuple[Space, Floats, Prediction]:
    """Rows that are read and predicted in one and the same space: it, the rows, and what is said of them.

    They are read again where the features have changed between the two, and where the replica stood behind the log.
    """
    asked = False
    while True:
        space = replica.machine.prediction_schema
        try:
            raw = await read(RowValidator(ctx.engine.models, replica))
        except (Invalid, Conflict):
            if asked or not await ctx.engine.caught_up(replica):
                raise
            asked = True
            continue
        assert space is not None
        prediction = await _predict(replica, space, raw)
        if prediction is not None:
            return space, raw, prediction


async def _predict(replica: Replica, space: Space, raw: Floats) -> Prediction | None:
    """Predict from a consistent state: while a thread learns, wait for it; much work goes to a thread.

    None where the model has other features by then.
    """
    if replica.flops(len(raw)) > THREAD_FLOPS:
        async with replica.held():
            return await asyncio.to_thread(replica.machine.predict, raw) if _still(replica, space) else None
    if replica.lock.locked():
        async with replica.held():
            return replica.machine.predict(raw) if _still(replica, space) else None
    return replica.machine.predict(raw) if _still(replica, space) else None


def _still(replica: Replica, space: Space) -> bool:
    now = replica.machine.prediction_schema
    return now is not None and now.id == space.id


def _one(replica: Replica, prediction: Prediction) -> Predicted:
    machine = replica.machine
    value = machine.named(prediction.value)[0]
    answer = Predicted(prediction=value, version=replica.version, incarnation=replica.incarnation)
    if machine.config.task == "classification":
        shares = prediction.probabilities
        answer.probabilities = {} if shares is None else dict(zip(machine.labels.keys, shares[0].tolist(), strict=True))
    elif prediction.std is not None:
        answer.std = float(prediction.std[0])
    return answer


def _many(replica: Replica, prediction: Prediction) -> PredictedBatch:
    machine = replica.machine
    answer = PredictedBatch(
        predictions=machine.named(prediction.value), version=replica.version, incarnation=replica.incarnation
    )
    if machine.config.task == "classification":
        answer.classes = list(machine.labels.labels)
        shares = prediction.probabilities
        answer.probabilities = [] if shares is None else shares.tolist()
    elif prediction.std is not None:
        answer.std = prediction.std.tolist()
    return answer


async def _track(
    ctx: Context, replica: Replica, space: Space, raw: Floats, prediction: Prediction, version: int
) -> str:
    """Keep the row and what was told until its label comes."""
    bounds, machine = ctx.engine.bounds, replica.machine
    identity = secrets.token_urlsafe(15)
    blob = codec.encode_tracked(space.id, raw, machine.served(prediction, 0), version)
    track = Track(replica.name, replica.incarnation, identity, blob, bounds.prediction_ttl_ms, bounds.pending_max)
    (outcome,) = await ctx.engine.pending.track_many([track])
    if outcome == "gone":
        raise no_model(replica.name)
    if outcome == "full":
        raise PendingFull(f"model {replica.name} has as many tracked predictions waiting as it may")
    if isinstance(outcome, Exception):
        raise outcome
    return identity


async def _explain(
    machine: Machine, values: dict[str, Any], raw: Floats, prediction: Prediction, size: int
) -> dict[str, Any]:
    """What stands behind a prediction: densities per class, or what each column contributed to the score.

    A sparse row's contributions are those of its names.

    Raises:
        Invalid: the algorithm has neither.
    """
    if (found := machine.explain(raw)) is not None:
        return found
    weights = machine.weights()
    if weights is None or machine.pipeline is None or machine.prediction_schema is None:
        raise Invalid.of("explain", f"is not possible: {no_weights(machine)}")
    output = 0 if machine.config.task == "regression" else int(prediction.value[0])
    if output < 0:
        return {"bias": 0.0, "contributions": {}}
    explained: dict[str, Any] = {"bias": float(weights.bias[output]), "contributions": {}}
    if machine.config.task == "classification":
        explained["class"] = key(machine.labels.labels[output])
    w = weights.coefficients[output]
    if isinstance(machine.prediction_schema, SparseSchema):
        explained["contributions"] = await tables.in_thread_if_large(
            size, machine.prediction_schema.contributions, values, w
        )
    else:
        with np.errstate(over="ignore"):
            parts = np.clip(w * machine.pipeline.encoder.encode(raw)[0], -1e300, 1e300)
        explained["contributions"] = dict(zip(machine.prediction_schema.columns, parts.tolist(), strict=True))
    return explained
