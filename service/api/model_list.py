"""Lists: of all models in several orders; of one, the entries of its log and the predictions that wait for labels."""

import base64
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import NAME, WHOLE_MAX, Caller, Context, Ctx, Page, Paging, iso, no_cursor, whole
from service.api.keys import Key
from service.api.media import JSON
from service.api.models import ReadModel
from service.api.route import READ, Route
from service.api.schemas import Body, Incarnation, Label, Predictable, Time, Version
from service.runtime.summaries.listing import Order, Place
from service.store import tracked
from service.store.catalog import Listed, Wanted
from service.store.log_page import read_back

router, pending = APIRouter(route_class=Route), APIRouter(route_class=Route)
_encode = msgspec.json.Encoder().encode
OPAQUE = "~"
"""What cursors of other orders than by name begin with; no name does."""
CURSOR_MAX = 300

Phase = Literal["steady", "overlap", "ensemble", "down"]
Sort = Literal["name", "rows", "updated", "worst"]


class DriftSummary(Body):
    """The newest drift event of a model; `GET /models/{name}/drift` has all of it."""

    row: Annotated[int, Field(ge=0, examples=[1204], description="The row that raised its first alarm.")]
    time: Time
    kind: Annotated[str, Field(examples=["class_mean"])]
    label: Annotated[
        Label | None, Field(examples=["UP"], description="The class whose rows were compared; null for regression.")
    ] = msgspec.field(name="class")


class ModelSummary(Body):
    """A model in the list; everything of it is of one version."""

    name: Annotated[str, Field(examples=["demo"])]
    algorithm: Annotated[str, Field(examples=["dfop"])]
    task: Annotated[str, Field(examples=["classification"])]
    version: Annotated[int, Field(ge=0, examples=[18])]
    rows: Annotated[int | None, Field(examples=[18], description="Rows the model has learned; null: not known yet.")]
    score: Annotated[
        float | None, Field(examples=[0.83], description="Overall accuracy, or mean squared error; null: no rows yet.")
    ]
    baseline: Annotated[
        float | None,
        Field(
            examples=[0.82],
            description="The same of the better one of `no_change` and `majority`, or of `last_value`, which predicts "
            "no row before it knows a label.",
        ),
    ]
    paired_score: Annotated[
        float | None,
        Field(
            examples=[None],
            description="Of a regression: the mean squared error on the rows that `baseline` is of, which the two are "
            "compared by. `score` counts the first row too, predicted before anything was learned.",
        ),
    ]
    mean_cost: Annotated[
        float | None,
        Field(
            examples=[None],
            description="With `class_costs`: what the answers have cost a row, all rows counted by the present costs. "
            "Such a model gives accuracy up for it.",
        ),
    ]
    baseline_cost: Annotated[
        float | None,
        Field(examples=[None], description="The same of the label that would have cost least as the answer to all."),
    ]
    phase: Annotated[Phase, Field(examples=["steady"], description="`down`: out of service, or lost by the store.")]
    updated: Time
    drift: Annotated[
        DriftSummary | None, Field(examples=[None], description="The newest drift event; null: there has been none.")
    ]
    challengers: Annotated[int, Field(ge=0, examples=[2], description="Learners beside the model's own.")]
    ahead: Annotated[
        int,
        Field(
            ge=0, examples=[1], description="How many of them are better: `low` of their paired difference is above 0."
        ),
    ]
    rows_per_s: Annotated[
        float | None,
        Field(
            examples=[12.5],
            description="Rows a second, of the last five to ten seconds; null where the replica that answers does not "
            "hold the model, or not for long enough. Not of the version.",
        ),
    ]


class ModelList(Body, omit_defaults=True):
    """A page of models."""

    models: list[ModelSummary]
    next: Annotated[str | None, Field(examples=[None], description="The `cursor` of the next page.")]
    age_s: Annotated[
        float | None,
        Field(examples=[1.25], description="Other orders than by name: the age of the table that the page is from."),
    ] = None
    total: Annotated[int | None, Field(examples=[1], description="With `totals`: models that the key may touch.")] = (
        None
    )
    rows_per_s: Annotated[
        float | None,
        Field(examples=[12.5], description="With `totals`: rows a second that these models learn on this replica."),
    ] = None


