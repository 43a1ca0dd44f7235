"""GET /models/{name}/pending: tracked predictions that wait for their labels."""

from fastapi import APIRouter
from starlette.responses import Response

from core.problems import Invalid
from service.api.context import Context, Ctx, Page, Paging, iso
from service.api.csv_answers import PENDING, Format, csv_answer
from service.api.documents import json_bytes
from service.api.model_schemas import PendingEntry, PendingList
from service.api.models import ReadModel
from service.api.route import READ, Route
from service.runtime.replica import Replica
from service.store import tracked

router = APIRouter(route_class=Route)


@router.get("/models/{name}/pending", tags=["one row"], dependencies=[READ], response_model=PendingList)
async def list_pending(ctx: Ctx, replica: ReadModel, page: Paging, form: Format = "json") -> PendingList | Response:
    """Tracked predictions that wait for their labels.

    A prediction is tracked by `"track": true`. It waits until its label comes or it expires
    (`ONEPASS_PREDICTION_TTL_S`).

    `?format=csv` answers with a table.
    """
    found = await pending_page(ctx, replica, page)
    return found if form == "json" else await csv_answer(json_bytes(found), PENDING, f"{replica.name}-pending")


async def pending_page(ctx: Context, replica: Replica, page: Page) -> PendingList:
    """A page of a model's tracked predictions.

    Raises:
        Invalid: the cursor is none of this list.
        StoreDown: the store did not answer.
    """
    try:
        found, following = await ctx.engine.pending.list(replica.name, replica.incarnation, *page)
    except ValueError as error:
        raise Invalid.of("cursor", "is not a cursor of this list") from error
    waiting, expired = await ctx.engine.pending.counts(replica.name, replica.incarnation)
    entries = []
    for identity, expires_ms, blob in found:
        kept = tracked.decode(blob)
        entries.append(
            PendingEntry(
                prediction_id=identity, prediction=kept.prediction, version=kept.version, expires=iso(expires_ms)
            )
        )
    return PendingList(
        pending=entries, expired=expired, next=following, waiting=waiting, incarnation=replica.incarnation
    )
