"""A bug kills a task of the service: no request hangs."""

import asyncio

import numpy as np

from core.config import Config
from core.entry import Rows
from service import app
from service.errors import StoreDown
from service.runtime.engine import Engine
from service.runtime.replicas.loader import Store
from service.settings import Settings
from service.store.redis.connection import Connection
from tests.faults.processes import PATIENCE_S


class _Dying:
    """A log whose round trips raise an unexpected error."""

    def node_key(self, _):
        return ""

    async def append(self, *_, **__):
        raise RuntimeError("a bug")


async def test_a_committer_that_dies_fails_the_requests_it_had_and_those_queued(store, monkeypatch):
    """All get 503, readiness goes away and comes back, and the next request is learned."""
    monkeypatch.setattr(app, "TICK_SEGMENTS_MAX", 2)
    engine = Engine(Store(Connection(store.url, 5)), app.bounds(Settings()))
    await engine.start()
    try:
        replica, _ = await engine.models.create(
            "m", Config.parse({"algorithm": "dfop", "task": "regression", "features": ["x"]})
        )
        row = Rows(replica.model.prediction_schema.id, None, np.ones((1, 1)), np.ones(1))
        log, engine.committer._log = engine.committer._log, _Dying()
        waiting = [replica.inbox.submit(row) for _ in range(5)]
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert [StoreDown] * 5 == [type(answer) for answer in answers]
            assert not engine.ready()[0]
            engine.committer._log = log
            while not engine.ready()[0]:
                await asyncio.sleep(0.01)
            assert 1 == (await replica.inbox.submit(row)).answer.rows
    finally:
        await engine.stop()
