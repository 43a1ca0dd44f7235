"""Copies of models: a new incarnation at version 0 with the state that another model has now."""

import secrets
import time

from core.model import STATE_VERSION, read, save
from service.errors import RequestConflict
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store.states import copies
from service.store.states.copies import Copy, Origin
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo
from service.store.summaries import encode_first


async def copy(engine: Engine, replica: Replica, name: str, key: str = "") -> Replica:
    """Copy a model as it stands: its state and its configuration, neither ids, tracked predictions nor alarms.

    A copy that is there already, by a request with the same Idempotency-Key, is this one.

    Raises:
        RequestConflict: the name is taken.
        ModelLost: the store has lost the model of that name, which is held here.
        QueueFull: other requests hold as many bytes of states as may be.
        ModelDown, StoreDown: it cannot be read, or written.
    """
    await engine.models.confirm(name)
    with engine.state_budget.held(replica.model.nbytes):
        made, state = await _packed(replica, name, key)
        incarnation, origin = await copies.write(engine.store.connection, made, state)
    if incarnation != made.incarnation and not made.origin.asked_again(origin):
        raise RequestConflict(f"model {name} exists; DELETE it first or choose another name")
    return await engine.models.present(name, incarnation)


async def _packed(replica: Replica, name: str, key: str) -> tuple[Copy, bytes]:
    """The copy that is to be written, and its state."""
    incarnation = secrets.token_hex(8)
    async with replica.held():
        model, now_ms = replica.model, int(time.time() * 1000)
        origin = Origin(replica.name, replica.incarnation, replica.version, key)
        config, summary, rows = model.config, encode_first(read.summary(model)), model.rows
        stamp = {"incarnation": incarnation, "version": 0, "uid": incarnation}
        state = await in_thread_if_large(model.nbytes, save.to_bytes, model, stamp, True)
    checksum = await in_thread_if_large(len(state), digest, state)
    info = SnapshotInfo(0, incarnation, rows, now_ms, len(state), checksum, STATE_VERSION)
    return Copy(name, incarnation, config.canonical.encode(), origin, summary, info), state
