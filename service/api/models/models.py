"""Models: create, show, change and delete them, and show their metrics."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, Field, WrapValidator
from starlette.responses import Response

from core.config import Config
from core.config.changes import ModelChanges
from core.entry import Configure
from core.model import Model as CoreModel
from core.problems import Checked, optional
from service.api.csv_answers import Format, csv_answer, history_table
from service.api.http.context import Ctx, Fresh, IdempotencyKey, ModelName
from service.api.http.route import ADMIN, READ, Route
from service.api.models import documents
from service.api.models.documents import NOT_MODIFIED, columns_of, conditional, shown, tagged
from service.api.models.metric_schemas import CONFIG, INFO, Metrics, ModelMetrics
from service.api.openapi.examples import CHANGES, MODELS
from service.api.rows.idempotency import after, commit_change, identity_of_change
from service.api.schemas import Incarnation, RowsLearned, Time, Version
from service.errors import ModelLost
from service.runtime.replicas import changes
from service.runtime.replicas.replica import Replica
from service.runtime.threads import FEATURE_BYTES, in_thread_if_large, load_algorithm, size_of_features


def sent_as(model: type[Checked]) -> WrapValidator:
    """The raw body, documented by a model: it is parsed later, in a thread if it is large."""
    return WrapValidator(lambda body, _: body, json_schema_input_type=model)


class ModelBody(Config):
    """A model to create. Only ``task`` is required, unless the algorithm has a single task."""


class RequestBody(BaseModel, extra="forbid", strict=True, json_schema_extra=optional):
    """A body without unknown fields and without conversion between types."""


class Model(BaseModel):
    """A model."""

    name: str = Field(examples=["demo"])
    incarnation: Incarnation
    config: ModelBody = Field(examples=[CONFIG], description="The complete configuration, with every default.")
    version: Version
    rows: RowsLearned
    phase: Literal["steady", "overlap", "ensemble"]
    metrics: Metrics
    info: dict[str, Any] = Field(examples=[INFO], description="The model's own report.")
    created: Time
    updated: Time


router = APIRouter(route_class=Route)


async def _read_model(ctx: Ctx, name: ModelName, fresh: Fresh) -> Replica:
    return await ctx.engine.replica(name, fresh)


async def _written_model(ctx: Ctx, name: ModelName) -> Replica:
    return await ctx.engine.replica(name)


ReadModel = Annotated[Replica, Depends(_read_model)]  # the model that is read, as fresh as the query requires


async def _stored_model(replica: ReadModel) -> Replica:
    if replica.lost:
        raise ModelLost(replica.name)
    return replica


StoredModel = Annotated[Replica, Depends(_stored_model)]  # the model of which the store lists something
WrittenModel = Annotated[Replica, Depends(_written_model)]  # the model that is about to be changed


@router.put(
    "/models/{name}",
    tags=["one row"],
    dependencies=[ADMIN],
    status_code=201,
    response_model=Model,
    response_description="Created; the answer has the complete configuration",
    responses={
        200: {"model": Model, "description": "It already exists with the same configuration; nothing has changed"}
    },
)
async def create_model(
    ctx: Ctx,
    name: ModelName,
    body: Annotated[dict[str, Any], sent_as(ModelBody), Body(openapi_examples=MODELS)],
    request: Request,
) -> Response:
    """Create a model.

    Only `task` is required: the default algorithm is `auto`. Without `features`, the first feedback row determines
    them; without `labels`, new labels are added as they arrive. The same body again is 200, as is the model's present
    configuration, with or without the features of its last switch; any other is 409, and `errors` lists the fields that
    differ and which of them PATCH can change.
    """
    await load_algorithm(body)
    size = max(size_of_features(body.get("features")), len(await request.body()))
    config = await in_thread_if_large(size, Config.parse, body)
    replica, new = await ctx.engine.models.create(name, config)
    return await shown(replica, 201 if new else 200)


@router.get("/models/{name}", tags=["models"], dependencies=[READ], response_model=Model, responses=NOT_MODIFIED)
async def show_model(ctx: Ctx, request: Request, replica: ReadModel) -> Response:
    """Show a model.

    `config` is the present configuration, except the features; `GET /models/{name}/features` shows those currently
    in use.
    """
    return await conditional(request, replica, ctx.engine.state_budget, documents.model)


@router.get(
    "/models/{name}/metrics", tags=["models"], dependencies=[READ], response_model=ModelMetrics, responses=NOT_MODIFIED
)
async def show_metrics(ctx: Ctx, request: Request, replica: ReadModel, form: Format = "json") -> Response:
    """Prequential metrics.

    Every prediction is made before its row is learned. `no_change` repeats the last label, `majority` predicts the most
    frequent one (for regression: `last_value`), each among the labels that were known when the model made its
    prediction, even if the label of a tracked row arrives late. A row that could not be predicted because no label was
    known is `unscored`: neither right nor wrong, for the model and for the baselines. `coverage` is, by level, the
    share of the labels of a regression that lay inside the intervals predicted for them.

    `?format=csv` returns a table of the history.
    """
    budget = ctx.engine.state_budget if form == "json" else None  # the table has only the history, and that is bounded
    answer = await conditional(request, replica, budget, documents.metrics)
    if form == "json" or answer.status_code != 200:
        return answer
    table = await csv_answer(bytes(answer.body), history_table, f"{replica.name}-history")
    return tagged(table, answer.headers["etag"])


@router.delete(
    "/models/{name}",
    tags=["deletion"],
    dependencies=[ADMIN],
    status_code=204,
    response_description="Deleted, with its log, snapshots and ids",
)
async def delete_model(ctx: Ctx, name: ModelName) -> None:
    """Delete a model.

    Its log, snapshots, ids and tracked predictions are deleted too. Its drift events stay in `GET /drift`.
    """
    await ctx.engine.models.delete(name)


@router.patch(
    "/models/{name}",
    tags=["models"],
    dependencies=[ADMIN],
    response_model=Model,
    response_description="The model after the change",
)
async def configure_model(
    ctx: Ctx,
    name: ModelName,
    body: Annotated[dict[str, Any], sent_as(ModelChanges), Body(openapi_examples=CHANGES)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Change settings.

    Replaces the fields in the body; the others stay. null restores a field's default, and turns `watch` off. The change
    is an entry of the log: it applies from the same row on, on every replica, and is a mark in the metrics. A row that
    is in flight is accepted if it is valid before or after the change. If the model already has these values, its
    version stays, unless the request has an Idempotency-Key. Labels and categories can be added; any other change of
    features needs a switch, and algorithm, parameters, task, seed, lags and metrics never change. A reset keeps the
    present configuration; a restore brings back the configuration of its version.
    """
    sent = await request.body()
    identity = identity_of_change(request, key, sent)

    def plan(model: CoreModel, ids: tuple[str, ...]) -> Configure | None:
        return changes.configure(model, ctx.engine.models.admit, body, ids)

    def size_of(model: CoreModel) -> int:
        return max(len(sent), FEATURE_BYTES * columns_of(model))

    _, reply = await commit_change(ctx, name, identity, plan, size_of)
    return await shown(await after(ctx, name, reply))
