"""/models/{name}/challengers: learners beside a model's own, for the same rows, one of which may become the model."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from core.config.challengers import ChallengerBody
from core.entry import Segment
from core.model import Model as CoreModel
from service.api.http.context import NAME, Context, Ctx, IdempotencyKey, ModelName
from service.api.http.etag import NOT_MODIFIED
from service.api.http.root_path import route_path
from service.api.http.route import ADMIN, READ, Route
from service.api.models import documents
from service.api.models.documents import conditional, json_of
from service.api.models.metric_schemas import Metrics
from service.api.models.models import Model, ReadModel, RequestBody, sent_as, shown
from service.api.openapi.examples import CHALLENGERS, PROMOTIONS
from service.api.rows.idempotency import Plan, after, commit_change
from service.api.rows.identity import REQUEST, identity_of
from service.api.schemas import Incarnation, RowsLearned, Version
from service.runtime.replicas import changes
from service.runtime.replicas.replica import Replica
from service.runtime.threads import load_algorithm


class Promotion(RequestBody):
    """How a challenger is promoted."""

    force: bool = Field(False, description="Also one that has not been shown to be better.")


class Difference(BaseModel):
    """The paired difference of losses, model minus challenger: above 0 the challenger is better. Null before a row."""

    mean: float | None = Field(
        examples=[0.021],
        description="Of the rows that both have predicted, since the later of the two began or the last promotion. "
        "Losses are 0 or 1, with `class_costs` what the answer cost; squared errors count as at most `bound`.",
    )
    low: float | None = Field(
        examples=[0.004],
        description="The interval holds at all rows at once (a confidence sequence): it may be looked at at any time.",
    )
    high: float | None = Field(examples=[0.038])
    confidence: float = Field(examples=[0.95], description="1 - 0.05 / k with k challengers, `previous` included.")
    rows: int = Field(ge=0, examples=[2400], description="Rows that were compared.")
    bound: float | None = Field(
        None, description="Regression: the largest squared error that counts, four times the variance of the labels."
    )


class ChallengerEntry(BaseModel):
    """A challenger: a learner beside the model's own, on the same rows."""

    name: str = Field(examples=["candidate"])
    config: dict[str, Any] = Field(
        examples=[{"algorithm": "vigod", "params": {"batch_size": 200}, "promote": "never"}],
        description="What it has by itself, complete; all else is the model's.",
    )
    promote: Literal["never", "auto"]
    since_version: int = Field(ge=0, examples=[18], description="The entry that put it there.")
    rows: RowsLearned
    metrics: Metrics = Field(
        description="Of the rows that it has learned; `history` and `marks` have the row numbers of the model."
    )
    info: dict[str, Any] = Field(examples=[{"classes_seen": 2}], description="What its learner reports.")
    difference: Difference


class Champion(BaseModel):
    """The learner whose predictions the model answers with."""

    algorithm: str = Field(examples=["dfop"])
    score: float | None = Field(
        examples=[0.84], description="Overall accuracy, or mean squared error; null before the first row."
    )


class ChallengerList(BaseModel):
    """The challengers of a model, in the order in which they were put beside it."""

    champion: Champion
    challengers: list[ChallengerEntry]
    version: Version
    incarnation: Incarnation


router = APIRouter(route_class=Route, tags=["challengers"])
deletion = APIRouter(route_class=Route, tags=["deletion"])
CHALLENGER = f"^{NAME.pattern}$"
ChallengerName = Annotated[str, Path(pattern=CHALLENGER, openapi_examples={"demo": {"value": "candidate"}})]
FormerName = Annotated[str, Path(pattern=CHALLENGER, openapi_examples={"demo": {"value": "previous"}})]
"""Of one to delete: in the documented story the model that ``candidate`` has replaced."""


@router.get("/models/{name}/challengers", dependencies=[READ], response_model=ChallengerList, responses=NOT_MODIFIED)
async def list_challengers(request: Request, replica: ReadModel) -> Response:
    """List challengers.

    With their metrics and the paired difference of their losses to the model's.
    """
    return await conditional(request, replica, documents.challenger_list)


