"""The first answer to an id that comes again: as the store or the replica remembers it, or found again in the log."""

from collections.abc import Awaitable, Callable, Sequence

from core.entry import Outcome
from service.errors import ModelDown, Recreated
from service.runtime.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store import codec
from service.store.log import Log, SeenId

ANSWER_BYTES = 1000
"""What decoding or merging one answer is taken to be worth in bytes read."""
Again = tuple[str, SeenId]
"""An id, and what the store remembers of it."""


class FirstAnswers:
    """Finds the answers that were given to ids.

    Args:
        log: the store's logs.
        load: loads a separate replica at the head of the log, rebuilt from before a version.
    """

    def __init__(self, log: Log, load: Callable[[str, int], Awaitable[Replica]]) -> None:
        self._log, self._load = log, load

    async def find(self, replica: Replica, again: Sequence[Again]) -> list[Outcome]:
        """The first answer to each id.

        Raises:
            ModelDown: neither the store nor the log has one, which breaks the rule that snapshots follow answers.
            NotFound, Recreated: the model was deleted meanwhile.
        """
        found = await _decoded([seen.answer or replica.answers.get(identity) for identity, seen in again])
        lacking = [at for at, answer in enumerate(found) if answer is None]
        if lacking:
            for at, answer in zip(lacking, await self._rebuild(replica, [again[at] for at in lacking]), strict=True):
                found[at] = answer
        return [answer for answer in found if answer is not None]

    async def _rebuild(self, replica: Replica, again: Sequence[Again]) -> list[Outcome]:
        """The answers of entries whose writer crashed before storing them: rebuilt from the log, all at once.

        A separate replica is loaded for that, since the live one may have an append under way. It begins before the
        first of the entries: a failover may have lost the stored answer and kept the entry, and newer snapshots may
        exist. It is asked last, since only a crash leaves it anything to do: a writer may be about to store them.
        """
        found = await self._stored(replica, again)
        if None in found:
            before = min(seen.version for (_, seen), answer in zip(again, found, strict=True) if answer is None)
            try:
                aside = await self._load(replica.name, before)
                if aside.incarnation != replica.incarnation:  # its ids are others, whatever their names
                    raise Recreated(f"model {replica.name} was created again: send the request again")
                rebuilt = await _decoded([aside.answers.get(identity) for identity, _ in again])
                found = [answer or now for answer, now in zip(found, rebuilt, strict=True)]
            except ModelDown:  # the log does not reach back so far
                pass
        if None in found:  # the writer may have stored them meanwhile
            found = [answer or now for answer, now in zip(found, await self._stored(replica, again), strict=True)]
        answers = [answer for answer in found if answer is not None]
        if len(answers) < len(again):
            raise ModelDown(f"the answers of {len(again) - len(answers)} ids of {replica.name} cannot be found again")
        return answers

    async def _stored(self, replica: Replica, again: Sequence[Again]) -> list[Outcome | None]:
        known = await self._log.lookup(replica.name, replica.incarnation, [identity for identity, _ in again])
        return await _decoded([None if seen is None else seen.answer for seen in known])


async def _decoded(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    """Answers from bytes, where there are any; many of them in a thread."""
    return await in_thread_if_large(ANSWER_BYTES * len(stored), _decode, stored)


def _decode(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    return [None if answer is None else codec.decode_answer(answer) for answer in stored]
