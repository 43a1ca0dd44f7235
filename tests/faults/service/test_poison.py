"""An entry that cannot be applied takes one model out of service, not the service."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, save
from service.errors import ModelDown
from service.runtime.replicas.batches import SingleEntry
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.store.keys import ModelKeys
from service.store.log import codec
from service.store.log.appends import Append, Appended, SegmentIn
from service.store.log.log import Log
from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import asked, judge, meta


def _too_wide(state):
    """Rows of the model's own space with one column too many."""
    space = save.from_bytes(state)[0].prediction_schema.id
    return codec.encode(Rows(space, None, np.ones((1, 6)), ["up"]))


def _not_a_segment(state):
    return b"\xc1 no such thing"


def _foreign(store):
    """Append an entry in an unknown format, and count it in the model's version."""
    found = meta(store.url)
    keys = ModelKeys("m", found.incarnation)
    with store.client() as client:
        client.xadd(keys.log, {"row": "1,2,3"}, id=f"{found.version + 1}-0")
        client.hset(keys.meta, mapping={"version": found.version + 1, "uid": "foreign"})


def _append(url, blob, name="m"):
    """Append as another process would."""
    found = meta(url, name)
    head = (name, found.incarnation, found.version, found.uid)
    append = Append(*head, "stranger", 1, "stranger.1", (SegmentIn(blob),), 60_000, 1000, 2**20)
    (answer,) = asked(url, lambda connection: Log(connection).append([append]))
    assert isinstance(answer, Appended)
    assert "ok" == answer.code


@pytest.mark.slow_but("_foreign")
@pytest.mark.parametrize("poison", [_too_wide, _not_a_segment, _foreign])
def test_an_entry_that_cannot_be_applied_only_takes_out_its_model(serve, store, poison):
    """Its model gets 503, before and after a restart; another model learns on, and the name can be reused."""
    service, table = serve(REDIS_URL=store.url).start(), rows(60, 19)
    service.create()
    service.create("other")
    Load([service], table[:30]).run()
    others = [Load([service], table[:30], model="other").run()]
    if poison is _foreign:
        _foreign(store)
    else:
        _append(store.url, poison(service.state()))

    sent = Client(service).send(table[30])
    assert (503, "model-down") == (sent.status, sent.problem)
    for request in (("GET", "/models/m"), ("POST", "/models/m/predict", {"features": table[0].features})):
        refused = service.request(*request)
        assert (503, "model-down") == (refused.status, refused.problem)
    assert (1, 0) == (service.metric("down_models"), service.metric("queued"))
    assert "model m is out of service" in service.log
    assert 200 == service.request("GET", "/readyz").status
    others.append(Load([service], table[30:45], model="other").run())

    service.restart()
    assert 503 == service.request("GET", "/models/m").status
    assert 503 == service.request("GET", "/models/m").status
    assert 1 == service.metric("down_models")
    assert "model m cannot be loaded" in service.log
    others.append(Load([service], table[45:], model="other").run())
    judge(service, table, *others, name="other")
    assert 200 == eventually(200, service.ready)

    assert 204 == service.request("DELETE", "/models/m").status
    service.create()
    judge(service, table, Load([service], table).run())


def test_requests_waiting_for_a_poisoned_model_are_all_answered(serve, store):
    """Requests in the queue are refused as soon as their model goes out of service."""
    service, table = serve(REDIS_URL=store.url, segments=1).start(), rows(60, 20)
    service.create()
    Load([service], table[:10]).run()
    _append(store.url, _too_wide(service.state()))
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda row: Client(service).send(row), table[10:]))
    assert {(503, "model-down")} == {(answer.status, answer.problem) for answer in answers}
    assert 0 == service.metric("queued")


@pytest.mark.slow
def test_a_log_that_cannot_be_written_affects_one_model(serve, store):
    """A stray entry above the head makes every append of one model fail: it gets 503, other models are not affected."""
    service, table = serve(REDIS_URL=store.url).start(), rows(40, 21)
    service.create()
    service.create("other")
    Load([service], table[:10]).run()
    found = meta(store.url)
    with store.client() as client:
        client.xadd(ModelKeys("m", found.incarnation).log, {"stray": "1"}, id=f"{found.version + 100}-0")
    load = Load([service], table, model="other").start()
    for row in table[10:20]:
        sent = Client(service).send(row)
        assert (503, "store-down") == (sent.status, sent.problem)
        assert 200 == service.request("GET", "/readyz").status
    load.finish()
    assert ({}, 0) == (dict(load.refused), load.broken)
    judge(service, table, load, name="other")
    assert 10 == service.get("/models/m?consistency=strong")["rows"]


async def test_the_rest_of_a_failed_apply_is_never_read():
    """A snapshot, an export or a prediction that waits for the model while an apply fails gets no state."""
    config = Config.parse({"algorithm": "dfop", "task": "regression", "features": ["x"]})
    replica = Replica("m", "inc", 0, Model.first(config), 0, "inc", 0, Stats())
    poison = Entry(1, 0, (Rows(replica.model.prediction_schema.id, None, np.ones((1, 2)), np.ones(1)),))

    async def read():
        async with replica.held():
            return save.to_bytes(replica.model)

    async with replica.lock:
        waiting = [asyncio.create_task(replica.apply(SingleEntry(poison, "uid", 1))), asyncio.create_task(read())]
        await asyncio.sleep(0)
    assert [ModelDown, ModelDown] == [type(found) for found in await asyncio.gather(*waiting, return_exceptions=True)]
    assert 0 == replica.version
