"""Models come into memory once, however many ask for them and whenever they do."""

import asyncio

from service.runtime.replicas.model_cache import LOADS_MAX


async def test_a_model_is_loaded_once_for_requests_in_between(api, monkeypatch):
    """One who asks just when the load has ended, and its waiters have not heard of it yet, gets the same replica."""
    path = await api.learnt(rows=5)
    models, name = api.engine.models, path.removeprefix("/models/")
    models.forget(await models.get(name))
    load, loads, late = models._loader.load, [], []

    def ask():
        late.append(asyncio.ensure_future(models.get(name)))

    async def and_then_ask(asked_for):
        loads.append(asked_for)
        replica = await load(asked_for)
        for turns in range(4):
            asyncio.get_running_loop().call_soon(_in_turns(turns, ask))
        return replica

    monkeypatch.setattr(models._loader, "load", and_then_ask)
    first = await models.get(name)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [first] * 4 == await asyncio.gather(*late)
    assert [name] == loads


async def test_few_models_are_loaded_at_a_time(api, monkeypatch):
    """However many are asked for: what each will take the budget does not know before it is there."""
    models = api.engine.models
    names = [(await api.learnt()).removeprefix("/models/") for _ in range(3 * LOADS_MAX)]
    for name in names:
        models.forget(await models.get(name))
    load, loading, most = models._loader.load, set(), 0

    async def and_wait(asked_for):
        nonlocal most
        loading.add(asked_for)
        most = max(most, len(loading))
        for _ in range(20):
            await asyncio.sleep(0)
        found = await load(asked_for)
        loading.discard(asked_for)
        return found

    monkeypatch.setattr(models._loader, "load", and_wait)
    found = await asyncio.gather(*map(models.get, names))
    assert names == [replica.name for replica in found]
    assert LOADS_MAX == most


def _in_turns(turns, call):
    """Call after so many turns of the event loop."""
    if turns == 0:
        return call
    return lambda: asyncio.get_running_loop().call_soon(_in_turns(turns - 1, call))
