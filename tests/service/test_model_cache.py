"""Models come into memory once, however many ask for them and whenever they do."""

import asyncio

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_model_is_loaded_once_for_requests_in_between(api, monkeypatch):
    """One who asks just when the load has ended, and its waiters have not heard of it yet, gets the same replica."""
    path = await api.learnt(rows=5)
    models, name = api.app.state.context.engine.models, path.removeprefix("/models/")
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


def _in_turns(turns, call):
    """Call after so many turns of the event loop."""
    if turns == 0:
        return call
    return lambda: asyncio.get_running_loop().call_soon(_in_turns(turns - 1, call))
