"""The list of models, in several orders."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from core.contract import Label
from service.api.http.context import Caller, Ctx, Paging, iso, no_cursor
from service.api.http.headers import NAME
from service.api.http.keys import Key, covered_by
from service.api.http.media import JSON
from service.api.http.route import READ, Route
from service.api.schemas import Body, Following, Time
from service.runtime.lists import ListPosition, Order
from service.store.catalog import Listed, Wanted

router = APIRouter(route_class=Route)
_encode = msgspec.json.Encoder().encode
CURSOR = re.compile(rf"~([a-z]+):(-?[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?):({NAME.pattern})")
"""A cursor of an order other than by name: the position of the last model of the previous page."""

RENDERED_AT_ONCE = 100  # summaries rendered between two turns of the event loop's other tasks: a few milliseconds

ListedPhase = Literal["steady", "overlap", "ensemble", "down"]
Sort = Literal["name", "rows", "updated", "worst"]


class DriftSummary(Body):
    """The newest drift event of a model; `GET /models/{name}/drift` shows it in full."""

    row: Annotated[int, Field(ge=0, examples=[1204], description="Number of the row that raised its first alarm.")]
    time: Time
    kind: Annotated[str, Field(examples=["class_mean"])]
    label: Annotated[Label | None, Field(examples=["UP"], description="The class compared; null for regression.")] = (
        msgspec.field(name="class")
    )


class ModelSummary(Body):
    """A model in the list; all fields except `rows_per_s` belong to one version."""

    name: Annotated[str, Field(examples=["demo"])]
    algorithm: Annotated[str, Field(examples=["dfop"])]
    task: Annotated[str, Field(examples=["classification"])]
    version: Annotated[int, Field(ge=0, examples=[18])]
    rows: Annotated[int | None, Field(examples=[18], description="Rows the model has learned; null: not yet known.")]
    score: Annotated[
        float | None, Field(examples=[0.83], description="Overall accuracy, or mean squared error; null: no rows yet.")
    ]
    baseline: Annotated[
        float | None,
        Field(examples=[0.82], description="Score of the best baseline: `no_change`, `majority` or `last_value`."),
    ]
    paired_score: Annotated[
        float | None,
        Field(examples=[None], description="Regression: the score on the rows of `baseline`: all but the first."),
    ]
    mean_cost: Annotated[
        float | None, Field(examples=[None], description="With `class_costs`: mean cost of the predictions so far.")
    ]
    baseline_cost: Annotated[
        float | None, Field(examples=[None], description="Mean cost of the cheapest constant prediction.")
    ]
    recent: Annotated[
        list[float],
        Field(examples=[[0.81, 0.83]], description="Accuracy, or MSE, of the window over the last rows; newest last."),
    ]
    error: Annotated[
        float | None,
        Field(
            examples=[0.17],
            description="Over the window of the last rows: the share of wrong predictions, the mean cost with "
            "`class_costs`, or the mean squared error on the rows of the baseline; null: not yet known.",
        ),
    ]
    baseline_error: Annotated[
        float | None, Field(examples=[0.18], description="`error` of the best baseline over the same rows.")
    ]
    phase: Annotated[
        ListedPhase, Field(examples=["steady"], description="`down`: out of service, or lost by the store.")
    ]
    updated: Time
    drift: Annotated[
        DriftSummary | None,
        Field(examples=[None], description="The newest drift event in the rows that the model has, if any."),
    ]
    challengers: Annotated[int, Field(ge=0, examples=[2], description="Number of challengers.")]
    ahead: Annotated[int, Field(ge=0, examples=[1], description="Challengers whose `difference.low` is above 0.")]
    rows_per_s: Annotated[
        float | None,
        Field(examples=[12.5], description="Over the last 5 to 10 seconds; null if this replica does not know."),
    ]


class ModelList(Body, omit_defaults=True):
    """A page of models."""

    models: list[ModelSummary]
    next: Following
    age_s: Annotated[
        float | None,
        Field(examples=[1.25], description="Age of the table used for sorting; absent when sorted by name."),
    ] = None
    total: Annotated[
        int | None, Field(examples=[1], description="With `totals`: number of models that the key covers.")
    ] = None
    rows_per_s: Annotated[
        float | None, Field(examples=[12.5], description="With `totals`: rows per second they learn on this replica.")
    ] = None


@router.get("/models", tags=["models"], dependencies=[READ], response_model=ModelList)
async def list_models(
    ctx: Ctx,
    caller: Caller,
    page: Paging,
    sort: Annotated[
        Sort,
        Query(
            description="`name`; `rows`: most rows first; `updated`: latest first; `worst`: largest ratio of "
            "`error` to `baseline_error` first (a baseline without errors counts as the hardest to beat; two errors of "
            "0 are equal). Models with an unknown ratio or fewer than 30 rows come last. Ties are sorted by name."
        ),
    ] = "name",
    search: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=64,
            description="Only models whose names contain this text, ignoring case.",
            openapi_examples={"all": {"value": None}},
        ),
    ] = None,
    totals: Annotated[bool, Query(description="Include the number of models and their total rows per second.")] = False,
) -> Response:
    """List models.

    The list has the models that the key covers, each with its summary, which is at most about two seconds behind the
    model's last row, whichever replica answers. No model is loaded.

    Orders other than by name come from a table of all summaries, which each replica reads at most every 0.5 to 5 s,
    depending on how long that takes; `age_s` is its age. Models may change places between two tables: a model may then
    be on two pages, or on none.
    """
    listing, wanted = ctx.engine.listing, names_wanted(caller, search)
    age_s: float | None = None
    if sort == "name":
        if page.cursor is not None and NAME.fullmatch(page.cursor) is None:
            raise no_cursor()
        models, following = await listing.by_name(page.limit, page.cursor, wanted)
    else:
        models, place, age_s = await listing.by(sort, page.limit, _place(sort, page.cursor), wanted)
        following = None if place is None else _cursor(sort, place)
    found = ModelList(await _summaries(ctx.listing, models), following, _rounded(age_s, 3))
    if totals:
        allowed = names_wanted(caller, None)
        if allowed is None:
            found.total, rate = await ctx.engine.store.catalog.count(), ctx.engine.rows_per_s
        else:
            found.total, rate = await listing.totals(allowed)
        found.rows_per_s = _rounded(rate, 1)
    return Response(_encode(found), media_type=JSON)


def names_wanted(caller: Key | None, search: str | None) -> Wanted | None:
    """A function that tells whether a key covers a model whose name matches the search; None: all do."""
    allowed = covered_by(caller)
    if search is None:
        return allowed
    part = search.casefold()
    return lambda name: part in name.casefold() and (allowed is None or allowed(name))


async def _summaries(turns: asyncio.Lock, models: Sequence[Listed]) -> list[ModelSummary]:
    """The summaries of a page, rendered in parts: other tasks have a turn after each.

    Lists that waited for the same table continue in the same turn of the event loop, so ``turns`` lets only one of them
    render a part at a time.
    """
    found: list[ModelSummary] = []
    for start in range(0, len(models), RENDERED_AT_ONCE):
        async with turns:
            found += [_summary(one) for one in models[start : start + RENDERED_AT_ONCE]]
            await asyncio.sleep(0)
    return found


def _summary(listed: Listed) -> ModelSummary:
    version, time_ms, figures = listed.summary
    shown = {**figures._asdict(), "recent": [*figures.recent]}
    if figures.drift is not None:
        row, drift_ms, kind, label = figures.drift
        shown["drift"] = DriftSummary(row, iso(drift_ms), kind, label)
    rate = _rounded(listed.rows_per_s, 2)
    return ModelSummary(name=listed.name, version=version, updated=iso(time_ms), rows_per_s=rate, **shown)


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _cursor(sort: Order, place: ListPosition) -> str:
    return f"~{sort}:{place.key!r}:{place.name}"


def _place(sort: Order, cursor: str | None) -> ListPosition:
    """The position that a cursor names, or before all models without one; ``Invalid`` if the cursor belongs to another
    order.
    """
    if cursor is None:
        return ListPosition()
    found = CURSOR.fullmatch(cursor)
    if found is None or found[1] != sort:
        raise no_cursor()
    return ListPosition(float(found[2]), found[3])
