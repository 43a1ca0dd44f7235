"""The model of a request is the one that is there when its body has arrived, whatever happened to it meanwhile."""

import asyncio
import json

import pytest

from service.api.rows import predict
from service.api.schemas import PredictRow
from service.runtime import threads
from tests.service.api_fixtures import DFOP, JSON, problem

BLANKS = b" " * 70_000  # more than is read at once
OLD, NEW = {"a": 0.25, "b": -0.5}, {"a": 0.25, "c": -0.5}
SWITCHED = [{"action": "begin", "features": [*NEW]}, {"action": "complete", "force": True}]


def by_name(row):
    return {"inputs": [{"name": name, "shape": [1], "datatype": "FP64", "data": [row[name]]} for name in row]}


REQUESTS = {
    "predict": lambda row: ("predict", {"features": row}),
    "track": lambda row: ("predict", {"features": row, "track": True}),
    "explain": lambda row: ("predict", {"features": row, "explain": True}),
    "predict/batch": lambda row: ("predict/batch", {"columns": [*row], "data": [[*row.values()]]}),
    "infer": lambda row: ("infer", by_name(row)),
    "infer and track": lambda row: ("infer", {**by_name(row), "parameters": {"track": True}}),
    "feedback": lambda row: ("feedback", {"features": row, "label": "UP", "id": "slow"}),
}
"""Requests with one row: the end of the path, and the body."""


class Slow:
    """A request whose body has not arrived yet."""

    def __init__(self, api, path, request, row):
        route, body = REQUESTS[request](row)
        path = path.replace("/models", "/v2/models") if route == "infer" else path
        self._begun, self._rest = asyncio.Event(), asyncio.Event()
        sent = self._sent(json.dumps(body).encode())
        self._answer = asyncio.create_task(api.ask("POST", f"{path}/{route}", content=sent, headers=JSON))

    async def _sent(self, body):
        yield BLANKS
        self._begun.set()
        await self._rest.wait()
        yield body

    async def begun(self):
        async with asyncio.timeout(20):
            await self._begun.wait()

    async def answer(self):
        """The answer, once the rest has arrived."""
        self._rest.set()
        async with asyncio.timeout(20):
            return await self._answer


def seen(answer):
    """The version and the incarnation of an answer."""
    body = answer.json()
    if "model_version" in body:
        return int(body["model_version"]), body["parameters"]["incarnation"]
    return body["version"], body["incarnation"]


def leave(api, path, monkeypatch):
    """The model leaves memory."""
    models = api.engine.models
    with monkeypatch.context() as patch:
        patch.setattr(models, "_budget_bytes", 0)
        models._loaded.move_to_end(path.removeprefix("/models/"), last=False)
        models.shrink()
    assert models.peek(path.removeprefix("/models/")) is None


async def switched(api, path):
    """Its features change."""
    for step in SWITCHED:
        await api.post(f"{path}/features/switch", step)


@pytest.mark.parametrize("request_", REQUESTS)
async def test_the_features_of_a_model_that_was_loaded_again(api, request_, monkeypatch):
    """Rows of the new features are answered by the model with these, those of the old ones are refused."""
    path = await api.learnt(rows=6)
    await api.new()  # the model used last stays in memory
    new, old = Slow(api, path, request_, NEW), Slow(api, path, request_, OLD)
    await asyncio.gather(new.begun(), old.begun())
    leave(api, path, monkeypatch)
    await switched(api, path)
    version = (await api.get(path))["version"]
    problem(await old.answer(), 422)
    answer = await new.answer()
    assert 200 == answer.status_code, answer.text
    assert version + (request_ == "feedback") == seen(answer)[0]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_model_that_was_deleted_or_created_again(api, request_, again):
    """Without it, its requests find none; a new one of its name answers them."""
    path = await api.learnt()
    slow = Slow(api, path, request_, OLD)
    await slow.begun()
    await api.ask("DELETE", path)
    if not again:
        problem(await slow.answer(), 404)
        return
    assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
    answer = await slow.answer()
    assert 200 == answer.status_code, answer.text
    assert (await api.get(path))["incarnation"] == seen(answer)[1]


async def test_a_model_that_is_loaded_again_while_its_row_is_read(api, monkeypatch):
    """Each attempt to predict the row takes the replica that is in memory then."""
    path = await api.learnt()
    await api.new()
    replica = api.engine.models.peek(path.removeprefix("/models/"))
    leave(api, path, monkeypatch)
    await switched(api, path)
    async with asyncio.timeout(20):
        answer = await predict.predict_asked(api.app.context, replica, PredictRow(features=NEW), 0)
    assert (await api.get(path))["version"] == answer.version > replica.version


@pytest.mark.parametrize("request_", ["predict", "infer"])
async def test_features_that_keep_changing_end_in_503(api, request_, monkeypatch):
    """After some attempts; the next request is answered."""
    path, tries = await api.learnt(), []

    async def changed(*_):
        tries.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(predict, "held", changed)
        patch.setattr(threads, "THREAD_FLOPS", -1)
        problem(await Slow(api, path, request_, OLD).answer(), 503)
    assert predict.ATTEMPTS_MAX == len(tries)
    assert 200 == (await Slow(api, path, request_, OLD).answer()).status_code
