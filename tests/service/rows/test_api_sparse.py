"""Sparse-DFOP over HTTP: rows of any names, in all forms, learned, explained, kept; refusals; weights recovered."""

import asyncio

import numpy as np
import pytest

from core.features import SparseSchema
from tests.service.api_fixtures import CSV, NPY, body, npy, problem
from tests.service.sparse_rows import LABELS, ROWS, SPAM, SUMS, SVM, lists, svmlight


async def test_all_forms_say_the_same(api):
    """Row by row, as lists, by column, as SVMlight: the same predictions, the same state, also under another name."""
    paths = [await api.new(SPAM) for _ in range(4)]
    names = list(dict.fromkeys(name for row in ROWS for name in row))
    columns = {"columns": names, "data": [[row.get(name) for name in names] for row in ROWS]}
    one_by_one = [
        await api.post(f"{paths[0]}/feedback", {"features": row, "label": label})
        for row, label in zip(ROWS, LABELS, strict=True)
    ]
    listed = await api.post(f"{paths[1]}/feedback/batch", lists(labels=LABELS))
    text = await api.post(f"{paths[2]}/feedback/batch", content=svmlight(), headers=SVM)
    by_column = await api.post(f"{paths[3]}/feedback/batch", {**columns, "labels": LABELS})
    assert [one["prediction"] for one in one_by_one] == listed["predictions"] == text["predictions"]
    assert listed["predictions"] == by_column["predictions"]
    assert (1, 5, 5) == (listed["version"], listed["rows"], text["rows"])
    expected = [await api.post(f"{paths[0]}/predict", {"features": row}) for row in ROWS]
    await api.imports(f"{paths[0]}-moved", await api.state(paths[0]))
    paths.append(f"{paths[0]}-moved")
    texts = [{"content": content, "headers": SVM} for content in (svmlight(), b"cheap:1 pills:2\n")]
    for path in paths:
        for how in ({"json": lists()}, {"json": columns}, *texts):
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
    assert wide["features"] == {one["name"]: one["value"] for one in explained["features"]}
    assert np.isclose(np.log(share / (1 - share)), total)


async def recoverable(api, task="regression", names=200, s=4):
    """A model that has learned a sparse rule, the names and the rule."""
    rng = np.random.default_rng(0)
    params = {"compressed_dim": 60, "forgetting_rate": 0.001, "bias": False}
    path = await api.new({"algorithm": "sparse_dfop", "task": task, "params": params})
    M = SparseSchema(0, 60, "sign").projection.columns([f"n{at}" for at in range(names)])
    w = np.zeros(names)
    w[rng.choice(names, s, replace=False)] = [2.0, -1.0, 1.5, 3.0][:s]
    X = np.where(rng.random((2000, names)) < 0.1, rng.normal(size=(2000, names)), 0.0)
    y = X @ M.T @ (M @ w)
    labels = y.tolist() if task == "regression" else [bool(value > 0) for value in y]
    rows = [{f"n{at}": value for at, value in enumerate(row) if value} for row in X.tolist()]
    await api.post(f"{path}/feedback/batch", lists(rows, labels=labels))
    return path, {f"n{at}": value for at, value in enumerate(w.tolist())}


async def test_weights_are_recovered(api):
    """A sparse rule is found again among the names given, in any order, and with what it leaves unexplained."""
    path, rule = await recoverable(api)
    names = ",".join(sorted(rule))
    for query in ({"names": names, "sparsity": 4}, {"names": names}):
        found = await api.get(f"{path}/weights", params=query)
        expected = {name: weight for name, weight in rule.items() if weight}
        assert expected == pytest.approx(
            {k: v for k, v in found["weights"]["value"].items() if k in expected}, abs=0.05
        )
        assert query.get("sparsity", 10) >= len(found["weights"]["value"])
        assert found["residual"]["value"] < 0.05
    assert {"value": 0.0} == found["bias"]


async def test_weights_of_two_classes(api):
    """One is the other's negative; before the first class there are none."""
    path, rule = await recoverable(api, "classification")
    found = await api.get(f"{path}/weights", params={"names": ",".join(rule), "sparsity": 4})
    assert {"true", "false"} == set(found["weights"]) == set(found["residual"])
    assert {name for name, weight in rule.items() if weight} == set(found["weights"]["true"])
    assert found["weights"]["true"] == {name: -weight for name, weight in found["weights"]["false"].items()}
    fresh = await api.get(f"{await api.new(SPAM)}/weights", params={"names": "a,b"})
    assert ({}, {}, {}) == (fresh["weights"], fresh["bias"], fresh["residual"])


