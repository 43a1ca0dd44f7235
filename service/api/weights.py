"""GET /models/{name}/weights: the linear model in use, read off, or recovered where rows are projected."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from core.contract import Weights
from core.features import Schema, SparseSchema, check_names
from core.features.labels import key
from core.learners.dfop.sparse import Recovered, names_bound, recover_all, sparsity_bound
from core.machine import Machine
from core.problems import Invalid, Problem
from service.api import bodies
from service.api.context import Context, freshness, whole
from service.api.schemas import WeightsAnswer
from service.errors import Busy, RequestConflict
from service.runtime.replica import Replica

_encode = msgspec.json.Encoder().encode


async def weights(ctx: Context, request: Request) -> Response:
    """The linear model; ``names`` picks columns, ``sparsity`` the largest of each output."""
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    schema = replica.machine.prediction_schema
    if schema is None:
        found = WeightsAnswer({}, {}, replica.version, replica.incarnation)
    elif isinstance(schema, SparseSchema):
        found = await _recovered(ctx, request, replica, schema)
    else:
        async with replica.held():
            found = _read_off(request, replica)
    return Response(_encode(found), media_type=bodies.JSON)


def _linear(machine: Machine) -> Weights:
    found = machine.weights()
    if found is None:
        raise RequestConflict(f"there are no weights: {no_weights(machine)}")
    return found


def no_weights(machine: Machine) -> str:
    """Why a model has no weights to show."""
    if machine.ensemble is not None:
        return "after the change of features several experts speak together, and not all of them are linear"
    return f"{machine.config.algorithm_id} is not a linear model"


def _outputs(machine: Machine) -> list[str]:
    return ["value"] if machine.config.task == "regression" else [key(label) for label in machine.labels.labels]


def _read_off(request: Request, replica: Replica) -> WeightsAnswer:
    """Weights of the encoded columns of the space in force."""
    schema = replica.machine.prediction_schema
    assert isinstance(schema, Schema)
    found = _linear(replica.machine)
    columns = _columns(request.query_params.get("names"), schema.columns)
    most = len(columns)
    keep = whole(request.query_params.get("sparsity"), "sparsity", most, 1, most)
    outputs = _outputs(replica.machine)
    named = {
        output: _largest(schema.columns, row, columns, keep)
        for output, row in zip(outputs, found.coefficients, strict=True)
    }
    bias = dict(zip(outputs, found.bias.tolist(), strict=True))
    return WeightsAnswer(named, bias, replica.version, replica.incarnation)


def _columns(names: str | None, known: tuple[str, ...]) -> list[int]:
    if names is None:
        return list(range(len(known)))
    place = {name: at for at, name in enumerate(known)}
    asked = names.split(",")
    strange = [at for at, name in enumerate(asked) if name not in place]
    if strange:
        raise Invalid(*(Problem(f"names[{at}]", "is not a column", list(known[:100])) for at in strange[:20]))
    return [place[name] for name in asked]


def _largest(columns: tuple[str, ...], row: Any, wanted: list[int], keep: int) -> dict[str, float]:
    if keep < len(wanted):
        order = np.argsort(-np.abs(row[wanted]), kind="stable")[:keep]
        wanted = [wanted[at] for at in sorted(order)]
    return {columns[at]: float(row[at]) for at in wanted}


# ------------------------------------------------------------------------------------------------ named sparse rows


async def _recovered(ctx: Context, request: Request, replica: Replica, schema: SparseSchema) -> WeightsAnswer:
    """Weights of the names asked for, recovered from those of the projection: seconds of work, in a thread."""
    names = _names(request.query_params.get("names"), schema)
    bound = sparsity_bound(schema.width, len(names))
    usual = min(bound, replica.machine.config.params["sparsity"])
    sparsity = whole(request.query_params.get("sparsity"), "sparsity", usual, 1)
    async with replica.held():
        linear, version, outputs = _linear(replica.machine), replica.version, _outputs(replica.machine)
    async with _turn(ctx):
        found = await asyncio.to_thread(_recover, schema, names, linear, sparsity)
    named = {
        output: {name: weight for name, weight in zip(names, one.weights.tolist(), strict=True) if weight}
        for output, one in zip(outputs, found, strict=True)
    }
    residual = {output: one.residual for output, one in zip(outputs, found, strict=True)}
    bias = dict(zip(outputs, linear.bias.tolist(), strict=True))
    return WeightsAnswer(named, bias, version, replica.incarnation, residual)


def _recover(schema: SparseSchema, names: Sequence[str], linear: Weights, sparsity: int) -> list[Recovered]:
    return recover_all(schema.projection.columns(names), linear.coefficients, sparsity)


def _names(given: str | None, schema: SparseSchema) -> list[str]:
    if given is None:
        problem = "is required: no list is kept of the names that rows have held"
        raise Invalid.of("names", problem, "the names to recover over, separated by commas")
    names = given.split(",")
    most = names_bound(schema.width)
    if len(names) > most:
        raise Invalid.of("names", "are too many", f"<= {most} names for compressed_dim {schema.width}")
    check_names(names, "names")
    return names


@asynccontextmanager
async def _turn(ctx: Context) -> AsyncIterator[None]:
    """One RECOVER at a time: the threads are there for learning.

    Raises:
        Busy: others took longer than a request may wait.
    """
    try:
        await asyncio.wait_for(ctx.recovering.acquire(), ctx.engine.bounds.wait_timeout_s)
    except TimeoutError:
        raise Busy("weights of other models are being recovered") from None
    try:
        yield
    finally:
        ctx.recovering.release()
