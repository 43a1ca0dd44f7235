"""Single rows that are refused: the field is named, the value is not echoed, nothing changes."""

import json

import pytest

from tests.service.api_fixtures import RLS, ROW, body

UNKNOWN = 'is not a feature of this model; add it to "ignore" to skip it'
every_route = pytest.mark.parametrize("route", ["predict", "feedback"])
SECRET = "12345"
"""What no answer may hold."""
OPEN, DISCOUNTED, NUMBERS = {"labels": None}, {"algorithm": "gdfop"}, {**RLS, "labels": None}
CONSTANTS = ("NaN", "Infinity", "-Infinity")
TOO_LARGE = ("1e400", "-1e400", "1" + "0" * 400, "-1" + "0" * 400, "7" * 5000, "1e999999999")
NO_NUMBERS = ('"12345"', "true", "false", '""', "[12345]", '{"x": 12345}', '"NaN"', '"one"', "[]")
NO_CLASSES = ("null", "[]", '["UP"]', "{}", "1.5", "1e400", "9" * 400, "9" * 5000, str(2**63), f'"{"x" * 201}"')
NO_TARGETS = ("null", '"12345"', "true", "false", "[1]", "{}", "1e400", "9" * 400, "9" * 5000)
NO_DISCOUNTS = ("0", "-0.5", "1.0000001", "2", "1e-320", '"0.5"', "true", "[1]", "1e400", "9" * 5000)
NO_WEIGHTS = ("0", "-1", "1e-7", "1001", '"2"', "true", "[2]")
NO_IDS = ("", "x" * 201, "a\nb", "newline\n", "\x00", "a\x7f", "a\tb", 5.5, 10**200, True, ["x"])


def a(text):
    """A row with anything for the value of ``a``; ``@`` stands for the label, which feedback has."""
    return f'{{"features": {{"a": {text}, "b": -0.5}}@}}'


def labelled(text, more=""):
    return f'{{"features": {{"a": 1, "b": 2}}, "label": {text}{more}}}'


ROWS = [
    ('{"features": {"a": 1, "b": 2, "c": 3}@}', 422, "features.c"),
    ('{"features": {"a": 1, "c": 3}@}', 422, "features.b"),
    ('{"features": {"a": 1}@}', 422, "features.b"),
    ('{"features": {}@}', 422, "features.a"),
    ('{"features": {"a": 1, "b": 2, "": 3}@}', 422, "features."),
    ('{"features": {"a": 1, "b": 2, "A": 3}@}', 422, "features.A"),
    ('{"features": {"a": 1, "b": null}@}', 422, "features.b"),
    (f'{{"features": {{"{"x" * 100_000}": 1, "a": 1}}@}}', 422, "features.b"),
    ('{"features": {"a": 1, "b": 2, "a": 3}@}', 422, "features.a"),
    ('{"features": {"a": 1, "b": 2, "\\u0061": 1}@}', 422, "features.a"),
    ('{"features": {"a": 1, "b": 2}@, "features": {"a": 1, "b": 2}}', 422, "features"),
    ('{"features": {"a": {"x": 1, "x": 2}, "b": 2}@}', 422, "features.a.x"),
    ('{"features": {"a": 1, "a": 2, "b:": 1, "b": 2}@}', 422, "features.a"),
    *((a(text), 400, "features.a") for text in CONSTANTS),
    *((a(f'[[{{"x": [1, {text}]}}]]'), 400, "features.a[0][0].x[1]") for text in CONSTANTS),
    *((a(text), 422, "features.a") for text in (*TOO_LARGE, *NO_NUMBERS)),
    *(
        (f'{{"features": {{"a": 1, "b": 2}}@, {json.dumps(name)}: 1}}', 422, name[:200])
        for name in ("lable", "Track", "features ", "new\nline", "\u0000", "x" * 5000)
    ),
]
FEEDBACK = [
    ({}, ROW, 422, "label"),
    ({}, '{"label": "DOWN", "features": {"a": 1, "b": 2}, "label": "UP"}', 422, "label"),
    ({}, labelled('"UP"', ', "id": "x", "id": "y"'), 422, "id"),
    *(({}, labelled(text), 422, "label") for text in ("1", "true")),
    *(
        (model, labelled(text, more), 422, "label")
        for model in ({}, OPEN)
        for text in NO_CLASSES
        for more in ("", ', "id": "x"')
    ),
    *((NUMBERS, labelled(text), 422, "label") for text in NO_TARGETS),
    (NUMBERS, labelled("NaN"), 400, "label"),
    *(({}, {**ROW, "label": "UP", "id": name}, 422, "id") for name in NO_IDS),
    *(({}, {"label": "UP", "prediction_id": name}, 422, "prediction_id") for name in NO_IDS if name != 10**200),
    *(({}, {"prediction_id": one, "label": "UP"}, 404, "prediction_id") for one in ("nobody", 17)),
    ({}, {"label": "UP"}, 422, "features"),
    ({}, {"label": "UP", "features": None, "id": "x"}, 422, "features"),
    *((model, labelled('"UP"', ', "discount": 0.9'), 422, "discount") for model in ({}, {"algorithm": "rls"})),
    *((DISCOUNTED, labelled('"UP"', f', "discount": {text}'), 422, "discount") for text in NO_DISCOUNTS),
    *(({}, labelled('"UP"', f', "weight": {text}'), 422, "weight") for text in NO_WEIGHTS),
]
PREDICT = [
    ('{"features": {"a": 1, "b": 2}, "track": true, "track": false}', "track"),
    *(
        ({**ROW, name: value}, name)
        for name, value in (("track", 1), ("track", "yes"), ("track", None), ("explain", 0))
    ),
]