class _Cursor(msgspec.Struct, array_like=True):
    order: Order
    key: float
    name: str


_cursor = msgspec.json.Decoder(_Cursor)


@router.get("/models", tags=["models"], dependencies=[READ], response_model=ModelList)
async def list_models(
    ctx: Ctx,
    caller: Caller,
    page: Paging,
    sort: Annotated[
        Sort,
        Query(
            description="`name`; `rows`: most rows first; `updated`: latest first; `worst`: by the ratio of the "
            "model's error to that of its baseline, largest first, the error being 1 - `score` for a classification, "
            "`mean_cost` for one with `class_costs`, and `paired_score` for a regression (a baseline that is never "
            "wrong is the hardest, two errors of 0 are equal). Models of which that is not known come last, and those "
            "of fewer than 30 rows, which say too little. Equals are in the order of their names."
        ),
    ] = "name",
    search: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=64,
            description="Only models whose names contain this, upper or lower case.",
            openapi_examples={"all": {"value": None}},
        ),
    ] = None,
    totals: Annotated[bool, Query(description="Tell how many models there are, and the rows a second of all.")] = False,
) -> Response:
    """List models.

    Those that the key may touch, each as its summary shows it: at most some two seconds behind the model's last row,
    whichever replica answers. Nothing is loaded, and nothing is waited for.

    Orders other than by name come from a table of all summaries, which each replica reads once in 0.5 to 5 s at most,
    by how long that takes; `age_s` tells its age. Between two tables models may change places: then one may be on two
    pages, or on none.
    """
    found = await _model_page(ctx, caller, page, sort, search)
    if totals:
        wanted = names_wanted(caller, None)
        rate = ctx.engine.rows_per_s if wanted is None else ctx.engine.listing.rows_per_s_of(wanted)
        found.total = await ctx.engine.listing.count(wanted)
        found.rows_per_s = None if rate is None else round(rate, 1)
    return Response(_encode(found), media_type=JSON)


async def _model_page(ctx: Context, caller: Key | None, page: Page, sort: Sort, search: str | None) -> ModelList:
    """A page of the list; Invalid where the cursor is none of it."""
    listing, wanted = ctx.engine.listing, names_wanted(caller, search)
    if sort == "name":
        if page.cursor is not None and NAME.fullmatch(page.cursor) is None:
            raise no_cursor()
        models, following = await listing.by_name(page.limit, page.cursor, wanted)
        return ModelList([_summary(one, listing.rows_per_s(one)) for one in models], following)
    place = None if page.cursor is None else _place(sort, page.cursor)
    found = await listing.by(sort, page.limit, place, wanted)
    following = None if found.next is None else _text(sort, found.next)
    lines = [_summary(one, listing.rows_per_s(one)) for one in found.models]
    return ModelList(lines, following, round(found.age_s, 3))


def names_wanted(caller: Key | None, search: str | None) -> Wanted | None:
    """The models that a key may know of, and that are searched for; None: all."""
    allowed = caller.allows if caller is not None and caller.models else None
    if search is None:
        return allowed
    part = search.casefold()
    return lambda name: part in name.casefold() and (allowed is None or allowed(name))


def _summary(listed: Listed, rows_per_s: float | None) -> ModelSummary:
    known = listed.summary._asdict()
    if listed.summary.drift is not None:
        row, time_ms, kind, label = listed.summary.drift
        known["drift"] = DriftSummary(row, iso(time_ms), kind, label)
    updated, rate = iso(known.pop("time_ms")), None if rows_per_s is None else round(rows_per_s, 2)
    return ModelSummary(name=listed.name, updated=updated, rows_per_s=rate, **known)


def _text(order: Order, place: Place) -> str:
    """A place as an opaque cursor."""
    return OPAQUE + base64.urlsafe_b64encode(_encode((order, *place))).decode().rstrip("=")


