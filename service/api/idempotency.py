"""Ids that clients give, and the answers of requests that are sent again.

An id that has been seen is recognised even where its rows would no longer validate: a refusal looks the ids up before
it is given.
"""

from collections.abc import Sequence

from core.problems import Invalid, Problem
from service.api.context import Context
from service.errors import RequestConflict
from service.runtime import responses
from service.runtime.replica import Replica, Reply
from service.store.codec import Answer
from service.store.log import SeenId

NO_IDENTITY = "is not 1 to 200 printable characters"
ID, PREDICTION, REQUEST, OVERLAP, SWITCH = "i:", "p:", "k:", "o:", "s:"
"""Prefixes that keep apart ids of labelled rows, prediction ids, Idempotency-Keys, ids of overlap rows and of switches:
a row may teach a mapping before its label comes, under one id."""


def printable(identity: str, field: str) -> str:
    """An id as it was given.

    Raises:
        Invalid: it is none.
    """
    if not _is_identity(identity):
        raise Invalid.of(field, NO_IDENTITY)
    return identity


def _is_identity(identity: str) -> bool:
    return 1 <= len(identity) <= 200 and identity.isprintable()


def per_row(ids: Sequence[str], prefix: str) -> tuple[str, ...]:
    """The ids of a batch's rows.

    Raises:
        Invalid: naming those that are none.
    """
    odd = [at for at, identity in enumerate(ids) if not _is_identity(identity)]
    if odd:
        raise Invalid(*(Problem(f"ids[{at}]", NO_IDENTITY) for at in odd[:20]))
    return tuple(prefix + identity for identity in ids)


async def first_answer(ctx: Context, replica: Replica, identity: str, seen: SeenId) -> Answer:
    """What an id that has been seen was answered."""
    answer = replica.answer(identity, seen.answer)
    return answer or await ctx.engine.applier.regenerate(replica, identity, seen.version)


async def first_reply(ctx: Context, replica: Replica, ids: Sequence[str], seen: Sequence[SeenId]) -> Reply:
    """The reply to a request all of whose ids have been seen: the first answers again.

    Raises:
        RequestConflict: the first answer was a refusal.
    """
    pairs = zip(ids, seen, strict=True)
    reply = responses.repeated(
        len(ids), [(row, await first_answer(ctx, replica, *pair)) for row, pair in enumerate(pairs)]
    )
    if isinstance(reply, Exception):
        raise reply
    return reply


async def known(ctx: Context, replica: Replica, ids: Sequence[str], error: Exception) -> list[SeenId]:
    """What is remembered of the ids of a request that is about to be refused.

    Raises:
        Exception: ``error``, where it has no ids or one of them has not been seen.
    """
    found = await ctx.engine.store.log.lookup(replica.name, replica.incarnation, ids) if ids else [None]
    seen = [one for one in found if one is not None]
    if len(seen) < len(found):
        raise error
    return seen


def same(seen: Sequence[SeenId], digests: Sequence[str]) -> None:
    """Refuse ids that come back with another label or body.

    Raises:
        RequestConflict: they do.
    """
    if any(one.digest != digest for one, digest in zip(seen, digests, strict=True)):
        raise RequestConflict(responses.OTHER)
