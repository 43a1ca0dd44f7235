"""Writing lost models back into a store that has lost its data."""

from typing import Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request

from service.api import bodies
from service.api.context import Caller, Ctx
from service.api.route import ADMIN, Route

router = APIRouter(route_class=Route, tags=["service"])
KEPT_OUT = (
    "Remembered ids, tracked predictions and drift events are not written back, since no service holds them: feedback "
    "that is sent again with an id from before the loss is learned again."
)


class RefilledModel(BaseModel):
    """What became of one lost model."""

    name: str = Field(examples=["demo"])
    incarnation: str = Field(examples=["8c5f2a1e90b3d746"])
    version: int = Field(ge=0, examples=[18], description="The version that this service holds.")
    outcome: Literal["refilled", "replaced", "kept", "taken", "deleted", "failed"] = Field(
        description="`refilled`: it is there again. `replaced`: so it was already, at an earlier version. `kept`: the "
        "store has it at this version or a later one, or others have gone on from an earlier one. `taken`: its name is "
        "another model's by now. `deleted`: somebody gave it up. `failed`: see `detail`."
    )
    stored_version: int = Field(ge=0, examples=[18], description="The version that the store has now; 0: none.")
    detail: str = Field("", examples=[""], description="Why it failed.")


class RefillReport(BaseModel):
    """The lost models that this service held, and what became of them."""

    models: list[RefilledModel]
    not_restored: str = Field(KEPT_OUT, examples=[KEPT_OUT], description="What the models lack now.")


async def _empty(ctx: Ctx, request: Request) -> None:
    await bodies.require_empty(request, ctx.engine.bounds.body_bytes_max)


@router.post("/refill", dependencies=[ADMIN, Depends(_empty)])
async def refill_store(ctx: Ctx, caller: Caller) -> RefillReport:
    """Write lost models back.

    A model is lost if the store does not have it any more though nobody deleted it: the store came back empty, or from
    a backup that is older than the model. Services that hold it in memory keep it there: it predicts, feedback gets
    503, and `/readyz` says so (`store_data`). This writes every lost model that *this* service holds, and that the key
    may touch, back into the store with its configuration, its version and its state; all services then load it. Ask
    every service: the highest version wins. DELETE gives a lost model up.
    """
    found = await ctx.engine.lost.refill(lambda name: caller is None or caller.allows(name))
    return RefillReport(
        models=[
            RefilledModel(
                name=each.name,
                incarnation=each.incarnation,
                version=each.version,
                outcome=each.outcome,
                stored_version=each.stored,
                detail=each.detail,
            )
            for each in found
        ]
    )