def _place(order: Order, text: str) -> Place:
    """The inverse of ``_text``.

    Raises:
        Invalid: naming ``cursor``: it is not one of this order.
    """
    encoded = text.removeprefix(OPAQUE)
    if encoded == text or len(text) > CURSOR_MAX or not text.isascii():
        raise no_cursor()
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        found = _cursor.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, msgspec.MsgspecError):
        raise no_cursor() from None
    if found.order != order or NAME.fullmatch(found.name) is None:
        raise no_cursor()
    return Place(found.key, found.name)


class LogEntry(BaseModel):
    """An entry of the log: everything that was committed together."""

    version: Version = Field(description="The version that it made.")
    time: Time = Field(description="When it was committed, by the store's clock.")
    kind: str = Field(
        examples=["rows"],
        description="rows, overlap, switch begin, switch complete, switch abort, reset, configure, challenger put, "
        "challenger delete, challenger promote, restore or import. Of an entry with "
        "requests of several kinds all of them, joined by ` + `.",
    )
    rows: int | None = Field(
        ge=0, examples=[1], description="Rows that it holds, but for those whose ids had been seen; null: no rows."
    )
    writer: str = Field(
        examples=["9c0d1e2b4a685f3a"], description="The service process that committed it; each start has another name."
    )


class LogPage(BaseModel):
    """Entries of the log, newest first."""

    entries: list[LogEntry]
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")
    incarnation: Incarnation


@router.get("/models/{name}/log", tags=["models"], dependencies=[READ])
async def list_log(ctx: Ctx, replica: ReadModel, page: Paging) -> LogPage:
    """The log.

    Its entries that are still kept, newest first: everything that was committed together is one entry, and makes one
    version. Snapshots let the log be trimmed: entries before the oldest snapshot kept (`ONEPASS_SNAPSHOTS_KEPT`) are
    gone. What entries hold is not shown, nor whether a request in them was refused by the state that it met.
    """
    newest = WHOLE_MAX if page.cursor is None else (whole(page.cursor) or 0) - 1
    if newest < 0:
        raise no_cursor()
    found = await read_back(ctx.engine.store.connection, replica.name, replica.incarnation, newest, 1, page.limit + 1)
    shown = [
        LogEntry(
            version=one.version, time=iso(one.time_ms), kind=" + ".join(one.kinds), rows=one.rows, writer=one.writer
        )
        for one in found[: page.limit]
    ]
    following = str(found[page.limit - 1].version) if len(found) > page.limit else None
    return LogPage(entries=shown, next=following, incarnation=replica.incarnation)


class PendingEntry(BaseModel):
    """A tracked prediction that waits for its label."""

    prediction_id: str = Field(examples=["1U_YueguCgy6HMQRlrBf"])
    prediction: Predictable
    version: Version
    expires: Time


class PendingList(BaseModel):
    """Tracked predictions that wait for their labels."""

    pending: list[PendingEntry]
    expired: int = Field(ge=0, examples=[0], description="How many have expired without a label.")
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")
    waiting: int = Field(ge=0, examples=[1], description="How many wait, on all pages.")
    incarnation: Incarnation


@pending.get("/models/{name}/pending", tags=["one row"], dependencies=[READ])
async def list_pending(ctx: Ctx, replica: ReadModel, page: Paging) -> PendingList:
    """Tracked predictions that wait for their labels.

    A prediction is tracked by `"track": true`. It waits until its label comes or it expires
    (`ONEPASS_PREDICTION_TTL_S`).
    """
    try:
        found, following = await ctx.engine.pending.list(replica.name, replica.incarnation, *page)
    except ValueError as error:
        raise no_cursor() from error
    waiting, expired = await ctx.engine.pending.counts(replica.name, replica.incarnation)
    entries = []
    for identity, expires_ms, blob in found:
        kept = tracked.decode(blob)
        entries.append(
            PendingEntry(
                prediction_id=identity, prediction=kept.served.prediction, version=kept.version, expires=iso(expires_ms)
            )
        )
    return PendingList(
        pending=entries, expired=expired, next=following, waiting=waiting, incarnation=replica.incarnation
    )
