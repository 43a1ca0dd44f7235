"""/models/{name}/challengers: learners that compete with a model on the same rows and may replace it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from core.config.challengers import ChallengerBody
from core.entry import Segment
from core.model import Model as CoreModel
from service.api.http.context import Context, Ctx, IdempotencyKey, ModelName
from service.api.http.headers import NAME
from service.api.http.route import ADMIN, READ, Route
from service.api.models import documents
from service.api.models.documents import NOT_MODIFIED, conditional, encode, json_of, shown
from service.api.models.metric_schemas import Metrics
from service.api.models.models import Model, ReadModel, RequestBody, sent_as
from service.api.openapi.examples import CHALLENGERS, PROMOTIONS
from service.api.rows.idempotency import Plan, after, commit_change, identity_of_change
from service.api.schemas import Incarnation, RowsLearned, Version
from service.runtime.replicas import changes
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.threads import load_algorithm


class Promotion(RequestBody):
    """How a challenger is promoted."""

    force: bool = Field(False, description="Promote it even if it is not proven to be better.")


UNFORCED = Promotion(force=False)


class Difference(BaseModel):
    """The paired difference of losses, model minus challenger: above 0, the challenger is better. Null without rows."""

    mean: float | None = Field(
        examples=[0.021],
        description="Over the rows that both have predicted since the later of the two started, or since the last "
        "promotion. Losses are 0 or 1, or costs with `class_costs`; squared errors are capped at `bound`.",
    )
    low: float | None = Field(
        examples=[0.004],
        description="The interval holds at all rows at once (a confidence sequence): you may look at it at any time.",
    )
    high: float | None = Field(examples=[0.038])
    confidence: float = Field(examples=[0.95], description="1 - 0.05 / k with k challengers, including `previous`.")
    rows: int = Field(
        ge=0,
        examples=[2400],
        description="Number of rows compared. In a regression the first 10 labels do not count: they set the scale.",
    )
    bound: float | None = Field(
        None,
        description="Regression: the present cap on squared errors, four times the variance of the labels since the "
        "comparison began; the cap of a row is that before its label.",
    )


class ChallengerEntry(BaseModel):
    """A challenger: a second learner on the model's rows."""

    name: str = Field(examples=["candidate"])
    config: ChallengerBody = Field(
        examples=[{"algorithm": "vigod", "params": {"batch_size": 200}, "promote": "never"}],
        description="Its own settings, complete; all others are the model's.",
    )
    promote: Literal["never", "auto"]
    since_version: int = Field(ge=0, examples=[18], description="The log entry that added it.")
    rows: RowsLearned
    metrics: Metrics = Field(
        description="Over the rows it has learned; `history` and `marks` use the model's row numbers."
    )
    info: dict[str, Any] = Field(examples=[{"classes_seen": 2}], description="Its learner's own report.")
    difference: Difference


class PutChallenger(ChallengerEntry):
    """The challenger, and which model it challenges."""

    incarnation: Incarnation


class Champion(BaseModel):
    """The learner whose predictions the model returns."""

    algorithm: str = Field(examples=["dfop"])
    score: float | None = Field(
        examples=[0.84], description="Overall accuracy, or mean squared error; null before the first row."
    )


class ChallengerList(BaseModel):
    """The challengers of a model, in the order in which they were added."""

    champion: Champion
    challengers: list[ChallengerEntry]
    version: Version
    incarnation: Incarnation


router = APIRouter(route_class=Route, tags=["challengers"])
deletion = APIRouter(route_class=Route, tags=["deletion"])
CHALLENGER = f"^{NAME.pattern}$"
ChallengerName = Annotated[str, Path(pattern=CHALLENGER, openapi_examples={"candidate": {"value": "candidate"}})]
FormerName = Annotated[str, Path(pattern=CHALLENGER, openapi_examples={"previous": {"value": "previous"}})]
"""The name of a challenger to delete; in the examples, the model that ``candidate`` has replaced."""


@router.get("/models/{name}/challengers", dependencies=[READ], response_model=ChallengerList, responses=NOT_MODIFIED)
async def list_challengers(ctx: Ctx, request: Request, replica: ReadModel) -> Response:
    """List challengers.

    Each entry has the challenger's metrics and the paired difference between the model's losses and its own.
    """
    return await conditional(request, replica, ctx.engine.state_budget, documents.challenger_list)


