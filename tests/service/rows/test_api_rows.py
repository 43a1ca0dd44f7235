"""One row over HTTP: predict, feedback, tracked predictions, and the metrics that come of it."""

import asyncio

from tests.service.api_fixtures import RLS, ROW, features, problem


async def test_predict_before_the_first_row(api):
    """The first declared label, all of them equally probable; null where none is declared and none has been seen."""
    answer = await api.post(f"{await api.new()}/predict", ROW)
    assert {"prediction", "probabilities", "version", "incarnation"} == set(answer)
    assert ("UP", {"UP": 0.5, "DOWN": 0.5}, 0) == (answer["prediction"], answer["probabilities"], answer["version"])
    path = await api.new(labels=None)
    answer = await api.post(f"{path}/predict", ROW)
    assert (None, {}) == (answer["prediction"], answer["probabilities"])
    first = await api.post(f"{path}/feedback", {**ROW, "label": "UP"})
    assert (None, None, 1) == (first["prediction"], first["loss"], first["rows"])
    assert {"UP": 0.75} == (await api.post(f"{path}/predict", ROW))["probabilities"]


async def test_feedback_answers_what_was_said_before(api):
    """The a-priori prediction, its loss, and where the model stands now."""
    path = await api.learnt(rows=6)
    before = await api.post(f"{path}/predict", ROW)
    other = {"UP": "DOWN", "DOWN": "UP"}[before["prediction"]]
    answer = await api.post(f"{path}/feedback", {**ROW, "label": other})
    assert {
        "prediction": before["prediction"], "loss": 1.0, "version": 7, "rows": 7, "duplicate": False, "learned": True,
        "durability": "everysec", "incarnation": before["incarnation"],
    } == answer  # fmt: skip
    now = (await api.post(f"{path}/predict", ROW))["prediction"]
    assert 0.0 == (await api.post(f"{path}/feedback", {**ROW, "label": now}))["loss"]


async def test_feedback_may_carry_a_discount(api):
    """Gdfop takes one per row, and it makes a difference."""
    states = []
    for discount in ({}, {"discount": 0.5}, {"discount": 1}):
        path = await api.learnt(algorithm="gdfop")
        await api.post(f"{path}/feedback", {**ROW, "label": "UP", **discount})
        states.append((await api.post(f"{path}/predict", {"features": features(1)}))["probabilities"]["UP"])
    assert 3 == len(set(states))


async def test_pending_lists_what_waits_for_its_label(api):
    """Prediction, version and expiry of each, in pages; what has got its label is not there any more."""
    path = await api.learnt()
    tracked = [await api.post(f"{path}/predict", {**ROW, "track": True}) for _ in range(5)]
    ids = [answer["prediction_id"] for answer in tracked]
    assert 5 == len(set(ids))
    pages = await api.pages(f"{path}/pending", limit=2)
    assert all({"pending", "expired", "next", "waiting", "incarnation"} == set(page) for page in pages)
    assert {5} == {page["waiting"] for page in pages}
    found = [entry for page in pages for entry in page["pending"]]
    assert sorted(ids) == sorted(entry["prediction_id"] for entry in found)
    assert all({"prediction_id", "prediction", "version", "expires"} == set(entry) for entry in found)
    assert {(tracked[0]["prediction"], 3)} == {(entry["prediction"], entry["version"]) for entry in found}
    await api.post(f"{path}/feedback", {"prediction_id": ids[2], "label": "UP"})
    left = await api.get(f"{path}/pending")
    assert 4 == left["waiting"]
    assert sorted({*ids} - {ids[2]}) == sorted(entry["prediction_id"] for entry in left["pending"])


async def test_a_tracked_null_is_a_prediction(api):
    """Where no label is known null is told, listed as null, and not scored."""
    path = await api.new(labels=None)
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    assert None is (await api.get(f"{path}/pending"))["pending"][0]["prediction"]
    await api.post(f"{path}/feedback", {**ROW, "label": "UP"})
    answer = await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": "UP"})
    assert (None, None) == (answer["prediction"], answer["loss"])


