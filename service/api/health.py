"""The catalogue of algorithms, health and readiness, the version, and the metrics for Prometheus."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from core.learners.catalogue import every
from core.model import STATE_VERSION
from service.api.http.context import Caller, Ctx
from service.api.http.keys import covered_by
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
    use_when: str = Field(description="When to choose it, with measured results.", examples=["Nothing drifts."])
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
    """Whether the service is ready for traffic."""

    ready: bool = Field(examples=[True])
    store: str = Field(examples=["up"])
    durability: DurabilityShown
    lag: int = Field(ge=0, examples=[0], description="Entries not yet applied by the model furthest behind.")
    checks: dict[str, bool | None] = Field(examples=[{"store": True, "tasks": True}])


class VersionInfo(BaseModel):
    """The version of the running service."""

    version: str = Field(examples=["0.1.0"], description="Version of Onepass.")
    state_format: int = Field(
        examples=[STATE_VERSION],
        description="Format of the states it writes. States and logs of a higher format are refused.",
    )
    commit: str | None = Field(
        examples=["9fceb02d0ae598e95dc970b74767f19372d61af8"],
        description="The commit it was built from (`ONEPASS_COMMIT`); null: unknown.",
    )


@router.get("/algorithms", dependencies=[READ])
async def list_algorithms() -> AlgorithmList:
    """The catalogue of algorithms.

    Each entry has the algorithm's tasks, when to use it, its paper, equation and parameters.
    """
    return AlgorithmList(algorithms=[AlgorithmEntry(**own.describe()) for own in every().values()])


class KeyShown(BaseModel):
    """The permissions of a key."""

    name: str | None = Field(examples=["ops"], description="The key's name; null: no keys are configured.")
    scope: Literal["read", "learn", "admin"] = Field(examples=["admin"], description="The highest of the key's scopes.")
    models: list[str] = Field(examples=[["shop-*"]], description="Name patterns of the models it covers; empty: all.")


@router.get("/key", dependencies=[READ])
async def show_key(caller: Caller) -> KeyShown:
    """The permissions of this request's key.

    Pages and tools use it to hide what the key does not allow. If no keys are configured, everything is allowed.
    """
    if caller is None:
        return KeyShown(name=None, scope="admin", models=[])
    return KeyShown(name=caller.name, scope=caller.scope, models=[*caller.models])


@router.get("/healthz")
async def alive() -> Alive:
    """Whether the process is alive.

    This does not check the store.
    """
    return Alive(alive=True)


@router.get(
    "/readyz", responses={503: {"model": Ready, "description": "One of the checks that decide readiness fails"}}
)
async def ready(ctx: Ctx, response: Response) -> Ready:
    """Whether the service is ready for traffic.

    503 while the store does not answer or is read-only (`store`), a background task is down (`tasks`), more than half
    of the loaded models are ten seconds behind their logs (`lag`), the store lacks models that this service has in
    memory, or the data directory of the private store is gone (`store_data`), or the service is about to stop and still
    answers for a while (`stays`, see `ONEPASS_DRAIN_S`).
    `durability` is how the store writes to disk: `always`, `everysec`, `none`, or `unknown` if the service may not ask.

    The other checks are only reported: `hints` (append notices arrive; false until the first model is loaded, and if
    the store does not allow subscriptions: a sweep then finds appends of other services some seconds later), `eviction`
    (the store evicts nothing), `room` (it has room), `log` (false for an hour after a log has lost its tail).
    """
    fine, checks = ctx.engine.ready()
    if not fine:
        response.status_code = 503
    lags, store = ctx.engine.lags, "up" if checks["store"] else "down"
    lag, durability = lags[0][0] if lags else 0, ctx.engine.durability
    return Ready(ready=fine, store=store, durability=durability, lag=lag, checks=checks)


@router.get("/version", dependencies=[READ])
async def show_version(ctx: Ctx, request: Request) -> VersionInfo:
    """The version of the running service.

    The answer also has the format of the states that it writes, and its commit.
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

    In the Prometheus text format: for the service, for the `ONEPASS_METRICS_MODELS` loaded models that learn most
    (`onepass_model_...`), and for all loaded models by tag (`onepass_tag_...`). A key for some models only sees those,
    and whether the service and its store work: totals of requests, rows or memory would reveal other models.
    """
    body, kind = await ctx.render(covered_by(caller))
    return Response(body, media_type=kind)
