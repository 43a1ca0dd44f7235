"""The list of models, in several orders."""

import base64
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from service.api.context import NAME, Caller, Context, Ctx, Page, Paging, iso, no_cursor
from service.api.keys import Key
from service.api.media import JSON
from service.api.route import READ, Route
from service.api.schemas import Body, Label, Time
from service.runtime.lists import Order, Place
from service.store.catalog import Listed, Wanted

router = APIRouter(route_class=Route)
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
