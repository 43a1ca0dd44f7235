"""GET /models/{name}/pending: tracked predictions that wait for their labels."""

from fastapi import APIRouter

from core.problems import Invalid
from service.api.context import Ctx, Paging, iso
from service.api.model_schemas import PendingEntry, PendingList
from service.api.models import ReadModel
from service.api.route import READ, Route
from service.store import tracked

router = APIRouter(route_class=Route)


@router.get("/models/{name}/pending", tags=["one row"], dependencies=[READ])
async def list_pending(ctx: Ctx, replica: ReadModel, page: Paging) -> PendingList:
    """Tracked predictions that wait for their labels.

    A prediction is tracked by `"track": true`. It waits until its label comes or it expires
    (`ONEPASS_PREDICTION_TTL_S`).
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
