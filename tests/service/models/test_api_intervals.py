"""Intervals of a regression over HTTP: asked for with a row, a batch or a line, and counted in the metrics."""

import json

import pytest

from tests.service.api_fixtures import NDJSON, RLS, ROW, columnar, features, forms

ENOUGH = 60
"""Rows from which on there is an interval of level .9, and none of level .99."""


def labels(rows, start=0):
    """A line with an error that is not symmetric."""
    return [3.0 * features(row)["a"] + (row * row % 7) / 7 for row in range(start, start + rows)]


async def taught(api, rows=ENOUGH, **changes):
    """The path of a model that has learned a batch of rows."""
    path = await api.new(RLS, **changes)
    await api.post(f"{path}/feedback/batch", {**columnar(rows), "labels": labels(rows)})
    return path


async def test_there_is_no_interval_before_rows_enough(api):
    """Null, in so many words, and the sooner an interval the lower its level."""
    path = await api.new(RLS)
    assert None is (await api.post(f"{path}/predict", {**ROW, "interval": 0.9}))["interval"]
    await api.post(f"{path}/feedback/batch", {**columnar(ENOUGH), "labels": labels(ENOUGH)})
    assert None is not (await api.post(f"{path}/predict", {**ROW, "interval": 0.9}))["interval"]
    assert None is (await api.post(f"{path}/predict", {**ROW, "interval": 0.99}))["interval"]
    assert [None] * 3 == (await api.post(f"{path}/predict/batch", {**columnar(3), "interval": 0.99}))["intervals"]


async def test_a_batch_has_the_intervals_of_its_rows(api):
    """JSON with ``interval``; a list, lines, CSV and .npy by the query, which other JSON takes as well."""
    path = await taught(api)
    one = [
        (await api.post(f"{path}/predict", {"features": features(row), "interval": 0.8}))["interval"]
        for row in range(5)
    ]
    rows, by_name = columnar(5), [{"features": features(row)} for row in range(5)]
    lines = "\n".join(map(json.dumps, by_name))
    answers = [
        await api.post(f"{path}/predict/batch", {**rows, "interval": 0.8}),
        await api.post(f"{path}/predict/batch", {"rows": by_name, "interval": 0.8}),
        await api.post(f"{path}/predict/batch?interval=0.8", by_name),
        await api.post(f"{path}/predict/batch?interval=0.8", content=lines, headers=NDJSON),
        *[await api.post(f"{path}/predict/batch?interval=0.8", **how) for how in forms(rows).values()],
    ]
    assert [one] * 7 == [answer["intervals"] for answer in answers]
    assert "intervals" not in await api.post(f"{path}/predict/batch", rows)


@pytest.mark.parametrize("level", [0, 1, 0.991, -0.5, 90, 1e300, "0.9", True, [0.9], {}])
async def test_a_level_is_a_number_between_0_and_99_hundredths(api, level):
    """Anything else is refused, by the name of the field and with what is allowed."""
    path = await api.shared(RLS)
    found = await api.refuses(f"{path}/predict", 422, "interval", json={**ROW, "interval": level})
    assert "> 0 and <= 0.99" in found["errors"][0]["allowed"]
    await api.refuses(f"{path}/predict", 422, "interval", json={**ROW, "interval": level, "track": True})
    await api.refuses(f"{path}/predict/batch", 422, "interval", json={**columnar(2), "interval": level})


@pytest.mark.parametrize("query", ["1", "0", "nan", "inf", "much", "", "0.9&interval=0.8"])
async def test_a_level_in_the_query_is_one_too(api, query):
    """As in a body; and it does not stand in both."""
    path = await api.shared(RLS)
    await api.refuses(f"{path}/predict/batch?interval={query}", 422, "interval", json=columnar(2))
    both = {**columnar(2), "interval": 0.9}
    await api.refuses(f"{path}/predict/batch?interval=0.9", 422, "interval", json=both)


async def test_classes_have_no_interval(api):
    """A classification refuses the question, wherever it is asked."""
    path = await api.shared()
    await api.refuses(f"{path}/predict", 422, "interval", json={**ROW, "interval": 0.9})
    await api.refuses(f"{path}/predict/batch", 422, "interval", json={**columnar(2), "interval": 0.9})
    await api.refuses(f"{path}/predict/batch?interval=0.9", 422, "interval", json=columnar(2))


async def test_a_tracked_row_is_covered_as_it_was_told(api):
    """Whatever the intervals have become when its label comes."""
    path = await taught(api)
    told = await api.post(f"{path}/predict", {**ROW, "track": True, "interval": 0.9})
    outside = told["interval"][1] + 1.0
    rows = 200
    wild = [label + (100.0 if row % 2 else -100.0) for row, label in enumerate(labels(rows))]
    await api.post(f"{path}/feedback/batch", {**columnar(rows), "labels": wild})
    low, high = (await api.post(f"{path}/predict", {**ROW, "interval": 0.9}))["interval"]
    assert low < outside < high
    before = (await api.get(f"{path}/metrics"))["overall"]["coverage"]["0.9"]
    await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": outside})
    after = (await api.get(f"{path}/metrics"))["overall"]["coverage"]["0.9"]
    counted = ENOUGH - 19 + rows
    assert before * counted == pytest.approx(after * (counted + 1), abs=1e-9)