@every_route
@pytest.mark.parametrize(("text", "status", "field"), ROWS)
async def test_features_that_cannot_be(api, route, text, status, field):
    """Names that are unknown, missing or given twice, and values that are no finite numbers."""
    text = text.replace("@", ', "label": "UP"' if route == "feedback" else "")
    found = await api.refuses(f"{await api.shared()}/{route}", status, field, SECRET, **body(text))
    assert 5_000 > len(json.dumps(found))


@pytest.mark.parametrize(("model", "row", "status", "field"), FEEDBACK)
async def test_feedback_that_cannot_be(api, model, row, status, field):
    """Labels, ids and discounts that are none, or that the model does not take."""
    await api.refuses(f"{await api.shared(**model)}/feedback", status, field, SECRET, **body(row))


@pytest.mark.parametrize(("row", "field"), PREDICT)
async def test_options_that_cannot_be(api, row, field):
    """They are booleans, and 1 is not true; nor may one be given twice."""
    await api.refuses(f"{await api.shared()}/predict", 422, field, **body(row))


@every_route
async def test_an_unknown_feature_is_told_what_the_features_are(api, route):
    """The text that a client sees, and the names it may choose from."""
    row = {"features": {"a": 1, "b": 2, "c": 3}, **({"label": "UP"} if route == "feedback" else {})}
    found = await api.refuses(f"{await api.shared()}/{route}", 422, "features.c", json=row)
    assert [{"field": "features.c", "problem": UNKNOWN, "allowed": ["a", "b"]}] == found["errors"]


async def test_at_most_twenty_fields_are_named(api):
    """However many there are to name."""
    many = a("[" + ",".join(["NaN"] * 500) + "]").replace("@", "")
    found = await api.refuses(f"{await api.shared()}/predict", 400, "features.a[0]", **body(many))
    assert 20 == len(found["errors"])


async def test_an_undeclared_label_is_refused_with_the_declared_ones(api):
    """Where labels are declared."""
    row = {**ROW, "label": "SIDEWAYS"}
    found = await api.refuses(f"{await api.shared()}/feedback", 422, "label", "SIDEWAYS", json=row)
    assert ["UP", "DOWN"] == found["errors"][0]["allowed"]


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "a\x7fb"])
async def test_an_idempotency_key_is_an_id_too(api, key):
    """The same rules, named as the header; beside the ids of a batch it is not looked at."""
    path, headers = await api.learnt(), {"Idempotency-Key": key}
    batch = {"columns": ["a", "b"], "data": [[1, 2]], "labels": ["UP"]}
    rows = [("feedback", {**ROW, "label": "UP", **own}) for own in ({}, {"id": "own"})]
    for route, sent in (*rows, ("feedback/batch", batch)):
        await api.refuses(f"{path}/{route}", 422, "Idempotency-Key", json=sent, headers=headers)
    await api.post(f"{path}/feedback/batch", {**batch, "ids": ["x"]}, headers=headers)


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"label": "UP", "id": "x"}, ["id", "prediction_id"]),
        ({**ROW, "label": "UP"}, ["features"]),
        ({"features": {}, "label": "UP"}, ["features"]),
        ({"label": "SIDEWAYS"}, ["label"]),
        ({"label": None}, ["label"]),
        ({"label": "UP", "discount": 0.5}, ["discount"]),
    ],
)
async def test_a_refused_label_leaves_the_prediction_waiting(api, row, fields):
    """Whatever key is with it; another model does not know the prediction, and its own takes a label afterwards."""
    path, other = await api.learnt(), await api.shared()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    identity = {"prediction_id": told["prediction_id"]}
    for headers in ({}, {"Idempotency-Key": "k"}):
        found = await api.refuses(f"{path}/feedback", 422, json={**row, **identity}, headers=headers)
        assert fields == [error["field"] for error in found["errors"]]
    await api.refuses(f"{other}/feedback", 404, "prediction_id", json={**identity, "label": "UP"})
    await api.post(f"{path}/feedback", {**identity, "label": "UP"})


async def test_a_refused_first_row_fixes_nothing(api):
    """The features of a model stay open until a row is really learned."""
    path = await api.new(features=None)
    for row, field in (
        ({"features": {}, "label": "UP"}, "features"),
        ({"features": {"a": ["one"]}, "label": "UP"}, "features.a"),
        ({"features": {"a\nb": 1}, "label": "UP"}, "features[0]"),
        ({"features": {"x" * 201: 1}, "label": "UP"}, "features[0]"),
        ({"features": {"a": 1}, "label": "SIDEWAYS"}, "label"),
        ({"features": {"a": 1}, "label": "UP", "discount": 0.5}, "discount"),
        ({"features": {"a": None}, "label": "UP"}, "features.a"),
    ):
        await api.refuses(f"{path}/feedback", 422, field, json=row)
    assert [] == (await api.get(path))["info"]["features"]


async def test_a_first_row_too_wide_for_the_model_limit_is_refused(start):
    """Before anything is allocated, with the limit."""
    small = await start(model_limit_mb=1)
    path = await small.new(features=None)
    row = {"features": {f"x{i}": 1 for i in range(400)}, "label": "UP"}
    found = await small.refuses(f"{path}/feedback", 422, "features", json=row)
    assert "<= 1 MiB of state" == found["errors"][0]["allowed"]
    table = {"columns": [*row["features"]], "data": [[1] * 400], "labels": ["UP"]}
    await small.refuses(f"{path}/feedback/batch", 422, "features", json=table)
