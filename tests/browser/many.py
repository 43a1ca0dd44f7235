"""Thousands of models in a store within a second or two, with the same keys as if the service had created them."""

from core.model import Summary
from service.store import summaries
from service.store.catalog import _CREATE
from service.store.keys import INDEX, ModelKeys
from service.store.redis.connection import Call, Connection

AT_ONCE = 500


async def create(url: str, models: int) -> None:
    """Create models many-00000 and so on: classifiers, each better than the one before, with a baseline of one half.

    They have no configuration to load: they are only for lists.
    """
    connection = Connection(url, 30.0)
    for start in range(0, models, AT_ONCE):
        numbers = range(start, min(models, start + AT_ONCE))
        made = [ModelKeys(f"many-{at:05}", f"inc-{at}") for at in numbers]
        await connection.ask(("ZADD", INDEX, *(part for keys in made for part in (0, keys.member()))))
        shown = [Summary("dfop", "classification", 100 + at, at / models, 0.5, "steady") for at in numbers]
        records = zip(made, map(summaries.encode_first, shown), strict=True)
        await connection.run(
            [Call(_CREATE, (keys.meta, keys.lost), (keys.incarnation, b"{}", one)) for keys, one in records]
        )
    await connection.close()
