"""The steps before a request is refused.

A row that fails validation may still be valid: another replica may have committed a change of features that this one
has not read yet, or the row may have been learned under its id before the features changed. So every route that learns
takes three steps, in this order:

1. Validate the rows.
2. If they are refused, read the log's head, and if this replica was behind it, validate them again (``read_rows``).
3. If they are still refused and all their ids have been seen, give the first answer again (``answer_if_seen``).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request

from core.entry import Promote, Segment, Withdraw
from core.model import Model
from core.problems import Conflict, Invalid
from service.api.http.context import Context
from service.api.http.root_path import route_path
from service.errors import NotFound, RequestConflict
from service.runtime.commit.answerer import conflicting, repeated
from service.runtime.engine import Freshness
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.rows.ids import REQUEST, Identity, identity_of
from service.runtime.rows.row_validation import RowValidator
from service.runtime.threads import DECLARED_BYTES, in_thread_if_large
from service.store.log.appends import SeenId

T = TypeVar("T")
REFUSED = (Invalid, Conflict, RequestConflict)
"""The errors that refuse rows: the rows are wrong, or the model's state does not allow them."""
Plan = Callable[[Model, tuple[str, ...]], Segment | None]
"""Makes a request's entry from the present model and the ids of the request."""
NAME_BYTES = 10  # of a short name and its value in a body


async def read_rows(ctx: Context, replica: Replica, size: int, read: Callable[[RowValidator], T]) -> T:
    """Validate rows against the model; once more if they are refused and the replica was behind the log.

    Rows of large bodies, of ``size`` bytes, are read in a thread. Raises what ``read`` raises.
    """
    version = replica.version
    if replica.model.feedback_schema is None:  # each name may become a feature
        size *= DECLARED_BYTES // NAME_BYTES
    try:
        return await ctx.reader.call_if_large(size, read, validator_of(ctx, replica))
    except REFUSED:
        behind = await ctx.engine.caught_up(replica)
        now = ctx.engine.models.current(replica)  # another object if this one has left memory in the meantime
        if not behind and now is replica and replica.version == version:
            raise
    return await ctx.reader.call_if_large(size, read, validator_of(ctx, now))


def validator_of(ctx: Context, replica: Replica) -> RowValidator:
    """A validator of a model's rows as it is now."""
    return RowValidator(replica.name, replica.model, ctx.engine.models.admit)


def identity_of_change(request: Request, key: str | None, body: bytes = b"") -> Identity:
    """The identity of a request that changes a model: by its Idempotency-Key, which covers route and body."""
    return identity_of(key, None, REQUEST, (f"{request.method} {route_path(request.scope)}\n".encode(), body))


async def commit_change(
    ctx: Context, name: str, identity: Identity, plan: Plan, size_of: Callable[[Model], int] = lambda _: 0
) -> tuple[Replica, Reply | None]:
    """Commit a change of a model, after a snapshot if it removes a learner, or give its first answer again.

    ``plan`` makes the entry from the model at the log's head and the ids, None if nothing changes; ``size_of`` is the
    cost of that, in bytes of a body. Returns the model and the answer (None if nothing changes); raises as ``plan``.
    """
    replica = await ctx.engine.replica(name, Freshness(strong=True))

    def planned() -> Awaitable[Segment | None]:
        return in_thread_if_large(size_of(replica.model), plan, replica.model, identity.ids)

    try:
        async with replica.growing():
            return replica, await _commit(ctx, replica, identity, planned)
    except RequestConflict as error:
        if not error.problems:  # an earlier change rules it out: answer as if it had been sent after that one
            await planned()
        raise


async def _commit(
    ctx: Context, replica: Replica, identity: Identity, planned: Callable[[], Awaitable[Segment | None]]
) -> Reply | None:
    try:
        segment = await planned()
    except (*REFUSED, NotFound) as error:
        return await answer_if_seen(ctx, replica, identity, error)
    if segment is None:  # an earlier request has made the change
        await ctx.engine.answerer.confirmed(replica)
        return None
    if isinstance(segment, Promote | Withdraw):
        log = ctx.engine.store.log
        known = await log.lookup(replica.name, replica.incarnation, identity.ids) if identity.ids else []
        if not any(known):  # a retry's snapshot would show the model after the step
            await ctx.engine.snapshotter.guard(replica)
    return await replica.inbox.submit(segment, identity.digests)


async def after(ctx: Context, name: str, reply: Reply | None) -> Replica:
    """The model after a change, or unchanged."""
    return await ctx.engine.replica(name, Freshness(min_version=0 if reply is None else reply.answer.version))


async def answer_if_seen(ctx: Context, replica: Replica, identity: Identity, error: Exception) -> Reply:
    """The first answer to a request that is about to be refused, see ``first_reply``; raises ``error`` unless it has
    ids and all of them have been seen.
    """
    ids = identity.ids
    found = await ctx.engine.store.log.lookup(replica.name, replica.incarnation, ids) if ids else []
    seen = [one for one in found if one is not None]
    if not seen or len(seen) < len(found):
        raise error
    return await first_reply(ctx, replica, identity, seen)


async def first_reply(ctx: Context, replica: Replica, identity: Identity, seen: Sequence[SeenId]) -> Reply:
    """The first answer to a request, all of whose ids have been seen; ``RequestConflict`` if one was sent with a
    different label or body, or its first answer was a refusal.
    """
    pairs = enumerate(zip(seen, identity.digests, strict=True))
    if (other := next(((row, one) for row, (one, own) in pairs if one.digest != own), None)) is not None:
        raise conflicting(identity.ids, *other)
    again = await ctx.engine.answerer.confirmed(replica, [*zip(identity.ids, seen, strict=True)])
    first = await ctx.engine.answerer.first_answers(replica, again)
    return repeated(len(first), [*enumerate(first)])
