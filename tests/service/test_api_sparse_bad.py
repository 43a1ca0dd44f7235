"""Sparse rows that cannot be: refused by name, by line and column, and nothing changes."""

import pytest

from tests.service.api_fixtures import CSV, NPY, body, npy, problem
from tests.service.sparse_rows import LABELS, SPAM, SUMS, SVM, lists

ROWS = [
    ('{"features": {"": 1}@}', "features."),
    ('{"features": {"a\\tb": 1}@}', "features.a\tb"),
    ('{"features": {"a": null}@}', "features.a"),
    ('{"features": {"a": true}@}', "features.a"),
    ('{"features": {"a": "secret"}@}', "features.a"),
    ('{"features": {"a": 1, "b": {}}@}', "features.b"),
    ('{"features": {"a": 1, "b": 2, "a": 3}@}', "features.a"),
]
LISTS = [
    ({"rows": [{"names": ["a", "b", "a"], "values": [1, 2, 3]}]}, "rows[0].names[2]"),
    ({"rows": [{"names": ["a", ""], "values": [1, 2]}]}, "rows[0].names[1]"),
    ({"rows": [{"names": ["a", "b"], "values": [1]}]}, "rows[0].values"),
    ({"rows": [{"names": ["a"], "values": [None]}]}, "rows[0].values[0]"),
    ({"rows": [{"names": ["a"], "values": ["x"]}]}, "rows[0].values[0]"),
    ({"rows": [{"names": [1], "values": [1]}]}, "rows[0].names[0]"),
    ({"rows": [{"names": ["a"]}]}, "rows[0].values"),
    ({"rows": [{"names": [], "values": [], "more": 1}]}, "rows[0].more"),
    ({"rows": []}, "rows"),
    ({"columns": ["a"], "data": [[1]]}, "columns"),
]
LABELLED = [
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
]
"""test_svmlight.py has the others."""
NO_LABELS = [(b"spam a:1\n  eggs a:1\n", "line 2, column 3"), (b"spam a:1\na:1\n", "line 2, column 1")]


@pytest.mark.parametrize(("text", "field"), ROWS)
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


@pytest.mark.parametrize(("more", "field"), LABELLED)
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


async def test_models_that_cannot_be(api):
    """Features, missing values, a rate of the other convention, a dimension too large: the field is named."""
    cases = [
        ({"features": ["a"]}, "features"),
        ({"missing": "mean"}, "missing"),
        ({"params": {"forgetting_rate": 0.99}}, "params.forgetting_rate"),
        ({"params": {"compressed_dim": 10_000}}, "params.compressed_dim"),
        ({"params": {"projection": "none"}}, "params.projection"),
    ]
    for change, field in cases:
        problem(await api.ask("PUT", "/models/never", json={**SPAM, **change}), 422, field)


async def test_a_batch_that_would_grow_too_large_is_413(start):
    """A short row becomes compressed_dim numbers; all of them may be no more than a body."""
    small = await start(body_limit_mb=1)
    path = await small.new(SPAM, params={"compressed_dim": 500})
    await small.refuses(f"{path}/predict/batch", 413, "rows", json=lists([{}] * 300))
    assert 262 == len((await small.post(f"{path}/predict/batch", lists([{}] * 262)))["predictions"])
