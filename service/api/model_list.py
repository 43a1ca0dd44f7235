"""GET /models: a line for each model, in several orders."""

import base64
from typing import Annotated, Literal, cast

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from core.problems import Invalid
from service.api.context import NAME, Caller, Ctx, Paging, iso
from service.api.keys import Key
from service.api.media import JSON
from service.api.route import READ, Route
from service.api.schemas import Body, Time
from service.runtime.summaries.summary_table import Order, Place
from service.store.catalog import Listed, Wanted

router = APIRouter(route_class=Route)
_encode = msgspec.json.Encoder().encode
OPAQUE = "~"
"""What cursors of other orders than by name begin with; no name does."""
CURSOR_MAX = 300

Phase = Literal["steady", "overlap", "ensemble", "down"]
Sort = Literal["name", "rows", "updated", "worst"]


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
            description="The same of the better one of `no_change` and `majority`, or of `last_value`.",
        ),
    ]
    phase: Annotated[Phase, Field(examples=["steady"], description="`down`: out of service.")]
    updated: Time


class ModelList(Body, omit_defaults=True):
    """A page of models."""

    models: list[ModelSummary]
    next: Annotated[str | None, Field(examples=[None], description="The `cursor` of the next page.")]
    age_s: Annotated[
        float | None,
        Field(examples=[1.25], description="Other orders than by name: the age of the table that the page is from."),
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
            "model's error to that of its baseline, largest first, the error being 1 - `score` for a classification "
            "and `score` for a regression (a baseline that is never wrong is the hardest, two errors of 0 are equal). "
            "Models of which that is not known come last. Equals are in the order of their names."
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
) -> Response:
    """List models.

    Those that the key may touch, each as its summary shows it: at most some two seconds behind the model's last row,
    whichever replica answers. Nothing is loaded, and nothing is waited for.

    Orders other than by name come from a table of all summaries, which each replica reads at most every 5 s; `age_s`
    tells its age. Between two tables models may change places: then one may be on two pages, or on none.
    """
    wanted = _wanted(caller, search)
    if sort == "name":
        if page.cursor is not None and NAME.fullmatch(page.cursor) is None:
            raise _no_cursor()
        models, following = await ctx.engine.listing.by_name(page.limit, page.cursor, wanted)
        return _answer(ModelList([*map(_summary, models)], following))
    place = None if page.cursor is None else _place(sort, page.cursor)
    found = await ctx.engine.listing.by(sort, page.limit, place, wanted)
    following = None if found.next is None else _text(sort, found.next)
    return _answer(ModelList([*map(_summary, found.models)], following, round(found.age_s, 3)))


def _wanted(caller: Key | None, search: str | None) -> Wanted | None:
    """The models that a key may know of, and that are searched for; None: all."""
    allowed = caller.allows if caller is not None and caller.models else None
    if search is None:
        return allowed
    part = search.casefold()
    return lambda name: part in name.casefold() and (allowed is None or allowed(name))


def _summary(listed: Listed) -> ModelSummary:
    name, _, (version, time_ms, algorithm, task, rows, score, baseline, phase) = listed
    return ModelSummary(name, algorithm, task, version, rows, score, baseline, cast("Phase", phase), iso(time_ms))


def _answer(page: ModelList) -> Response:
    return Response(_encode(page), media_type=JSON)


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
        raise _no_cursor()
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        found = _cursor.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, msgspec.MsgspecError):
        raise _no_cursor() from None
    if found.order != order or NAME.fullmatch(found.name) is None:
        raise _no_cursor()
    return Place(found.key, found.name)


def _no_cursor() -> Invalid:
    return Invalid.of("cursor", "is not a cursor of this list")
