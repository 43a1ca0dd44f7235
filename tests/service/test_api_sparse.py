"""Sparse-DFOP over HTTP: rows of any names, in all forms, learned, explained, kept."""

import numpy as np

from tests.service.api_fixtures import problem
from tests.service.sparse_rows import LABELS, ROWS, SPAM, SUMS, SVM, lists, svmlight


async def test_one_row_at_a_time(api):
    """Create, learn, predict: any names at any time, and the model shows what it is."""
    path = await api.new(SPAM)
    for version, (row, label) in enumerate(zip(ROWS * 3, LABELS * 3, strict=True), 1):
        answer = await api.post(f"{path}/feedback", {"features": row, "label": label})
        assert (version, version) == (answer["version"], answer["rows"])
    told = await api.post(f"{path}/predict", {"features": {"cheap": 1, "pills": 2, "never seen": 0}})
    assert ("spam", {"spam", "ham"}) == (told["prediction"], set(told["probabilities"]))
    shown = await api.get(path)
    assert (None, [], 32) == (
        shown["config"]["features"], shown["info"]["features"], shown["config"]["params"]["compressed_dim"],
    )  # fmt: skip
    assert "sparse_dfop" in [entry["id"] for entry in (await api.get("/algorithms"))["algorithms"]]


async def test_all_forms_say_the_same(api):
    """Row by row, as lists and as SVMlight: the same predictions, the same state, and the same again for predict."""
    paths = [await api.new(SPAM) for _ in range(3)]
    one_by_one = [
        await api.post(f"{paths[0]}/feedback", {"features": row, "label": label})
        for row, label in zip(ROWS, LABELS, strict=True)
    ]
    listed = await api.post(f"{paths[1]}/feedback/batch", lists(labels=LABELS))
    text = await api.post(f"{paths[2]}/feedback/batch", content=svmlight(), headers=SVM)
    assert [one["prediction"] for one in one_by_one] == listed["predictions"] == text["predictions"]
    assert (1, 5, 5) == (listed["version"], listed["rows"], text["rows"])
    expected = [await api.post(f"{paths[0]}/predict", {"features": row}) for row in ROWS]
    for path in paths:
        for how in (
            {"json": lists()},
            {"content": svmlight(), "headers": SVM},
            {"content": b"cheap:1 pills:2\n", "headers": SVM},
        ):
            told = (await api.ask("POST", f"{path}/predict/batch", **how)).json()
            assert ["spam", "ham"] == told["classes"]
            for one, label, shares in zip(expected, told["predictions"], told["probabilities"], strict=False):
                assert (one["prediction"], [*one["probabilities"].values()]) == (label, shares)


async def test_ids_make_batches_safe_to_send_again(api):
    """One per row in JSON, Idempotency-Key for SVMlight; another label or body is 409."""
    path = await api.new(SPAM)
    body = lists(labels=LABELS, ids=[f"r{row}" for row in range(5)])
    first = await api.post(f"{path}/feedback/batch", body)
    again = await api.post(f"{path}/feedback/batch", body)
    assert (first["predictions"], True, 5) == (again["predictions"], again["duplicate"], again["rows"])
    await api.refuses(f"{path}/feedback/batch", 409, json={**body, "labels": LABELS[::-1]})
    how = {"content": svmlight(), "headers": {**SVM, "Idempotency-Key": "batch 1"}}
    first = await api.post(f"{path}/feedback/batch", **how)
    again = await api.post(f"{path}/feedback/batch", **how)
    assert (first["predictions"], True, 10) == (again["predictions"], again["duplicate"], again["rows"])
    one = {"features": ROWS[0], "label": "spam", "id": "one"}
    await api.post(f"{path}/feedback", one)
    broken = {**one, "features": {"": 1}}
    assert (await api.post(f"{path}/feedback", broken))["duplicate"]


