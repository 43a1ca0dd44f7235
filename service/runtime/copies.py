"""Models that start with a state: a new incarnation at version 0 with what another model or an exported state holds."""

import asyncio
import secrets
import time

from core.contract import Buffer
from core.model import Model, read, save
from service.errors import RequestConflict
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica
from service.runtime.snapshots import read_back
from service.runtime.threads import in_thread_if_large
from service.store.states import copies
from service.store.states.copies import Copy, Origin
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo
from service.store.summaries import encode_first


async def copy(engine: Engine, replica: Replica, name: str, key: str = "") -> Replica:
    """Copy a model as it is now: its state and configuration, but no ids, tracked predictions or alarms.

    If an earlier request with the same Idempotency-Key has made the copy, return that one.

    Raises:
        RequestConflict: the name is taken.
        ModelLost: the store has lost the model of that name, but a service still holds it.
        QueueFull: other requests hold the maximum number of bytes of states.
        ModelDown, StoreDown: the state cannot be read or written.
    """
    await engine.models.confirm(name)
    with engine.state_budget.held(replica.model.nbytes):
        async with replica.held():
            origin = Origin(replica.name, replica.incarnation, replica.version, key)
            made, state = await in_thread_if_large(replica.model.nbytes, _made, name, replica.model, origin)
        await read_back(replica.name, state)
        incarnation, known = await copies.write(engine.store.connection, made, state)
        del state  # loading the model takes as much again
    if incarnation != made.incarnation and not origin.asked_again(known):
        raise RequestConflict(f"model {name} exists; DELETE it first or choose another name")
    return await engine.models.present(name, incarnation)


async def create(engine: Engine, name: str, exported: Buffer) -> tuple[Replica, bool]:
    """Create a model from an exported state, or find the one of that name; also returns whether it is new.

    ``save.from_bytes`` must have accepted the state. Raises as ``copy``, and ``NotFound`` if the model that was found
    is deleted meanwhile.
    """
    made, state = await asyncio.to_thread(_imported, name, exported)
    incarnation, _ = await copies.write(engine.store.connection, made, state)
    del state  # loading the model takes as much again
    return await engine.models.present(name, incarnation), incarnation == made.incarnation


def _imported(name: str, exported: Buffer) -> tuple[Copy, bytes]:
    model, _ = save.from_bytes(exported)
    model.own.metrics.mark(model.rows, "import")
    return _made(name, model, Origin(name, "", 0, ""))


def _made(name: str, model: Model, origin: Origin) -> tuple[Copy, bytes]:
    """A new model with the state of another one, and that state as its snapshot of version 0."""
    own, now_ms = secrets.token_hex(8), int(time.time() * 1000)
    state = save.to_bytes(model, {"incarnation": own, "version": 0, "uid": own}, True)
    info = SnapshotInfo(0, own, model.rows, now_ms, len(state), digest(state))
    config, summary = model.config.canonical.encode(), encode_first(read.summary(model)._replace(drift=None))
    return Copy(name, own, config, origin, summary, info), state