@router.put(
    "/models/{name}/challengers/{challenger}",
    dependencies=[ADMIN],
    status_code=201,
    response_model=ChallengerEntry,
    response_description="It learns every row from here on",
    responses={200: {"model": ChallengerEntry, "description": "It is there already; at most `promote` has changed"}},
)
async def put_challenger(
    ctx: Ctx,
    name: ModelName,
    challenger: ChallengerName,
    body: Annotated[dict[str, Any], sent_as(ChallengerBody), Body(openapi_examples=CHALLENGERS)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Put a challenger beside a model.

    From the next row on it learns every row that the model learns, in the same order, on every replica: it begins with
    nothing learned, in the features in force. Each row is predicted by both before it is learned, and their losses are
    compared; the model's answers stay its own. Features, labels and what is said of missing values, categories and
    costs are the model's. The same body again is 200, and may change `promote`; another one is 409.
    """
    await load_algorithm(body)
    most, admit = ctx.engine.bounds.challengers_max, ctx.engine.models.admit
    known = False

    def plan(model: CoreModel, ids: tuple[str, ...]) -> Segment | None:
        nonlocal known
        known = challenger in model.challengers
        return changes.challenge(model, admit, challenger, body, most, ids)

    replica = await _commit(ctx, name, request, key, plan, await request.body())
    async with replica.held():
        return json_of(documents.challenger(replica.model, challenger), 200 if known else 201)


@deletion.delete(
    "/models/{name}/challengers/{challenger}",
    dependencies=[ADMIN],
    status_code=204,
    response_description="It is gone, with what it has learned",
)
async def delete_challenger(
    ctx: Ctx, name: ModelName, challenger: FormerName, request: Request, key: IdempotencyKey
) -> None:
    """Take a challenger away.

    A snapshot is written first, which stays in `GET /models/{name}/snapshots` until the next deletion or promotion; if
    it cannot be, the answer is 503 and nothing changes.
    """
    await _commit(ctx, name, request, key, lambda model, ids: changes.withdraw(model, challenger, ids))


@router.post(
    "/models/{name}/challengers/{challenger}/promote",
    dependencies=[ADMIN],
    response_model=Model,
    response_description="The model as it is now",
)
async def promote_challenger(
    ctx: Ctx,
    name: ModelName,
    challenger: ChallengerName,
    request: Request,
    key: IdempotencyKey,
    body: Annotated[Promotion | None, Body(openapi_examples=PROMOTIONS)] = None,
) -> Response:
    """Make a challenger the model.

    409 unless `force` is true if fewer than 200 rows were compared or `difference.low` is not above 0; `previous` needs
    no force. A snapshot is written first, which stays in `GET /models/{name}/snapshots` until the next promotion or
    deletion; if it cannot be, the answer is 503 and nothing changes.

    An entry of the log: every replica promotes at the same row. The model's rows, ids, drift events and marks count on
    (the promotion is a mark); its metrics are those of the challenger, over the rows that it has learned. The former
    model goes on learning as the challenger `previous`, in place of an older one, and is never promoted by itself;
    promoting it swaps the two. All differences start anew. An Idempotency-Key makes a retry safe.
    """
    force = body is not None and body.force

    def plan(model: CoreModel, ids: tuple[str, ...]) -> Segment:
        return changes.promote(model, challenger, ids, force)

    return await shown(await _commit(ctx, name, request, key, plan, b"force" if force else b""))


async def _commit(ctx: Context, name: str, request: Request, key: str | None, plan: Plan, body: bytes = b"") -> Replica:
    """Commit what a request asks for, after a snapshot if it takes a learner away; the model as it is after it."""
    asked = f"{request.method} {route_path(request.scope)}\n".encode()
    _, reply = await commit_change(ctx, name, identity_of(key, None, REQUEST, (asked, body)), plan)
    return await after(ctx, name, reply)
