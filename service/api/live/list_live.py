"""A list of models, live, and the service beside it.

models     a page of the list, made anew in every turn; bytes tell whether it has changed
service    whether the service is ready, and a few figures of it
"""

import asyncio
from typing import Any

import msgspec

from service.api.context import Context
from service.api.health import readiness
from service.api.keys import Key
from service.api.live.producer import Live, Producer
from service.api.model_list import Asked, model_page, names_wanted

COUNT_S = 5.0
"""How often models are counted."""
LISTED_S = 2e-3
"""What a page of the list is taken to cost this process, beside its encoding: reading summaries."""
_encode = msgspec.json.Encoder().encode


class ListProducer(Producer):
    """One page of the list, for everybody who may see the same models.

    Args:
        live: all producers.
        ctx: the collaborators.
        caller: the key of one of them.
        asked: the page.
    """

    def __init__(self, live: Live, ctx: Context, caller: Key | None, asked: Asked) -> None:
        super().__init__(live)
        self._ctx, self._caller, self._asked = ctx, caller, asked
        self._models = 0
        self._counted = float("-inf")

    async def turn(self, due: bool) -> None:
        """Publish what has changed."""
        if not due:
            return
        try:
            await self._show_models()
        finally:  # also where the store does not answer: this is what tells it
            self.publish("service", None, _encode(self._service()))

    async def _show_models(self) -> None:
        self.cost(LISTED_S)
        now = asyncio.get_running_loop().time()
        if now >= self._counted + COUNT_S:
            self._models = await self._ctx.engine.listing.count(names_wanted(self._caller, None))
            self._counted = now
        page = await model_page(self._ctx, self._caller, self._asked)
        with self.measured():
            document = _encode(page)
            self.publish("models", None, document, document.rpartition(b',"age_s":')[0])

    def _service(self) -> dict[str, Any]:
        ctx, wanted = self._ctx, names_wanted(self._caller, None)
        rate = ctx.engine.rows_per_s if wanted is None else ctx.engine.listing.rows_per_s_of(wanted)
        return {
            **readiness(ctx).model_dump(),
            "models": self._models,
            "rows_per_s": None if rate is None else round(rate, 1),
            "streams": len(ctx.places) if wanted is None else None,
        }
