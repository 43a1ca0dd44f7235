"""GET /models/{name}/effects: how much each feature matters, over a sample of the rows learned."""

import asyncio
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from core.features import SparseSchema
from core.features.row_sample import SAMPLE_ROWS_MAX
from core.model import cost, explain, read, save
from core.numerics.shapley import EVALUATIONS_MAX
from service.api.http.context import Ctx
from service.api.http.route import READ, Route
from service.api.models.documents import NOT_MODIFIED, counted, encode, not_modified, stamp, tag_of
from service.api.models.models import ReadModel
from service.api.schemas import Incarnation, Version
from service.errors import RequestConflict, no_features
from service.runtime import threads
from service.runtime.replicas.replica import Replica

router = APIRouter(route_class=Route, tags=["models"])


class Effect(BaseModel):
    """How much one feature matters."""

    name: Annotated[str, Field(examples=["load"])]
    mean_abs: Annotated[
        float, Field(ge=0, examples=[0.82], description="The mean absolute contribution to the score of the answer.")
    ]


class EffectsAnswer(BaseModel):
    """The features, the most important first."""

    features: list[Effect]
    rows: Annotated[int, Field(ge=0, le=SAMPLE_ROWS_MAX, examples=[256], description="Rows of the sample.")]
    curves: Annotated[dict[str, Any] | None, Field(description="`ga2m`: as in the posterior.")] = None
    version: Version
    incarnation: Incarnation


@router.get("/models/{name}/effects", dependencies=[READ], response_model=EffectsAnswer, responses=NOT_MODIFIED)
async def show_effects(ctx: Ctx, request: Request, replica: ReadModel) -> Response:
    """How much each feature matters: its mean absolute contribution over a sample of the rows learned.

    Contributions are those of `explain` in predict: to the number, or to the log odds of the predicted class. The
    sample has at most 256 rows of the present features, drawn evenly from all that were learned; fewer for more than
    64 columns. `ga2m` also has `curves`: what it adds to the score for each value of a feature or of a pair.

    409 before the features are known, for models of named sparse rows, and for those that are too wide.
    """
    async with replica.held():
        if (same := not_modified(request, replica)) is not None:
            return same
        _refuse_without_effects(replica)
    busy = "the effects of other models are being computed"
    async with threads.turn(ctx.explaining, ctx.engine.bounds.wait_timeout_s, busy):
        with ExitStack() as stack:
            async with replica.held():
                _refuse_without_effects(replica)  # it may have been reset
                model, tag, shown = replica.model, tag_of(replica), stamp(replica)
                stack.enter_context(ctx.engine.state_budget.held(2 * model.nbytes))
                state = await threads.in_thread_if_large(model.nbytes, save.to_bytes, model)
            # from a copy: the model continues to learn
            document = await asyncio.to_thread(_document, state, shown)
        return counted(document, tag, ctx.engine.state_budget)  # when the copy is no longer held


def _refuse_without_effects(replica: Replica) -> None:
    model = replica.model
    if model.config.algorithm.observes:
        raise RequestConflict("an observer predicts nothing: there are no effects")
    if model.prediction_schema is None:
        raise no_features(replica.name)
    if isinstance(model.prediction_schema, SparseSchema):
        raise RequestConflict("there are no effects: rows are compressed, and names are not kept")
    sample = model.own.space_model.sample
    rows = 0 if sample is None else sample.room
    flops = cost.flops_to_predict(model.own, rows * EVALUATIONS_MAX)
    if flops > threads.WORK_FLOPS_MAX:
        raise RequestConflict(
            f"there are no effects of a model of this width: those of {rows} rows take {flops:.2g} floating-point "
            f"operations; the limit is {threads.WORK_FLOPS_MAX:.2g}"
        )


def _document(state: bytes, shown: dict[str, Any]) -> bytes:
    model, _ = save.from_bytes(state)
    found, rows = explain.effects(model.own)
    ordered = sorted(found.items(), key=lambda one: -one[1])
    document: dict[str, Any] = {"features": [{"name": name, "mean_abs": mean} for name, mean in ordered], "rows": rows}
    if model.config.algorithm_id == "ga2m":
        held = read.posterior(model)
        if "curves" in held:
            document["curves"] = held["curves"]
    return encode({**document, **shown})