async def test_weights_that_cannot_be_recovered(api):
    """No names, names that are none, too many, too little sparsity, names that explain nothing: each is said."""
    path, rule = await recoverable(api)
    names = ",".join(rule)
    strangers = ",".join(f"stranger{at}" for at in range(100))
    cases = [
        ({}, "names", "is required"),
        ({"names": ""}, "names", "is too short"),
        ({"names": "a,b,,c"}, "names[2]", "is not a feature name"),
        ({"names": "a,b,a"}, "names[2]", "is the same name"),
        ({"names": "," * 10_000}, "names", "are too many"),
        *(({"names": names, "sparsity": odd}, "sparsity", "is not a whole number") for odd in ("0", "many")),
        ({"names": names, "sparsity": "50"}, "sparsity", "is too large to recover"),
        ({"names": names, "sparsity": "1"}, "sparsity", "does not explain"),
        ({"names": strangers, "sparsity": "3"}, "sparsity", "does not explain"),
        ({"names": "a,b"}, "sparsity", "does not explain"),
    ]
    for query, field, words in cases:
        body = problem(await api.ask("GET", f"{path}/weights", params=query), 422, field)
        assert words in body["detail"], (query, body)
    body = problem(await api.ask("GET", f"{path}/weights", params={"names": names, "sparsity": "50"}), 422)
    assert "<= " in body["errors"][0]["allowed"]


