"""The first append of newer code to a model: the whole state as this code has it, which every replica adopts.

Code of another state version may compute other bits from the same log, and from an older snapshot others than from a
newer one. Behind this entry all replicas have one state again. Older code refuses the entry, and the model with it.
"""

from core.entry import UPGRADE, Restore
from service.runtime.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store import codec
from service.store.appends import NamedState
from service.store.log import SegmentIn
from service.store.pieces import digest
from service.store.states import States


async def upgrade(states: States, replica: Replica) -> tuple[Restore, SegmentIn]:
    """The present state of a replica, written to the store; the segment that names it and follows this version only.

    Raises:
        ModelDown, Recreated, StoreDown: it cannot be done.
    """
    async with replica.held():
        version = replica.version
        stamp = {"incarnation": replica.incarnation, "version": version, "uid": replica.uid}
        state = await in_thread_if_large(replica.machine.nbytes, replica.machine.to_bytes, stamp)
    named = await in_thread_if_large(len(state), digest, state)
    await states.write(replica.name, replica.incarnation, named, state)
    segment = Restore(state, UPGRADE, digest=named, size=len(state))
    return segment, SegmentIn(codec.encode(segment), state=NamedState(named, len(state), version))
