"""The catalogue, whether the service is alive and ready, what it is, and the counters for Prometheus."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from core.learners.catalogue import ALGORITHMS
from core.model import STATE_VERSION
from service.api.http.context import Caller, Ctx
from service.api.http.route import READ, Route
from service.api.schemas import DurabilityShown

router = APIRouter(route_class=Route, tags=["service"])
PROMETHEUS = (
    "# TYPE onepass_requests_total counter\n"
    'onepass_requests_total{method="POST",route="/models/{name}/feedback",status="200"} 18.0\n'
)


class AlgorithmEntry(BaseModel):
    """An algorithm of the catalogue."""

    id: str = Field(examples=["rls"])
    tasks: list[str] = Field(examples=[["regression", "classification"]])
    summary: str = Field(examples=["recursive least squares: never forgets"])
    use_when: str = Field(description="For which streams to take it, measured.", examples=["Nothing drifts."])
    paper: str = Field(examples=["Haykin, Adaptive Filter Theory, chapter 10"])
    equation: str = Field(examples=["min Σᵢ (yᵢ − wᵀxᵢ)² + |w|² / p₀ over w, exactly, row by row"])
    params: dict[str, Any] = Field(
        description="The JSON Schema of its `params`.", examples=[{"type": "object", "properties": {}}]
    )


class AlgorithmList(BaseModel):
    """The catalogue."""

    algorithms: list[AlgorithmEntry]


class Alive(BaseModel):
    """The process answers."""

    alive: bool = Field(examples=[True])


class Ready(BaseModel):
    """Whether the service takes traffic."""

    ready: bool = Field(examples=[True])
    store: str = Field(examples=["up"])
    durability: DurabilityShown
    lag: int = Field(ge=0, examples=[0], description="Entries that the replica furthest behind has yet to apply.")
    checks: dict[str, bool | None] = Field(examples=[{"store": True, "tasks": True}])


class VersionInfo(BaseModel):
    """What runs here."""

    version: str = Field(examples=["0.1.0"], description="Of Onepass.")
    state_format: int = Field(
        examples=[4], description="Of the states that it writes. States and logs of a higher one are refused."
    )
    commit: str | None = Field(
        examples=["9fceb02d0ae598e95dc970b74767f19372d61af8"],
        description="What it was built from: `ONEPASS_COMMIT`, else the commit of the checkout; null: not known.",
    )


@router.get("/algorithms", dependencies=[READ])
async def list_algorithms() -> AlgorithmList:
    """The catalogue of algorithms.

    With the tasks, when to use it, the paper, the equation and the parameters of each.
    """
    return AlgorithmList(algorithms=[AlgorithmEntry(**own.describe()) for own in ALGORITHMS.values()])


class KeyShown(BaseModel):
    """What a key allows."""

    name: str | None = Field(examples=["ops"], description="As configured; null: no keys are configured.")
    scope: Literal["read", "learn", "admin"] = Field(examples=["admin"], description="The highest of the key's scopes.")
    models: list[str] = Field(examples=[["shop-*"]], description="Patterns of names; empty: every model.")


@router.get("/key", dependencies=[READ])
async def show_key(caller: Caller) -> KeyShown:
    """What the key of this request allows.

    So that a page or a tool can leave out what it cannot do. Without keys configured everybody may do everything.
    """
    if caller is None:
        return KeyShown(name=None, scope="admin", models=[])
    return KeyShown(name=caller.name, scope=caller.scope, models=[*caller.models])


@router.get("/healthz")
async def alive() -> Alive:
    """Whether the process is alive.

    Says nothing about the store.
    """
    return Alive(alive=True)


@router.get(
    "/readyz",
    responses={503: {"model": Ready, "description": "The store does not answer, or a background task is down"}},
)
async def ready(ctx: Ctx, response: Response) -> Ready:
    """Whether the service takes traffic.

    503 while the store does not answer (`store`), a background task is down (`tasks`), half of the loaded models or
    more are ten seconds behind their logs (`lag`), the store lacks models that are held here (`store_data`), or the
    service was told to stop and answers on for a while (`stays`, see `ONEPASS_DRAIN_S`). `durability` is what the store
    was found to do: `always`, `everysec`, `none`, or `unknown` where it may not be asked.

    The other checks are reported only: `hints` (notices of appends are received; false until the first model
    is loaded, and where the store lets nobody subscribe: what other services append is found by a sweep then, some
    seconds later), `eviction` (the store evicts
    nothing), `room` (it has room), `log` (false for an hour after a log has lost its tail).
    """
    fine, checks = ctx.engine.ready()
    if not fine:
        response.status_code = 503
    lags, store = ctx.engine.lags, "up" if checks["store"] else "down"
    lag, durability = lags[0][0] if lags else 0, ctx.engine.durability
    return Ready(ready=fine, store=store, durability=durability, lag=lag, checks=checks)


@router.get("/version", dependencies=[READ])
async def show_version(ctx: Ctx, request: Request) -> VersionInfo:
    """What runs here.

    The version, the format of the states that it writes, and the commit.
    """
    return VersionInfo(version=request.app.version, state_format=STATE_VERSION, commit=ctx.commit)


@router.get(
    "/metrics",
    dependencies=[READ],
    response_class=PlainTextResponse,
    response_description="Counters, gauges and histograms",
    responses={200: {"content": {"text/plain": {"example": PROMETHEUS}}}},
)
async def prometheus(ctx: Ctx, caller: Caller) -> Response:
    """Metrics for Prometheus.

    In its text format: of the service, of the `ONEPASS_METRICS_MODELS` loaded models that learn most
    (`onepass_model_...`), and of all loaded ones by tag (`onepass_tag_...`). A key of some models only sees its own
    models and whether the service and its store can be used: sums of requests, rows or memory would tell of others.
    """
    body, kind = await ctx.telemetry.render(None if caller is None or not caller.models else caller.allows)
    return Response(body, media_type=kind)
