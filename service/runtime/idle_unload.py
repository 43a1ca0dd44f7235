"""Unloads what this process only follows: models that other processes learn and nobody asks for here.

Where a balancer sends a model to one process, another one that was asked for it once would apply every row of it for
ever. Such a replica leaves memory after a while, as under the memory budget, and the next request loads it again. A
model that nobody appends to stays: it costs its memory alone, and for that there is the budget.
"""

import asyncio

from service.runtime.model_cache import ModelCache

TURNS = 10
"""How often the models are looked at within the time after which they leave."""
PAUSE_S_MIN = 0.1
"""Least pause between two looks."""


class IdleUnload:
    """Looks at all loaded models now and then.

    Args:
        models: the loaded models.
        idle_s: how long a model is followed with nobody asking for it; 0: for ever.
    """

    def __init__(self, models: ModelCache, idle_s: float) -> None:
        self._models, self._idle_s = models, idle_s

    async def run(self) -> None:
        """Unload what is due for ever; the supervisor restarts it should it die."""
        if not self._idle_s:
            await asyncio.get_running_loop().create_future()  # the supervisor would restart a task that has ended
        while True:
            await asyncio.sleep(max(PAUSE_S_MIN, self._idle_s / TURNS))
            self._models.unload_followed(asyncio.get_running_loop().time() - self._idle_s)
