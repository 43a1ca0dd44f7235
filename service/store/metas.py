"""Reads the meta HASHes of models. One that is damaged, or foreign data in its place, concerns its own model only."""

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from service.errors import ModelDown
from service.store.keys import meta_key
from service.store.redis.connection import Call, Connection

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_DAMAGED = "its record in the store is damaged"


async def metas(
    connection: Connection, names: Sequence[str], fields: Sequence[str], made: Callable[..., _T], *, quick: bool = False
) -> list[_T | ModelDown | None]:
    """What ``made`` makes of the incarnation and these fields of each model's meta, read in one round trip.

    None: there is no such model; ``ModelDown``: its meta cannot be read. Raises as ``Connection.every``.
    """
    keys = [meta_key(name) for name in names]
    calls = [Call(None, (key,), ("HMGET", key, "incarnation", "version", *fields)) for key in keys]
    found: list[_T | ModelDown | None] = []
    for name, result in zip(names, await connection.run(calls, quick=quick), strict=True):
        if isinstance(result, Exception) and not str(result.__cause__).startswith("WRONGTYPE"):
            raise result
        try:
            incarnation, version, *rest = result
            found.append(None if incarnation is version is None else made(incarnation.decode(), *rest))
        except (AttributeError, TypeError, ValueError):  # a field is missing or not what it should be, or no HASH
            found.append(damaged(name))
    return found


def damaged(name: str) -> ModelDown:
    """The error of a model whose meta cannot be read; it is logged once."""
    _tell(name)
    way_out = "restore the store from a backup, or delete the model"
    return ModelDown(f"model {name}: {_DAMAGED}", "cannot be read", way_out)


@lru_cache(maxsize=1000)
def _tell(name: str) -> None:
    logger.error("model %s: %s", name, _DAMAGED)
