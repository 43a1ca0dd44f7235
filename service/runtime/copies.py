"""Copies of models: a new incarnation at version 0 with the state that another model has now."""

import secrets
import time

from core.model import read, save
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
    own = secrets.token_hex(8)
    with engine.state_budget.held(replica.model.nbytes):
        async with replica.held():
            model, now_ms = replica.model, int(time.time() * 1000)
            origin = Origin(replica.name, replica.incarnation, replica.version, key)
            config, summary, rows = model.config.canonical.encode(), encode_first(read.summary(model)), model.rows
            stamp = {"incarnation": own, "version": 0, "uid": own}
            state = await in_thread_if_large(model.nbytes, save.to_bytes, model, stamp, True)
        await read_back(replica.name, state)
        checksum = await in_thread_if_large(len(state), digest, state)
        info = SnapshotInfo(0, own, rows, now_ms, len(state), checksum)
        made = Copy(name, own, config, origin, summary, info)
        incarnation, known = await copies.write(engine.store.connection, made, state)
    if incarnation != own and not origin.asked_again(known):
        raise RequestConflict(f"model {name} exists; DELETE it first or choose another name")
    return await engine.models.present(name, incarnation)
