"""The list of models, in several orders."""

import re
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from core.contract import Label
from service.api.http.context import NAME, Caller, Ctx, Paging, iso, no_cursor
from service.api.http.keys import Key
from service.api.http.media import JSON
from service.api.http.route import READ, Route
from service.api.schemas import Body, Time
from service.runtime.lists import ListPosition, Order
from service.store.catalog import Listed, Wanted

router = APIRouter(route_class=Route)
_encode = msgspec.json.Encoder().encode
CURSOR = re.compile(rf"~([a-z]+):(-?[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?):({NAME.pattern})")
"""A cursor of another order than by name: the place of the last model of the page before."""

ListedPhase = Literal["steady", "overlap", "ensemble", "down"]
Sort = Literal["name", "rows", "updated", "worst"]


class DriftSummary(Body):
    """The newest drift event of a model; `GET /models/{name}/drift` has all of it."""

    row: Annotated[int, Field(ge=0, examples=[1204], description="The row that raised its first alarm.")]
    time: Time
    kind: Annotated[str, Field(examples=["class_mean"])]
    label: Annotated[Label | None, Field(examples=["UP"], description="The class compared; null for regression.")] = (
        msgspec.field(name="class")
    )


class ModelSummary(Body):
    """A model in the list; all of it but `rows_per_s` is of one version."""

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
        Field(examples=[0.82], description="The same of the best baseline: `no_change`, `majority` or `last_value`."),
    ]
    paired_score: Annotated[
        float | None,
        Field(examples=[None], description="Regression: the score on the rows of `baseline`, which misses the first."),
    ]
    mean_cost: Annotated[
        float | None, Field(examples=[None], description="With `class_costs`: the mean cost of the answers so far.")
    ]
    baseline_cost: Annotated[
        float | None, Field(examples=[None], description="The same of the constant answer that costs least.")
    ]
    phase: Annotated[
        ListedPhase, Field(examples=["steady"], description="`down`: out of service, or lost by the store.")
    ]
    updated: Time
    drift: Annotated[DriftSummary | None, Field(examples=[None], description="The newest drift event, if any.")]
    challengers: Annotated[int, Field(ge=0, examples=[2], description="Learners beside the model's own.")]
    ahead: Annotated[int, Field(ge=0, examples=[1], description="Those of them whose `difference.low` is above 0.")]
    rows_per_s: Annotated[
        float | None,
        Field(examples=[12.5], description="Over the last 5 to 10 seconds; null where this replica cannot tell."),
    ]


class ModelList(Body, omit_defaults=True):
    """A page of models."""

    models: list[ModelSummary]
    next: Annotated[str | None, Field(examples=[None], description="The `cursor` of the next page.")]
    age_s: Annotated[
        float | None, Field(examples=[1.25], description="Age of the table that the page is from; by name: none.")
    ] = None
    total: Annotated[
        int | None, Field(examples=[1], description="With `totals`: the models that the key may touch.")
    ] = None
    rows_per_s: Annotated[
        float | None, Field(examples=[12.5], description="With `totals`: what they learn on this replica.")
    ] = None


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
    listing, wanted = ctx.engine.listing, names_wanted(caller, search)
    age_s: float | None = None
    if sort == "name":
        if page.cursor is not None and NAME.fullmatch(page.cursor) is None:
            raise no_cursor()
        models, following = await listing.by_name(page.limit, page.cursor, wanted)
    else:
        models, place, age_s = await listing.by(sort, page.limit, _place(sort, page.cursor), wanted)
        following = None if place is None else _cursor(sort, place)
    found = ModelList([_summary(one) for one in models], following, _rounded(age_s, 3))
    if totals:
        allowed = names_wanted(caller, None)
        if allowed is None:
            found.total, rate = await ctx.engine.store.catalog.count(), ctx.engine.rows_per_s
        else:
            found.total, rate = await listing.totals(allowed)
        found.rows_per_s = _rounded(rate, 1)
    return Response(_encode(found), media_type=JSON)


def names_wanted(caller: Key | None, search: str | None) -> Wanted | None:
    """The models that a key may know of, and that are searched for; None: all."""
    allowed = caller.allows if caller is not None and caller.models else None
    if search is None:
        return allowed
    part = search.casefold()
    return lambda name: part in name.casefold() and (allowed is None or allowed(name))


def _summary(listed: Listed) -> ModelSummary:
    version, time_ms, figures = listed.summary
    shown = figures._asdict()
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
    """The place that a cursor of an order names; without one, that before all models.

    Raises:
        Invalid: naming ``cursor``: it is not one of this order.
    """
    if cursor is None:
        return ListPosition()
    found = CURSOR.fullmatch(cursor)
    if found is None or found[1] != sort:
        raise no_cursor()
    return ListPosition(float(found[2]), found[3])