async def test_a_tracked_prediction_is_learned_as_it_was_predicted(api):
    """The label alone is sent; the row was kept as its projection."""
    path, other = await api.new(SUMS), await api.new(SUMS)
    for model in (path, other):
        await api.post(f"{model}/feedback", {"features": {"a": 1}, "label": 2})
    told = await api.post(f"{path}/predict", {"features": {"a": 1, "b": 2}, "track": True})
    learned = await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": 1})
    assert told["prediction"] == learned["prediction"]
    await api.post(f"{other}/feedback", {"features": {"a": 1, "b": 2}, "label": 1})
    ask = {"features": {"a": 1, "c": 3}}
    assert (await api.post(f"{path}/predict", ask))["prediction"] == (await api.post(f"{other}/predict", ask))[
        "prediction"
    ]


async def test_an_explanation_names_the_names_of_the_row(api):
    """Contributions and base add up to a regression's prediction; there is no sample of rows for effects."""
    path = await api.new(SUMS)
    await api.post(f"{path}/feedback/batch", lists(labels=[3, 1, 0, 0.5, 2]))
    told = await api.post(f"{path}/predict", {"features": {"cheap": 2, "new": 1}, "explain": True})
    explained = told["explanation"]
    assert {"cheap": 2, "new": 1} == {one["name"]: one["value"] for one in explained["features"]}
    total = explained["base"] + sum(one["contribution"] for one in explained["features"])
    assert np.isclose(told["prediction"], total)
    problem(await api.ask("GET", f"{path}/effects"), 409)


async def test_predictions_survive_a_restart(start):
    """A second service on the same store predicts the same, from a snapshot and from the log."""
    first, second = await start(), await start()
    for snapshot in (False, True):
        path = await first.new(SPAM)
        await first.post(f"{path}/feedback/batch", lists(ROWS * 5, labels=LABELS * 5))
        if snapshot:
            await first.post(f"{path}/snapshots", status=201)
            await first.post(f"{path}/feedback", {"features": ROWS[0], "label": "ham"})
        expected = await first.post(f"{path}/predict/batch", lists())
        assert expected == await second.post(f"{path}/predict/batch", lists())
        assert await first.state(path) == await second.state(path)


async def test_a_state_moves_to_another_name(api):
    """Export and import, as for every model."""
    path = await api.new(SPAM)
    await api.post(f"{path}/feedback/batch", lists(labels=LABELS))
    answer = await api.ask(
        "PUT", f"{path}-copy/state", content=await api.state(path), headers={"Content-Type": "application/octet-stream"}
    )
    assert 201 == answer.status_code
    expected = await api.post(f"{path}/predict/batch", lists())
    assert expected["probabilities"] == (await api.post(f"{path}-copy/predict/batch", lists()))["probabilities"]


async def test_a_large_body_is_read_in_a_thread(api):
    """It says the same as its rows in small bodies."""
    rng = np.random.default_rng(0)
    rows = [{f"n{name}": 1.0 for name in rng.choice(10_000, 30, replace=False)} for _ in range(400)]
    labels = [LABELS[at % 2] for at in range(400)]
    paths = [await api.new(SPAM) for _ in range(3)]
    whole = await api.post(f"{paths[0]}/feedback/batch", lists(rows, labels=labels))
    text = await api.post(f"{paths[1]}/feedback/batch", content=svmlight(rows, labels), headers=SVM)
    parts = [
        await api.post(f"{paths[2]}/feedback/batch", lists(rows[at : at + 50], labels=labels[at : at + 50]))
        for at in range(0, 400, 50)
    ]
    assert whole["predictions"] == text["predictions"] == [told for part in parts for told in part["predictions"]]
    wide = {"features": {f"name {at}": at for at in range(20_000)}}
    told = await api.post(f"{paths[0]}/predict", {**wide, "explain": True})
    explained, share = told["explanation"], told["probabilities"][told["prediction"]]
    total = explained["base"] + sum(one["contribution"] for one in explained["features"])
    assert len(explained["features"]) == 20_000
    assert np.isclose(np.log(share / (1 - share)), total)