async def test_a_label_after_expiry_is_404(start):
    """Expired predictions leave the list, are counted, and take no label."""
    short = await start(prediction_ttl_s=1)
    path = await short.learnt()
    told = await short.post(f"{path}/predict", {**ROW, "track": True})
    while (await short.get(f"{path}/pending"))["pending"]:
        await asyncio.sleep(0.05)
    late = {"prediction_id": told["prediction_id"], "label": "UP"}
    await short.refuses(f"{path}/feedback", 404, "prediction_id", json=late)
    assert 1 == (await short.get(f"{path}/pending"))["expired"]


SCORES = {
    "accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece", "roc_auc",
    "average_precision", "unscored", "per_class", "confusion", "reliability",
}  # fmt: skip


async def test_the_metrics_of_a_classifier(api):
    """Overall, window and fading with all scores, the baselines beside them, history and marks."""
    path = await api.learnt(rows=25)
    found = await api.get(f"{path}/metrics")
    assert {
        "rows", "unscored", "overall", "window", "fading", "baselines", "history", "history_every", "marks",
        "marks_thinned", "learner", "unknown", "version", "incarnation",
    } == set(found)  # fmt: skip
    assert (25, 25) == (found["rows"], found["version"])
    assert SCORES == set(found["overall"])
    assert SCORES | {"size", "rows", "baselines"} == set(found["window"])
    assert SCORES | {"factor", "baselines"} == set(found["fading"])
    assert (1000, 0.999) == (found["window"]["size"], found["fading"]["factor"])
    # labels alternate; before the first one both baselines say the first declared label, as the model does
    assert {"no_change": {"accuracy": 1 / 25}, "majority": {"accuracy": 13 / 25}} == found["baselines"]
    scored = 25 - found["unscored"]
    shown = found["overall"]
    assert ["UP", "DOWN"] == list(shown["per_class"]) == shown["confusion"]["labels"]
    assert scored == sum(map(sum, shown["confusion"]["counts"])) == sum(one["rows"] for one in shown["reliability"])
    assert [10, 20] == [point["row"] for point in found["history"]]
    assert all("accuracy" in point for point in found["history"])
    await api.post(f"{path}/reset")
    after = await api.get(f"{path}/metrics")
    assert [{"row": 0, "kind": "reset"}] == after["marks"]
    assert (0, None) == (after["rows"], after["overall"]["accuracy"])


async def test_weights_can_be_picked(api):
    """Names picks columns, sparsity the largest of each output; one-hot columns have names of their own."""
    path = await api.new(features=["x", {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}])
    empty = {"weights": {}, "bias": {}, "std": {}}
    assert empty == {k: v for k, v in (await api.get(f"{path}/weights")).items() if v == {}}
    for row in range(6):
        label, day = ("UP", "mon") if row % 2 else ("DOWN", "tue")
        await api.post(f"{path}/feedback", {"features": {"x": features(row)["a"], "day": day}, "label": label})
    everything = (await api.get(f"{path}/weights"))["weights"]
    assert {"UP": {"x", "day=mon", "day=tue"}, "DOWN": {"x", "day=mon", "day=tue"}} == {
        output: set(weights) for output, weights in everything.items()
    }
    picked = (await api.get(f"{path}/weights", params={"names": "day=tue,x"}))["weights"]["UP"]
    assert {name: everything["UP"][name] for name in ("day=tue", "x")} == picked
    (largest,) = (await api.get(f"{path}/weights", params={"sparsity": 1}))["weights"]["UP"].values()
    assert max(map(abs, everything["UP"].values())) == abs(largest)


async def test_random_features_have_no_weights(api):
    """409, with the reason; contributions are sampled."""
    path = await api.learnt({**RLS, "algorithm": "dfop", "params": {"random_features": 8}})
    assert "with random_features" in problem(await api.ask("GET", f"{path}/weights"), 409)["detail"]
    assert (await api.post(f"{path}/predict", {**ROW, "explain": True}))["explanation"]["sampled"] is True
