"""Ids that clients give, and what comes before a refusal.

A row that does not validate may still be right: another replica may have committed a change of features that this one
has not read yet, or the row may have been learned under its id before the features changed. So every route that learns
takes three steps in this order:

1. Validate the rows.
2. If they are refused, read the log's head, and if this replica was behind it, validate them again (``read_rows``).
3. If they are still refused and all their ids have been seen, give the first answer again (``answer_if_seen``).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from core.problems import Conflict, Invalid, Problem
from service.api.context import Context
from service.api.tables import check_size
from service.errors import RequestConflict
from service.runtime import responses
from service.runtime.jobs import Reply
from service.runtime.replica import Replica
from service.runtime.row_validation import Labels, RowValidator
from service.runtime.threads import in_thread_if_large
from service.store.log import SeenId

T = TypeVar("T")
REFUSED = (Invalid, Conflict)
"""What rows are refused by: themselves, or the model's state."""
NO_IDENTITY = "is not 1 to 200 printable characters"
ID, PREDICTION, REQUEST, OVERLAP, SWITCH = "i:", "p:", "k:", "o:", "s:"
"""Prefixes that keep apart ids of labelled rows, prediction ids, Idempotency-Keys, ids of overlap rows and of switches:
a row may teach a mapping before its label comes, under one id."""


class Identity(NamedTuple):
    """What a request is remembered by.

    Attributes:
        ids: one per row, or a single one for the whole request, each with its prefix; () where the client gave none.
        digests: one per id: what a request of the same id must agree with. () where these are the labels' digests.
    """

    ids: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------ ids


def identity_of(
    key: str | None, given: str | Sequence[str] | None, prefix: str, sent: Sequence[bytes], ids_max: int = 1
) -> Identity:
    """The identity of a request: by its Idempotency-Key, by the id of its one row, or by the ids of its rows.

    Args:
        key: the header.
        given: the ids in the body; a text is the one of a single row.
        prefix: of these ids.
        sent: what an Idempotency-Key stands for, in parts.
        ids_max: most ids in one request.

    Raises:
        Invalid: an id that is none, or key and ids together.
        TooLarge: too many ids.
    """
    field = "id" if isinstance(given, str) else "ids"
    if key is not None:
        if given is not None:
            raise Invalid.of(field, "excludes Idempotency-Key" if field == "id" else "exclude Idempotency-Key")
        return Identity((REQUEST + printable(key, "Idempotency-Key"),), (digest(*sent),))
    if given is None:
        return Identity()
    if isinstance(given, str):
        return Identity((prefix + printable(given, field),))
    check_size(len(given), ids_max)
    odd = [at for at, one in enumerate(given) if not _is_id(one)][:20]
    if odd:
        raise Invalid(*(Problem(f"ids[{at}]", NO_IDENTITY) for at in odd))
    return Identity(tuple(prefix + one for one in given))


def printable(given: str, field: str) -> str:
    """An id as it was given.

    Raises:
        Invalid: it is none.
    """
    if not _is_id(given):
        raise Invalid.of(field, NO_IDENTITY)
    return given


def _is_id(given: str) -> bool:
    return 1 <= len(given) <= 200 and given.isprintable()


def digest(*parts: bytes) -> str:
    """The digest by which a body sent under an Idempotency-Key is compared with a later one."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


def digests_of(labels: Labels) -> tuple[str, ...]:
    """The digests by which labels are compared, as ``RowValidator.bare_labels`` gives them; False is not 0."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return tuple([digest(json.dumps(label).encode()) for label in values])


# ------------------------------------------------------------------------------------------------ before a refusal


async def read_rows(ctx: Context, replica: Replica, size: int, read: Callable[[RowValidator], T]) -> T:
    """Validate rows against the model; once more if they are refused and the replica was behind the log.

    Args:
        ctx: the handler's.
        replica: the model.
        size: bytes of the body; rows of large ones are read in a thread.
        read: reads them.

    Raises:
        Invalid, Conflict: as ``read``.
    """
    try:
        return await in_thread_if_large(size, read, RowValidator(ctx.engine.models, replica))
    except REFUSED:
        if not await ctx.engine.caught_up(replica):
            raise
    return await in_thread_if_large(size, read, RowValidator(ctx.engine.models, replica))


async def answer_if_seen(ctx: Context, replica: Replica, identity: Identity, error: Exception) -> Reply:
    """The first answer to a request that is about to be refused, if all its ids have been seen.

    Raises:
        Exception: ``error``, where it has no ids or one of them has not been seen.
        RequestConflict: an id was sent with another label or body, or its first answer was a refusal.
    """
    ids = identity.ids
    found = await ctx.engine.store.log.lookup(replica.name, replica.incarnation, ids) if ids else []
    seen = [one for one in found if one is not None]
    if not seen or len(seen) < len(found):
        raise error
    return await first_reply(ctx, replica, identity, seen)


async def first_reply(ctx: Context, replica: Replica, identity: Identity, seen: Sequence[SeenId]) -> Reply:
    """The first answer to a request, all of whose ids have been seen.

    Raises:
        RequestConflict: an id was sent with another label or body, or its first answer was a refusal.
    """
    if any(one.digest != own for one, own in zip(seen, identity.digests, strict=True)):
        raise RequestConflict(responses.OTHER)
    first = await ctx.engine.first_answers.find(replica, [*zip(identity.ids, seen, strict=True)])
    reply = responses.repeated(len(first), [*enumerate(first)])
    if isinstance(reply, Exception):
        raise reply
    return reply
