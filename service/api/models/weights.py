"""GET /models/{name}/weights: the weights of a linear model, read directly, or recovered if rows are projected."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from core.contract import Floats, Header, Weights
from core.features import SparseSchema
from core.features.labels import key
from core.features.sparse_schema import check_names
from core.learners.dfop.sparse import names_bound, recover_all, sparsity_bound
from core.model import Model, read
from core.problems import Invalid, Problem
from service.api.http.context import Context, Ctx, Text, within
from service.api.http.route import READ, Route
from service.api.models.documents import NOT_MODIFIED, chosen, counted, encode, not_modified, stamp, tag_of
from service.api.models.models import ReadModel
from service.api.rows.formats.csv_tables import names_in
from service.api.schemas import Incarnation, Version
from service.errors import RequestConflict, TooLarge
from service.runtime.replicas.replica import Replica
from service.runtime.threads import in_thread_if_large, turn

router = APIRouter(route_class=Route, tags=["models"])
NUMBERS_MAX = 1_000_000  # most numbers in an answer


class WeightsAnswer(BaseModel):
    """Prediction = bias + sum of weight x feature: one set per class; for a regression one set, named `value`."""

    weights: dict[str, dict[str, float]] = Field(
        examples=[{"UP": {"load": 0.4, "price": -1.2}, "DOWN": {"load": -0.4, "price": 1.2}}]
    )
    bias: dict[str, float] = Field(examples=[{"UP": 0.1, "DOWN": -0.1}])
    version: Version
    incarnation: Incarnation
    std: dict[str, dict[str, float]] | None = Field(
        None, description="dfop, gdfop and rls: the standard deviations of the weights, as far as the model knows them."
    )
    residual: dict[str, float] | None = Field(
        None,
        description="Models of sparse rows: the share of the weights, 0 to 1, that the weights shown do not explain.",
    )
    share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="After a change of features: the total weight of the experts averaged here. Experts whose old "
        "features are recovered by a kernel are not linear in the present features, and are left out.",
    )


@router.get("/models/{name}/weights", dependencies=[READ], response_model=WeightsAnswer, responses=NOT_MODIFIED)
async def show_weights(
    ctx: Ctx,
    request: Request,
    replica: ReadModel,
    names: Annotated[
        Text | None,
        Query(description="Columns, or names of sparse rows, separated by commas (quote names that contain one)."),
    ] = None,
    sparsity: Annotated[
        int | None, within(1), Query(description="Only the largest weights, this many per output.")
    ] = None,
) -> Response:
    """Weights of a linear model; 409 if it is not linear in its columns, as with random features.

    `names` picks columns, `sparsity` the largest weights per output; `std` has their standard deviations (`dfop`,
    `gdfop`, `rls`). After a change of features, they are the experts' weights over the present columns, averaged by the
    experts' shares in the predictions; `share` is the total share of the experts that are linear. For a model of named
    sparse rows, the weights over the given `names` (required; a URL holds 64 KB) are recovered from those of the
    projection; `residual` is the share of the model that they leave unexplained. 422 if they cannot be recovered; 413
    if the answer has more than a million numbers.
    """
    async with replica.held():
        model, same, tag = replica.model, not_modified(request, replica), tag_of(replica)
        schema, document = model.prediction_schema, b""
        if schema is None:
            document = encode({"weights": {}, "bias": {}, **stamp(replica)})
        elif not isinstance(schema, SparseSchema):
            asked = await in_thread_if_large(model.nbytes, _asked, model, names, sparsity)
            if same is None:
                document = await in_thread_if_large(model.nbytes, _read_off, replica, *asked)
    if isinstance(schema, SparseSchema):  # the space of a sparse model never changes
        wanted = _names(names, schema)
        if same is None:
            document, tag = await _recovered(ctx, replica, schema, wanted, sparsity)
    return same or counted(document, tag, ctx.engine.state_budget)


def _linear(model: Model) -> Weights:
    found, own = read.weights(model.own), model.config.algorithm_id
    if found is None and model.config.params.get("random_features"):
        raise RequestConflict(f"there are no weights: with random_features {own} is not linear in the columns")
    if found is None:
        raise RequestConflict(f"there are no weights: {own} is not a linear model")
    return found


def _outputs(model: Model) -> list[str]:
    return ["value"] if model.config.task == "regression" else [key(label) for label in model.labels.labels]


def _asked(model: Model, names: str | None, sparsity: int | None) -> tuple[Weights, list[int], int]:
    """The weights of a model, the positions of the columns to show, and how many of them per output."""
    found, known = _linear(model), model.own.row_columns
    place = {name: at for at, name in enumerate(known)}
    columns = [place[name] for name in (known if names is None else chosen("names", names, place, "column"))]
    most = len(columns)
    keep = most if sparsity is None else sparsity
    if keep > most:
        raise Invalid.of("sparsity", "is not a whole number in range", f">= 1 and <= {most}")
    return found, columns, keep


def _read_off(replica: Replica, found: Weights, columns: list[int], keep: int) -> bytes:
    """Weights of the encoded columns of the features in use, and of the lag columns."""
    model, outputs = replica.model, _outputs(replica.model)
    known, std, share = model.own.row_columns, read.weight_deviations(model.own), read.linear_share(model.own)
    _refuse_many(len(outputs) * (keep * (1 if std is None else 2) + 1))
    kept = {output: _largest(row, columns, keep) for output, row in zip(outputs, found.coefficients, strict=True)}

    def named(rows: Floats) -> dict[str, dict[str, float]]:
        return {
            output: {known[at]: value for at, value in zip(own, row[own].tolist(), strict=True)}
            for (output, own), row in zip(kept.items(), rows, strict=True)
        }

    bias = dict(zip(outputs, found.bias.tolist(), strict=True))
    answer = {"weights": named(found.coefficients), "bias": bias, **stamp(replica)}
    if std is not None:
        answer["std"] = named(std)
    if share is not None:
        answer["share"] = share
    return encode(answer)


def _largest(row: Floats, wanted: list[int], keep: int) -> list[int]:
    """The positions of the ``keep`` largest of the wanted weights, in their order."""
    if keep == len(wanted):
        return wanted
    order = np.argsort(-np.abs(row[wanted]), kind="stable")[:keep]
    return [wanted[at] for at in sorted(order)]


def _refuse_many(numbers: int) -> None:
    """``TooLarge`` for an answer with too many numbers."""
    if numbers > NUMBERS_MAX:
        detail = f"the weights have {numbers} numbers; the limit of an answer is {NUMBERS_MAX}"
        fewer = [("names", "only the weights of these"), ("sparsity", "only this many weights per output")]
        raise TooLarge(detail, [Problem(name, "would make it smaller", remedy) for name, remedy in fewer])


# ------------------------------------------------------------------------------------------------ named sparse rows


async def _recovered(
    ctx: Context, replica: Replica, schema: SparseSchema, names: Sequence[str], sparsity: int | None
) -> tuple[bytes, str]:
    """Weights of the requested names, recovered from those of the projection: seconds of work, in a thread.

    The tag names their version. ``Busy`` if earlier recoveries took longer than a request may wait.
    """
    if sparsity is None:
        sparsity = min(sparsity_bound(schema.width, len(names)), replica.model.config.params["sparsity"])
    async with replica.held():
        linear, outputs, tag, shown = _linear(replica.model), _outputs(replica.model), tag_of(replica), stamp(replica)
    busy = "the weights of another model are being recovered"
    async with turn(ctx.recovering, ctx.engine.bounds.wait_timeout_s, busy):
        return await asyncio.to_thread(_recover, schema, names, linear, outputs, sparsity, shown), tag


def _recover(
    schema: SparseSchema, names: Sequence[str], linear: Weights, outputs: list[str], sparsity: int, shown: Header
) -> bytes:
    """The document with the weights of names; ``shown`` is the version and incarnation of the model."""
    found = recover_all(schema.projection.columns(names), linear.coefficients, sparsity)
    _refuse_many(sum(int(np.count_nonzero(one.weights)) + 2 for one in found))
    weights = {
        output: {name: weight for name, weight in zip(names, one.weights.tolist(), strict=True) if weight}
        for output, one in zip(outputs, found, strict=True)
    }
    bias = dict(zip(outputs, linear.bias.tolist(), strict=True))
    residual = {output: one.residual for output, one in zip(outputs, found, strict=True)}
    return encode({"weights": weights, "bias": bias, **shown, "residual": residual})


def _names(given: str | None, schema: SparseSchema) -> list[str]:
    if given is None:
        problem = "is required: the model does not keep the names that its rows had"
        raise Invalid.of("names", problem, "the names to recover over, separated by commas")
    names = names_in("names", given)
    most = names_bound(schema.width)
    if len(names) > most:
        raise Invalid.of("names", "are too many", f"<= {most} names for compressed_dim {schema.width}")
    check_names(names, "names")
    return names