@router.put(
    "/models/{name}/challengers/{challenger}",
    dependencies=[ADMIN],
    status_code=201,
    response_model=PutChallenger,
    response_description="Added; it learns every row from now on",
    responses={200: {"model": PutChallenger, "description": "It already exists; at most `promote` has changed"}},
)
async def put_challenger(
    ctx: Ctx,
    name: ModelName,
    challenger: ChallengerName,
    body: Annotated[dict[str, Any], sent_as(ChallengerBody), Body(openapi_examples=CHALLENGERS)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Add a challenger to a model.

    It starts untrained, with the features in use, and from the next row on learns every row that the model learns, in
    the same order, on every replica. Both predict each row before learning it, and their losses are compared; the
    service still returns the model's predictions. Features, labels and the settings for missing values, categories and
    costs are the model's. The same body again is 200, and may change `promote`; a different one is 409.
    """
    await load_algorithm(body)
    most, admit = ctx.engine.bounds.challengers_max, ctx.engine.models.admit

    def plan(model: CoreModel, ids: tuple[str, ...]) -> Segment | None:
        return changes.challenge(model, admit, challenger, body, most, ids)

    replica, reply = await _commit(ctx, name, request, key, plan, await request.body())
    added = reply is not None and reply.answer.learned and not reply.all_duplicate
    async with replica.held():
        shown = {**changes.challenger_shown(replica.model, challenger), "incarnation": replica.incarnation}
        return json_of(encode(shown), 201 if added else 200)


@deletion.delete(
    "/models/{name}/challengers/{challenger}",
    dependencies=[ADMIN],
    status_code=204,
    response_description="Deleted, with everything it has learned",
)
async def delete_challenger(
    ctx: Ctx, name: ModelName, challenger: FormerName, request: Request, key: IdempotencyKey
) -> None:
    """Delete a challenger.

    The service first writes a snapshot, which stays in `GET /models/{name}/snapshots` until the next deletion or
    promotion; if it cannot, the answer is 503 and nothing changes.
    """
    await _commit(ctx, name, request, key, lambda model, ids: changes.withdraw(model, challenger, ids))


@router.post(
    "/models/{name}/challengers/{challenger}/promote",
    dependencies=[ADMIN],
    response_model=Model,
    response_description="The model after the promotion",
)
async def promote_challenger(
    ctx: Ctx,
    name: ModelName,
    challenger: ChallengerName,
    request: Request,
    key: IdempotencyKey,
    body: Annotated[Promotion, Body(openapi_examples=PROMOTIONS)] = UNFORCED,
) -> Response:
    """Make a challenger the model.

    409 if fewer than 200 rows were compared or `difference.low` is not above 0, unless `force` is true; `previous`
    needs no force. The service first writes a snapshot, which stays in `GET /models/{name}/snapshots` until the next
    promotion or deletion; if it cannot, the answer is 503 and nothing changes.

    The promotion is an entry of the log: every replica promotes at the same row. The model's rows, ids, drift events
    and marks continue (the promotion is a mark); its metrics are those of the challenger, over the rows it has learned.
    The former model keeps learning as the challenger `previous`, replaces an earlier `previous`, and is never promoted
    automatically; promoting it swaps the two. All differences start again. An Idempotency-Key makes a retry safe.
    """

    def plan(model: CoreModel, ids: tuple[str, ...]) -> Segment:
        return changes.promote(model, challenger, ids, body.force)

    replica, _ = await _commit(ctx, name, request, key, plan, b"force" if body.force else b"")
    return await shown(replica)


async def _commit(
    ctx: Context, name: str, request: Request, key: str | None, plan: Plan, body: bytes = b""
) -> tuple[Replica, Reply | None]:
    """Commit a request, after writing a snapshot if it removes a learner; returns the model afterwards, and the reply
    as ``commit_change``.
    """
    _, reply = await commit_change(ctx, name, identity_of_change(request, key, body), plan, lambda _: len(body))
    return await after(ctx, name, reply), reply
