"""A change of features: /models/{name}/features, /features/switch and /features/overlap.

Switches and overlap rows are entries of the log like any feedback. The model learns the mapping from new to old
features from overlap rows. A request that is sent again with the same id gets the first answer again.
"""

from functools import partial
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Body, Depends, Query, Request
from msgspec.structs import replace
from pydantic import BaseModel, Field, SkipValidation
from starlette.responses import Response

from core.entry import Switch
from core.features.feature import Declared as Features
from core.features.feature import FeatureEntry
from core.model import Model
from core.problems import Says
from service.api.http.context import Context, Ctx, IdempotencyKey, ModelName, idempotency_key
from service.api.http.media import JSON
from service.api.http.route import ADMIN, LEARN, READ, Route
from service.api.models import documents
from service.api.models.documents import NOT_MODIFIED, conditional, json_of
from service.api.models.models import ReadModel, RequestBody
from service.api.openapi import examples
from service.api.openapi.document import raw_body
from service.api.openapi.examples import SWITCHES
from service.api.rows.batches import identity_of_batch, read_batch
from service.api.rows.formats.csv_tables import CSV_QUERIES
from service.api.rows.formats.json_tables import OVERLAP as OVERLAP_ROWS
from service.api.rows.idempotency import REFUSED, answer_if_seen, commit_change, read_rows
from service.api.rows.table_queries import described
from service.api.schemas import (
    ClientId,
    DurabilityShown,
    Incarnation,
    OverlapBody,
    OverlapRecord,
    RowsLearned,
    Taught,
    Version,
)
from service.runtime.replicas import changes
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.rows.ids import NO_IDENTITY, OVERLAP, SWITCH, UNLABELLED, Identity, digest, identity_of
from service.runtime.threads import FEATURE_BYTES, size_of_features

ShownFeatures = list[str | FeatureEntry]


class SwitchBody(RequestBody):
    """A step in a change of features."""

    action: changes.Action = Field(
        description="`begin` an overlap in which rows carry both sets of features, `complete` or `abort` it."
    )
    features: Annotated[Features | None, SkipValidation] = Field(  # core.features reports what is wrong with each
        None,
        description="`begin`: the whole new space. Names that the model already has are kept: a bare name keeps its "
        "present declaration, an object of the same type gives it new categories or bounds.",
    )
    mapping: changes.Recovery | None = Field(
        None, description="`begin`: how to recover old features from new ones. Default: linear."
    )
    force: bool = Field(False, description="`complete`: even with fewer than five rows for the mapping.")
    id: Annotated[ClientId | None, Says(NO_IDENTITY)] = Field(
        None, description="Your own id of this step; a step sent again within a day is executed once."
    )


class Expert(BaseModel):
    """A model of the ensemble that predicts after a change of features."""

    expert: Literal["recovered", "new", "carried"] = Field(
        description="`recovered`: the old model, on old features recovered from the new ones; `new`: trained on the "
        "new features in the overlap; `carried` (linear models only): a copy of the old model in the new features."
    )
    weight: float = Field(ge=0, le=1, description="Its share in the predictions.")
    loss: float = Field(ge=0, description="Its cumulative loss since the change was completed.")


class FeatureSpaces(BaseModel):
    """The state of a model's change of features."""

    phase: Literal["steady", "overlap", "ensemble"] = Field(examples=["overlap"])
    current: ShownFeatures = Field(
        examples=[["load", "price"]], description="The features that a prediction needs now."
    )
    next: ShownFeatures | None = Field(
        examples=[["load", "wind"]], description="During an overlap: the features that it will need afterwards."
    )
    overlap_rows: int = Field(
        ge=0, examples=[0], description="Rows from which the mapping from new to old features was learned."
    )
    mapping_error: float | None = Field(
        examples=[None],
        description="How badly old features are recovered: the squared error over the latest rows (a quarter of them, "
        "at most about 50), each recovered before it was learned. 0 is perfect, 1 no better than the mean.",
    )
    ensemble: list[Expert] | None = Field(
        examples=[None], description="The experts that predict after a completed change."
    )
    means: dict[str, float] | None = Field(
        None,
        examples=[{"load": 0.42, "price": 0.05}],
        description="With `means=true`: means of the numeric and boolean features over the rows that the drift test of "
        "class means compares; empty without that test.",
    )
    version: Version
    incarnation: Incarnation


class SwitchedSpaces(FeatureSpaces):
    """The state after this step."""

    rows: RowsLearned
    duplicate: bool = Field(description="True if this step was sent before; it was executed once.")
    durability: DurabilityShown
    warning: str | None = Field(None, description="Set if predictions may be poor after this step.")


router = APIRouter(route_class=Route, tags=["features"])
_encode = msgspec.json.Encoder().encode