async def test_one_recovery_at_a_time(start):
    """Others wait for their turn, and as long as a request may; then they are told to come again."""
    api = await start(wait_timeout_s=60)
    path, rule = await recoverable(api)
    query = {"names": ",".join(rule), "sparsity": 4}
    both = await asyncio.gather(*(api.get(f"{path}/weights", params=query) for _ in range(2)))
    assert both[0] == both[1]
    hurried = await start(wait_timeout_s=0.05)
    async with hurried.app.context.recovering:
        answer = await hurried.ask("GET", f"{path}/weights", params=query)
    problem(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1
    assert both[0] == await hurried.get(f"{path}/weights", params=query)


BAD_ROWS = [
    ('{"features": {"": 1}@}', "features."),
    ('{"features": {"a\\tb": 1}@}', "features.a\tb"),
    *((f'{{"features": {{"a": {odd}}}@}}', "features.a") for odd in ("null", "true", '"secret"')),
    ('{"features": {"a": 1, "b": {}}@}', "features.b"),
    ('{"features": {"a": 1, "b": 2, "a": 3}@}', "features.a"),
]
LISTS = [
    ({"rows": [{"names": ["a", "b", "a"], "values": [1, 2, 3]}]}, "rows[0].names[2]"),
    ({"rows": [{"names": ["a", ""], "values": [1, 2]}]}, "rows[0].names[1]"),
    ({"rows": [{"names": ["a", "b"], "values": [1]}]}, "rows[0].values"),
    *(({"rows": [{"names": ["a"], "values": [odd]}]}, "rows[0].values[0]") for odd in (None, "x")),
    ({"rows": [{"names": [1], "values": [1]}]}, "rows[0].names[0]"),
    ({"rows": [{"names": ["a"]}]}, "rows[0].values"),
    ({"rows": [{"names": [], "values": [], "more": 1}]}, "rows[0].more"),
    ({"rows": []}, "rows"),
    ({"columns": ["a"], "data": [[1]], "rows": []}, "rows"),
    ({"columns": ["a", "b"], "data": [[1]]}, "data[0]"),
    ({"columns": ["a", "b", "a"], "data": [[1, 2, 3]]}, "columns[2]"),
    ({"columns": ["a", "b"], "data": [[None, "x"]]}, "data[0][1]"),
]
BAD_LABELS = [
    ({"labels": ["spam"]}, "labels"),
    ({"labels": [*LABELS[:4], "eggs"]}, "labels[4]"),
    ({"labels": LABELS, "ids": ["a"]}, "ids"),
    ({"labels": LABELS, "ids": ["a", "b", "", "d", "e"]}, "ids[2]"),
    ({"labels": LABELS, "discounts": [0.9] * 5}, "discounts"),
]
TEXTS = [
    (b"spam a:1\nham b:1 c:2 b:3\n", "line 2, column 13"),
    (b"# comment\n\nspam a:secret\n", "line 3, column 6"),
    (b"# nothing\n", "rows"),
    *((b"spam %b" % cell, "line 1, column 6") for cell in (b":5", b"a:", b"a:nan", b"a:1_0", b"a:1e999", b"qid:1 a:1")),
    (b"spam a:1\n\n# nothing\nham   word", "line 4, column 7"),
    (b"  ham a:1 b:x", "line 1, column 11"),
]
NO_LABELS = [(b"spam a:1\n  eggs a:1\n", "line 2, column 3"), (b"spam a:1\na:1\n", "line 2, column 1")]


@pytest.mark.parametrize(("text", "field"), BAD_ROWS)
async def test_rows_that_cannot_be(api, text, field):
    """Names and values that are none, in predict and in feedback, and a name given twice."""
    path = await api.shared(SPAM)
    for route, label in (("predict", ""), ("feedback", ', "label": "spam"')):
        await api.refuses(f"{path}/{route}", 422, field, "secret", **body(text.replace("@", label)))


@pytest.mark.parametrize(("change", "field"), LISTS)
async def test_lists_that_cannot_be(api, change, field):
    """Duplicate and empty names, other lengths, no numbers, the form of other models: by their place."""
    path, rows = await api.shared(SPAM), change.get("rows", [1])
    await api.refuses(f"{path}/predict/batch", 422, field, json=change)
    await api.refuses(f"{path}/feedback/batch", 422, field, json={**change, "labels": ["spam"] * len(rows)})


@pytest.mark.parametrize(("more", "field"), BAD_LABELS)
async def test_labels_ids_and_discounts_are_those_of_other_batches(api, more, field):
    """The same rules; discounts go with gdfop only."""
    await api.refuses(f"{await api.shared(SPAM)}/feedback/batch", 422, field, json=lists(**more))


@pytest.mark.parametrize(("text", "place"), [*TEXTS, *NO_LABELS])
async def test_svmlight_that_cannot_be(api, text, place):
    """Every error is named by line and column."""
    for route in ("feedback",) if (text, place) in NO_LABELS else ("feedback", "predict"):
        how = {"content": text, "headers": SVM}
        await api.refuses(f"{await api.shared(SPAM)}/{route}/batch", 422, place, "secret", **how)


async def test_svmlight_labels_are_read_like_those_of_csv(api):
    """Numbers where they look like numbers, targets of a regression, and never NaN."""
    path = await api.new(SPAM, labels=None)
    await api.post(f"{path}/feedback/batch", content=b"\xef\xbb\xbf+1 1:1\r\n-1 2:1\r\n", headers=SVM)
    assert [1, -1] == (await api.get(path))["info"]["labels"]
    path = await api.new(SUMS)
    await api.post(f"{path}/feedback/batch", content=b"1.5 1:1\n-2e1 2:1\n", headers=SVM)
    await api.refuses(f"{path}/feedback/batch", 422, "line 2, column 1", content=b"1 a:1\nnan a:1\n", headers=SVM)
    await api.refuses(f"{path}/feedback/batch", 400, content=b"1 a:1\n\xff\n", headers=SVM)
    await api.refuses(f"{path}/feedback/batch?label=y", 422, "label", content=b"1 a:1\n", headers=SVM)


async def test_forms_that_do_not_go_with_the_model(api):
    """CSV and .npy have columns, sparse rows have none; and the other way round: 415 with what would do."""
    sparse, dense = await api.new(SPAM), await api.new()
    cases = [(sparse, b"a,b\n1,2\n", CSV), (sparse, npy([[1, 2]]), NPY), (dense, b"UP a:1 b:2\n", SVM)]
    for path, content, headers in cases:
        for verb in ("predict", "feedback"):
            query = "?label=a" if verb == "feedback" and headers is CSV else ""
            refused = await api.refuses(
                f"{path}/{verb}/batch{query}", 415, "Content-Type", content=content, headers=headers
            )
            assert ("text/x-svmlight" in refused["errors"][0]["allowed"]) == (path == sparse)
    await api.refuses(f"{dense}/predict/batch", 422, "rows[0].names", json=lists())


async def test_a_batch_that_would_grow_too_large_is_413(start):
    """A short row becomes compressed_dim numbers; all of them may be no more than a body."""
    small = await start(body_limit_mb=1)
    path = await small.new(SPAM, params={"compressed_dim": 500})
    await small.refuses(f"{path}/predict/batch", 413, "rows", json=lists([{}] * 300))
    assert 262 == len((await small.post(f"{path}/predict/batch", lists([{}] * 262)))["predictions"])
