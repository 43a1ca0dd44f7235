"""Batches whose rows are kept for their labels: each as a single tracked prediction, all of them or none."""

import asyncio

import pytest

from service.api.rows import tracking
from service.errors import StoreDown
from service.store.pending import Pending
from tests.service.api_fixtures import DFOP, columnar, csv, features, forms, problem

ROWS = 5
DUE = {"after_s": 60, "then": {"label": "DOWN"}}


async def batch(api, path, kind="columns"):
    """A tracked batch; its answer."""
    table, rows = columnar(ROWS), [{"features": features(row)} for row in range(ROWS)]
    in_query = {
        kind: {**how, "params": {"track": True}} for kind, how in {**forms(table), "list": {"json": rows}}.items()
    }
    in_body = {"columns": {"json": {**table, "track": True}}, "records": {"json": {"rows": rows, "track": True}}}
    return await api.post(f"{path}/predict/batch", **{**in_query, **in_body}[kind])


@pytest.mark.parametrize("kind", ["columns", "records", "list", "npy", "csv"])
async def test_each_row_takes_its_label(api, kind):
    """What is learned, and scored, is what single tracked predictions of these rows would be, challengers included."""
    paths = [await api.learnt(rows=4) for _ in range(2)]
    for path in paths:
        answer = await api.ask("PUT", f"{path}/challengers/other", json={"algorithm": "rls"})
        assert 201 == answer.status_code
    answer = await batch(api, paths[0], kind)
    ids = answer["prediction_ids"]
    assert ROWS == len({*ids}) == len(answer["predictions"])
    asked = [{"features": features(row), "track": True} for row in range(ROWS)]
    single = [(await api.post(f"{paths[1]}/predict", body))["prediction_id"] for body in asked]
    for path, own in zip(paths, (ids, single), strict=True):
        await api.post(f"{path}/feedback", {"features": features(9), "label": "UP"})
        for at in (3, 0, 4, 1, 2):
            label = ("UP", "DOWN")[at % 2]
            learned = await api.post(f"{path}/feedback", {"prediction_id": own[at], "label": label})
            assert path != paths[0] or learned["prediction"] == answer["predictions"][at]
    states = [await api.get(f"{path}/{what}") for path in paths for what in ("metrics", "challengers")]
    for one in states:
        del one["incarnation"]
    assert states[:2] == states[2:]
    repeated = await api.post(f"{paths[0]}/feedback", {"prediction_id": ids[0], "label": "UP"})
    assert repeated["duplicate"]


async def test_in_an_overlap_rows_of_both_spaces_teach_the_mapping(api):
    """Rows that have the names of both spaces are kept with them."""
    path = await api.learnt(rows=6)
    await api.post(f"{path}/features/switch", {"action": "begin", "features": ["c"]})
    table = {"columns": ["a", "b", "c"], "data": [[*row, 1.0] for row in columnar(ROWS)["data"]], "track": True}
    answer = await api.post(f"{path}/predict/batch", table)
    text = await api.post(f"{path}/predict/batch", **{**csv(columnar(2), c=[2.5, 2.5]), "params": {"track": True}})
    old = await api.post(f"{path}/predict/batch", {**columnar(2), "track": True})
    for identity in answer["prediction_ids"] + text["prediction_ids"] + old["prediction_ids"]:
        await api.post(f"{path}/feedback", {"prediction_id": identity, "label": "UP"})
    assert ROWS + 2 == (await api.get(f"{path}/features"))["overlap_rows"]


async def test_all_or_none_are_kept(start):
    """If not all rows fit, none is kept: 503 with Retry-After, as for a single row, until a label makes room."""
    api = await start(pending_max=ROWS + 2)
    path = await api.new()
    await batch(api, path)
    refused = await api.ask("POST", f"{path}/predict/batch", json={**columnar(ROWS), "track": True})
    assert ("/problems/pending-full", "1") == (problem(refused, 503)["type"], refused.headers["retry-after"])
    assert ROWS == (await api.get(f"{path}/pending"))["waiting"]
    ask = {"features": features(0), "track": True}
    told = [await api.post(f"{path}/predict", ask) for _ in range(2)]
    problem(await api.ask("POST", f"{path}/predict", json=ask), 503)
    await api.post(f"{path}/feedback", {"prediction_id": told[0]["prediction_id"], "label": "UP"})
    await api.post(f"{path}/predict", ask)


@pytest.mark.parametrize("route", ["predict", "predict/batch"])
async def test_rows_whose_reply_is_lost_are_dropped(api, monkeypatch, route):
    """The store has kept them, and the service does not know: it answers 503, and their labels never fall due."""
    path, track_many = await api.new({**DFOP, "labels": ["UP", "DOWN"], "labels_due": DUE}), Pending.track_many
    await api.post(f"{path}/feedback", {"features": features(1), "label": "UP"})

    async def lost(pending, items):
        assert [None] * len(items) == await track_many(pending, items)
        return [StoreDown("no reply")] * len(items)

    monkeypatch.setattr(Pending, "track_many", lost)
    body = {"features": features(2)} if route == "predict" else columnar(ROWS)
    problem(await api.ask("POST", f"{path}/{route}", json={**body, "track": True}), 503)
    assert 0 == (await api.get(f"{path}/pending"))["waiting"]
    monkeypatch.setattr(tracking, "DROP_S", 0.01)
    monkeypatch.setattr(Pending, "drop", lambda *_: asyncio.Event().wait())
    problem(await api.ask("POST", f"{path}/{route}", json={**body, "track": True}), 503)


async def test_what_is_kept_is_bounded(api, monkeypatch):
    """By rows, and by the values of all learners; more is 413 with how many rows there may be."""
    path = await api.learnt(rows=2)
    monkeypatch.setattr(tracking, "VALUES_MAX", 5 * ROWS)  # two columns, two labels and one more for each learner
    await batch(api, path)
    assert 201 == (await api.ask("PUT", f"{path}/challengers/other", json={"algorithm": "rls"})).status_code
    refused = await api.ask("POST", f"{path}/predict/batch", json={**columnar(ROWS), "track": True})
    assert f"<= {5 * ROWS // 10} rows" == problem(refused, 413)["errors"][0]["allowed"]
    monkeypatch.setattr(tracking, "AT_ONCE", 2)
    monkeypatch.setattr(tracking, "VALUES_MAX", 10**6)
    assert ROWS == len({*(await batch(api, path))["prediction_ids"]})


async def test_what_track_can_be(api):
    """True or false, in the body or in the query; feedback has no such field."""
    path = await api.learnt(rows=2)
    assert "prediction_ids" not in await api.post(f"{path}/predict/batch", {**columnar(ROWS), "track": False})
    for query, more in (("?track=yes", {}), ("?track=true", {"track": True}), ("", {"track": 1})):
        refused = await api.ask("POST", f"{path}/predict/batch{query}", json={**columnar(ROWS), **more})
        assert ["track"] == [one["field"] for one in problem(refused, 422)["errors"]]
    feedback = {**columnar(ROWS), "labels": ["UP"] * ROWS, "track": True}
    problem(await api.ask("POST", f"{path}/feedback/batch", json=feedback), 422)
