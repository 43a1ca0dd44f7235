"""Models: create, list, show, delete, and how well one does."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Body, Depends, Query, Response

from core.config import Config
from core.problems import Invalid
from service.api.context import LIMIT_MAX, NAME, Caller, Ctx, Fresh, ModelName, Paging, iso
from service.api.keys import Key
from service.api.model_schemas import Model, ModelBody, ModelList, ModelMetrics, Summary
from service.api.openapi.examples import MODELS
from service.api.route import ADMIN, READ, Route
from service.errors import ModelDown, NotFound
from service.runtime.engine import Freshness
from service.runtime.replica import Replica

router = APIRouter(route_class=Route)


async def _read_model(ctx: Ctx, name: ModelName, fresh: Fresh) -> Replica:
    return await ctx.engine.replica(name, fresh)


async def _written_model(ctx: Ctx, name: ModelName) -> Replica:
    return await ctx.engine.replica(name)


ReadModel = Annotated[Replica, Depends(_read_model)]
"""The model that is read, as fresh as the query asks for."""
WrittenModel = Annotated[Replica, Depends(_written_model)]
"""The model that is about to be changed."""


@router.put(
    "/models/{name}",
    tags=["one row"],
    dependencies=[ADMIN],
    status_code=201,
    response_description="It did not exist and was created; its configuration is complete",
    responses={200: {"model": Model, "description": "It exists with the same configuration; nothing has changed"}},
)
async def create_model(
    ctx: Ctx, name: ModelName, body: Annotated[ModelBody, Body(openapi_examples=MODELS)], response: Response
) -> Model:
    """Create a model.

    Only `algorithm` is needed, and `task` where the algorithm has several. Features left out are fixed by the first
    feedback row; labels left out appear as they come. The same body again is 200, another one 409.
    """
    replica, new = await ctx.engine.models.create(name, Config.parse(cast("Mapping[str, Any]", body)))
    response.status_code = 201 if new else 200
    return await _model(replica)


@router.get("/models", tags=["models"], dependencies=[READ])
async def list_models(
    ctx: Ctx,
    caller: Caller,
    page: Paging,
    consistency: Annotated[
        Literal["eventual", "strong"], Query(description="`strong` reads the heads of the logs first.")
    ] = "eventual",
) -> ModelList:
    """List models.

    In order of their names, those that the key may touch.
    """
    if page.cursor is not None and NAME.fullmatch(page.cursor) is None:
        raise Invalid.of("cursor", "is not a cursor of this list")
    names, following = await _visible(ctx, caller, *page)
    fresh = Freshness(strong=consistency == "strong")
    models = [found for name in names if (found := await _summary(ctx, name, fresh)) is not None]
    return ModelList(models=models, next=following)


async def _visible(ctx: Ctx, caller: Key | None, limit: int, cursor: str | None) -> tuple[list[str], str | None]:
    """A page of the names that a key may know of; the cursor is one of them, too."""
    if caller is None or not caller.models:
        return await ctx.engine.models.names(limit, cursor)
    found: list[str] = []
    while True:
        names, cursor = await ctx.engine.models.names(LIMIT_MAX, cursor)
        found += [name for name in names if caller.allows(name)]
        if len(found) > limit:
            return found[:limit], found[limit - 1]
        if cursor is None:
            return found, None


async def _summary(ctx: Ctx, name: str, fresh: Freshness) -> Summary | None:
    try:
        replica = await ctx.engine.replica(name, fresh)
        async with replica.held():
            machine, config = replica.machine, replica.machine.config
            return Summary(
                name=name,
                algorithm=config.algorithm_id,
                task=config.task,
                version=replica.version,
                rows=machine.rows,
                score=machine.metrics.headline(),
                phase=machine.phase,
            )
    except NotFound:
        return None
    except ModelDown:
        return Summary(name=name, algorithm="", task="", version=-1, rows=0, score=None, phase="down")


@router.get("/models/{name}", tags=["models"], dependencies=[READ])
async def show_model(replica: ReadModel) -> Model:
    """Show a model.

    `config` is the present configuration, features excepted; `GET /models/{name}/features` shows the features currently
    in use.
    """
    return await _model(replica)


async def _model(replica: Replica) -> Model:
    async with replica.held():
        machine = replica.machine
        return Model(
            name=replica.name,
            incarnation=replica.incarnation,
            config=machine.config.to_json(),
            version=replica.version,
            rows=machine.rows,
            phase=machine.phase,
            metrics=machine.metrics.report(),
            info=machine.info(),
            created=iso(replica.created_ms),
            updated=iso(replica.time_ms),
        )


@router.get("/models/{name}/metrics", tags=["models"], dependencies=[READ])
async def show_metrics(replica: ReadModel) -> ModelMetrics:
    """Prequential metrics.

    Every prediction is made before its row is learned. `no_change` repeats the last label, `majority` says the most
    frequent one (`last_value` for regression). `log_loss` is over the rows whose label had been seen before: the first
    row of a class has no probability to score.
    """
    async with replica.held():
        machine = replica.machine
        own = {"version": replica.version, "incarnation": replica.incarnation}
        return ModelMetrics(**machine.metrics.report(), learner=machine.learner_info(), **own)


@router.delete(
    "/models/{name}",
    tags=["deletion"],
    dependencies=[ADMIN],
    status_code=204,
    response_description="It is gone, with its log, snapshots and ids",
)
async def delete_model(ctx: Ctx, name: ModelName) -> None:
    """Delete a model.

    With its log, its snapshots, its ids and its tracked predictions. Its drift events stay in `GET /drift`.
    """
    await ctx.engine.models.delete(name)
