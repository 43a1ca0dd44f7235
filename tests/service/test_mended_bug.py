"""A bug in core takes one model out of service; with the bug mended the model serves again and has lost nothing."""

import gc

import pytest

from core.entry import Rows
from core.model import save
from service.errors import ModelDown
from service.runtime.replicas import batches
from tests.service.api_fixtures import features, problem, running

DEADLY = 77.0
DEADLY_ROW = {"features": {"a": DEADLY, "b": 1.0}, "label": "UP", "id": "deadly"}
AFTER = {"features": features(9), "label": "DOWN", "id": "after"}


def failing(apply):
    """``apply`` with a bug: it raises at one row, after it has learned others of the same entry."""

    def applied(model, entry):
        outcomes = apply(model, entry)
        if any(isinstance(segment, Rows) and (segment.X[:, 0] == DEADLY).any() for segment in entry.segments):
            raise IndexError("tuple index out of range")
        return outcomes

    return applied


def failing_merged(apply_merged):
    """``apply_merged`` with the same bug."""

    def applied(model, merged, first):
        if (merged.rows.X[merged.start(first) :, 0] == DEADLY).any():
            raise IndexError("tuple index out of range")
        return apply_merged(model, merged, first)

    return applied


def break_core(bug):
    """Put the bug in."""
    bug.setattr(batches, "apply", failing(batches.apply))
    bug.setattr(batches, "apply_merged", failing_merged(batches.apply_merged))


async def learned(api, path):
    """The state of a model without where it was taken."""
    model, _ = save.from_bytes(await api.state(path))
    return save.to_bytes(model)


async def is_down(api, path):
    """Reading, predicting and learning are answered alike."""
    for answer in (
        await api.ask("GET", path),
        await api.ask("POST", f"{path}/predict", json={"features": features(1)}),
        await api.ask("POST", f"{path}/feedback", json=AFTER),
    ):
        assert problem(answer, 503, "name")["type"].endswith("/model-down")
        assert "fix the code and restart" in answer.json()["errors"][0]["allowed"]


async def test_a_model_that_a_bug_took_out_serves_again_once_it_is_mended(store_url):
    """A restart with the bug does not help; one without it learns the deadly row, once, as if there had been no bug."""
    with pytest.MonkeyPatch.context() as bug:
        break_core(bug)
        async with running(store_url) as api:
            path, other = await api.learnt(rows=5), await api.learnt(rows=5)
            assert problem(await api.ask("POST", f"{path}/feedback", json=DEADLY_ROW), 503)["type"].endswith("down")
            await is_down(api, path)
            assert 6 == (await api.post(f"{other}/feedback", {"features": features(6), "label": "UP"}))["rows"]
        async with running(store_url) as api:
            await is_down(api, path)
            assert 7 == (await api.post(f"{other}/feedback", {"features": features(7), "label": "UP"}))["rows"]
    async with running(store_url) as api:
        assert 6 == (await api.get(path))["rows"]
        again = await api.post(f"{path}/feedback", DEADLY_ROW)
        assert (True, 6) == (again["duplicate"], again["rows"])
        twin = await api.learnt(rows=5)
        first = await api.post(f"{twin}/feedback", DEADLY_ROW)
        assert (again["prediction"], again["version"]) == (first["prediction"], first["version"])
        for one in (path, twin):
            assert 7 == (await api.post(f"{one}/feedback", AFTER))["rows"]
        assert await learned(api, twin) == await learned(api, path)


async def test_refused_requests_leave_nothing_in_memory(store_url):
    """An error that is kept and raised again holds the tracebacks, and in them the bodies, of all that it refused."""
    with pytest.MonkeyPatch.context() as bug:
        break_core(bug)
        async with running(store_url) as api:
            path = await api.learnt(rows=5)
            problem(await api.ask("POST", f"{path}/feedback", json=DEADLY_ROW), 503)
            await is_down(api, path)
            await api.learnt(rows=1)  # the next commit lets go of the one that has failed
            assert [] == errors_kept()
        async with running(store_url) as api:
            await is_down(api, path)
            await api.learnt(rows=1)  # the next commit lets go of the one that has failed
            assert [] == errors_kept()


def errors_kept():
    """The errors of models out of service that are still in memory."""
    gc.collect()
    return [kept for kept in gc.get_objects() if type(kept) is ModelDown]