@router.get("/models/{name}/features", dependencies=[READ], response_model=FeatureSpaces, responses=NOT_MODIFIED)
async def show_features(
    ctx: Ctx,
    request: Request,
    replica: ReadModel,
    means: Annotated[bool, Query(description="Include the means of the features.")] = False,
) -> Response:
    """State of a change of features.

    After a change, the experts `recovered` (the old model, on old features recovered from the new ones), `new` (trained
    on the new features in the overlap) and, for linear models, `carried` (a copy of the old model in the new features)
    predict together until the next change is complete, each weighted by its performance.
    """
    return await conditional(request, replica, ctx.engine.state_budget, partial(documents.features, means=means))


@router.post("/models/{name}/features/switch", dependencies=[ADMIN], response_model=SwitchedSpaces)
async def switch_features(
    ctx: Ctx,
    name: ModelName,
    ask: Annotated[SwitchBody, Body(openapi_examples=SWITCHES)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Begin, complete or abort a change of features.

    `begin` declares the whole new space. From then on, feedback carries the features of both spaces, predictions need
    the old ones (new ones are ignored), and the model learns the mapping between them. Feedback without any of the new
    names is learned by the old model, and the answer has `"mapped": false`. After `complete`, rows have only the new
    features: the old model continues on recovered features next to new models, each weighted by its performance.
    `abort` drops the overlap and leaves the model as it was. `complete` with fewer than five rows for the mapping is
    409, unless `force` is true. Names in both spaces are kept; if the spaces declare different categories or bounds for
    a name, rows carry it once, and each space reads it by its own declaration. There can be any number of changes, one
    at a time. `id` or Idempotency-Key make a retry safe.
    """
    sent = await request.body()
    identity = _identity(ask, key, sent)

    def plan(model: Model, ids: tuple[str, ...]) -> Switch:
        admit = ctx.engine.models.admit
        return replace(changes.switch(model, admit, ask.action, ask.features, ask.mapping, ask.force), ids=ids)

    def size_of(model: Model) -> int:
        return FEATURE_BYTES * documents.columns_of(model) + max(len(sent), size_of_features(ask.features))

    replica, reply = await commit_change(ctx, name, identity, plan, size_of)
    assert reply is not None
    return _switched(ctx, replica, reply)


def _identity(ask: SwitchBody, key: str | None, body: bytes) -> Identity:
    """The id and digest of a switch, used to recognise a retry."""
    identity = identity_of(key, None if ask.id is None else [ask.id], SWITCH, (b"switch\n", body))
    asked = _encode((ask.action, ask.features, ask.mapping, ask.force))
    return Identity(identity.ids, identity.digests or (digest(asked),) * len(identity.ids))


def _switched(ctx: Context, replica: Replica, reply: Reply) -> Response:
    """The answer to a step: the recorded features, which may be many, and the other fields."""
    answer = reply.answer
    known = {
        "version": answer.version,
        "incarnation": replica.incarnation,
        "rows": answer.rows,
        "duplicate": reply.all_duplicate,
        "durability": ctx.engine.durability,
    }
    if answer.warning is not None:
        known["warning"] = answer.warning
    return json_of(answer.feature_state[:-1] + b"," + documents.encode(known)[1:])  # two objects joined, not decoded


@router.post(
    "/models/{name}/features/overlap",
    dependencies=[LEARN, Depends(idempotency_key), described("id", *CSV_QUERIES)],
    response_model=Taught,
    openapi_extra=raw_body(
        OverlapBody,
        shown=examples.OVERLAP,
        record=OverlapRecord,
        lines=examples.OVERLAP_LINES,
        csv=examples.OVERLAP_CSV,
        npy="old features in their order, then the new names",
    ),
)
async def teach_mapping(ctx: Ctx, name: ModelName, request: Request) -> Response:
    """Unlabelled rows with both sets of features.

    They only teach the mapping from new to old features. One row by name, or several by column or by name; also
    `application/x-ndjson` (one row by name per line), `text/csv` with a header (`?id=`, `?drop=`, `?delimiter=`),
    and `application/x-npy`, a file of `numpy.save` (float64, old features in their order, then the new names). Every
    name of both spaces is required.
    """
    replica, table, body = await read_batch(ctx, request, name, OVERLAP_ROWS)
    identity = await identity_of_batch(ctx, request, body, table, OVERLAP, b"overlap\n")
    identity = Identity(identity.ids, identity.digests or (UNLABELLED,) * len(identity.ids))
    try:
        rows = await read_rows(ctx, replica, len(body), lambda validator: validator.overlap(table, identity.ids))
    except REFUSED as error:
        reply = await answer_if_seen(ctx, replica, identity, error)
    else:
        reply = await replica.inbox.submit(rows, identity.digests)
    answer = Taught(
        overlap_rows=reply.answer.overlap_rows or 0,
        version=reply.answer.version,
        rows=reply.answer.rows,
        duplicate=reply.all_duplicate,
        duplicates=len(table.rows) if reply.all_duplicate else reply.duplicates,
        durability=ctx.engine.durability,
        incarnation=replica.incarnation,
    )
    return Response(_encode(answer), media_type=JSON)
