"""Single rows that are refused: the field is named, the value is not echoed, nothing changes."""

import pytest

from tests.service.api_fixtures import JSON, RLS, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROW = {"features": {"a": 0.25, "b": -0.5}}
UNKNOWN = 'is not a feature of this model; declare it in "ignore" to have it passed over'
ROUTES = ["predict", "feedback"]
every_route = pytest.mark.parametrize("route", ROUTES)


def body(route, a="0.25", more=""):
    """A body as text, with anything for the value of ``a``."""
    label = ', "label": "UP"' if route == "feedback" else ""
    return f'{{"features": {{"a": {a}, "b": -0.5}}{label}{more}}}'.encode()


@every_route
async def test_a_model_that_is_not_there(api, route):
    """404, whether the name could be one or not."""
    for name in ("nobody", "-x", "x" * 65, "a%20b", "ä", ".hidden"):
        problem(await api.ask("POST", f"/models/{name}/{route}", content=body(route), headers=JSON), 404)


@every_route
@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"a": 1, "b": 2, "c": 3}, "features.c"),
        ({"a": 1, "c": 3}, "features.b"),
        ({"a": 1}, "features.b"),
        ({}, "features.a"),
        ({"a": 1, "b": 2, "": 3}, "features."),
        ({"a": 1, "b": 2, "A": 3}, "features.A"),
        ({"a": 1, "b": None}, "features.b"),
    ],
)
async def test_names_are_exactly_those_of_the_model(api, route, features, field):
    """Unknown, missing and null ones are each named."""
    path = await api.learnt()
    more = {"label": "UP"} if route == "feedback" else {}
    await api.refuses(f"{path}/{route}", 422, field, json={"features": features, **more})


@every_route
async def test_an_unknown_feature_is_told_what_the_features_are(api, route):
    """The text that a client sees, and the names it may choose from."""
    path = await api.learnt()
    more = {"label": "UP"} if route == "feedback" else {}
    row = {"features": {"a": 1, "b": 2, "c": 3}, **more}
    found = await api.refuses(f"{path}/{route}", 422, "features.c", json=row)
    expected = {"field": "features.c", "problem": UNKNOWN, "allowed": ["a", "b"]}
    assert [expected] == found["errors"]


@every_route
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"features": {"a": 1, "b": 2, "a": 3}, "label": "UP"}', "features.a"),
        ('{"features": {"a": 1, "b": 2, "\\u0061": 1}, "label": "UP"}', "features.a"),
        ('{"features": {"a": 1, "b": 2}, "label": "UP", "features": {"a": 1, "b": 2}}', "features"),
        ('{"label": "DOWN", "features": {"a": 1, "b": 2}, "label": "UP"}', "label"),
        ('{"features": {"a": {"x": 1, "x": 2}, "b": 2}, "label": "UP"}', "features.a.x"),
        ('{"features": {"a": 1, "a": 2, "b:": 1, "b": 2}, "label": "U:P"}', "features.a"),
    ],
)
async def test_a_name_given_twice_is_refused(api, route, text, field):
    """Decoders keep the last one silently; here no object may repeat a name, however it is spelt."""
    path = await api.learnt()
    if route == "predict":
        if field == "label":
            text, field = text.replace("label", "track").replace('"DOWN"', "true").replace('"UP"', "false"), "track"
        else:
            text = text.replace(', "label": "UP"', "").replace(', "label": "U:P"', "")
    await api.refuses(f"{path}/{route}", 422, field, content=text, headers=JSON)


@every_route
@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
async def test_nan_and_infinity_are_not_json(api, route, constant):
    """400, and still the field is named, wherever in the body it is."""
    path = await api.learnt()
    await api.refuses(f"{path}/{route}", 400, "features.a", content=body(route, constant), headers=JSON)
    deep = body(route, f'[[{{"x": [1, {constant}]}}]]')
    await api.refuses(f"{path}/{route}", 400, "features.a[0][0].x[1]", content=deep, headers=JSON)
    many = body(route, "[" + ",".join([constant] * 500) + "]")
    found = await api.refuses(f"{path}/{route}", 400, "features.a[0]", content=many, headers=JSON)
    assert 20 == len(found["errors"])


@every_route
@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400, "-1" + "0" * 400, "7" * 5000, "1e999999999"])
async def test_numbers_that_no_float_can_hold(api, route, number):
    """They are JSON, and 422."""
    path = await api.learnt()
    await api.refuses(f"{path}/{route}", 422, "features.a", number, content=body(route, number), headers=JSON)


@every_route
@pytest.mark.parametrize("value", ['"12345"', "true", "false", '""', "[98765]", '{"x": 98765}', '"NaN"', '"one"', "[]"])
async def test_what_is_no_number_is_refused(api, route, value):
    """Strings, booleans, lists and objects are no numbers, whatever they hold."""
    path = await api.learnt()
    secret = value.strip('"[]{}') if len(value.strip('"[]{}')) > 3 else None
    await api.refuses(f"{path}/{route}", 422, "features.a", secret, content=body(route, value), headers=JSON)


@pytest.mark.parametrize("label", ["null", "[]", '["UP"]', "{}", "1.5", "1e400", "9" * 400, "9" * 5000, str(2**63)])
@pytest.mark.parametrize("declared", [["UP", "DOWN"], None])
async def test_what_is_no_class(api, label, declared):
    """Null, lists, fractions and integers beyond 64 bits."""
    path = await api.learnt(labels=declared)
    text = f'{{"features": {{"a": 1, "b": 2}}, "label": {label}}}'
    await api.refuses(f"{path}/feedback", 422, "label", content=text, headers=JSON)
    text = text[:-1] + ', "id": "x"}'
    await api.refuses(f"{path}/feedback", 422, "label", content=text, headers=JSON)
    await api.refuses(f"{path}/feedback", 422, "label", json={**ROW, "label": "x" * 201})


@pytest.mark.parametrize("label", ["null", '"12345"', "true", "false", "[1]", "{}", "1e400", "9" * 400, "9" * 5000])
async def test_what_is_no_number_for_a_regression(api, label):
    """Only finite numbers."""
    path = await api.learnt(RLS)
    text = f'{{"features": {{"a": 1, "b": 2}}, "label": {label}}}'
    secret = "12345" if "12345" in label else None
    await api.refuses(f"{path}/feedback", 422, "label", secret, content=text, headers=JSON)
    text = text.replace(label, "NaN")
    await api.refuses(f"{path}/feedback", 400, "label", content=text, headers=JSON)


async def test_a_label_is_needed(api):
    """Left out it is named."""
    path = await api.learnt()
    await api.refuses(f"{path}/feedback", 422, "label", json=ROW)


async def test_an_undeclared_label_is_refused_with_the_declared_ones(api):
    """Where labels are declared."""
    path = await api.learnt()
    found = await api.refuses(f"{path}/feedback", 422, "label", "SIDEWAYS", json={**ROW, "label": "SIDEWAYS"})
    assert ["UP", "DOWN"] == found["errors"][0]["allowed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", ""),
        ("id", "x" * 201),
        ("id", "a\nb"),
        ("id", "newline\n"),
        ("id", "\x00"),
        ("id", "a\x7f"),
        ("id", 5.5),
        ("id", 10**200),
        ("id", True),
        ("id", ["x"]),
        ("prediction_id", ""),
        ("prediction_id", "x" * 201),
        ("prediction_id", "a\tb"),
        ("prediction_id", 5.5),
    ],
)
async def test_ids_are_1_to_200_printable_characters(api, name, value):
    """Empty, too long, with control characters, or neither text nor integer."""
    path = await api.learnt()
    row = ROW if name == "id" else {}
    await api.refuses(f"{path}/feedback", 422, name, json={**row, "label": "UP", name: value})


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "a\x7fb"])
async def test_an_idempotency_key_is_an_id_too(api, key):
    """The same rules, named as the header."""
    path = await api.learnt()
    headers = {"Idempotency-Key": key}
    await api.refuses(f"{path}/feedback", 422, "Idempotency-Key", json={**ROW, "label": "UP"}, headers=headers)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
async def test_ids_exclude_each_other(api, headers):
    """Both are named, whatever key stands beside them."""
    path = await api.learnt()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    row = {"label": "UP", "id": "x", "prediction_id": told["prediction_id"]}
    found = await api.refuses(f"{path}/feedback", 422, json=row, headers=headers)
    assert ["id", "prediction_id"] == [error["field"] for error in found["errors"]]
    assert 1 == len((await api.get(f"{path}/pending"))["pending"])


async def test_a_prediction_id_goes_without_features(api):
    """The row was kept; and without either there is nothing to learn."""
    path = await api.learnt()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    both = {**ROW, "label": "UP", "prediction_id": told["prediction_id"]}
    await api.refuses(f"{path}/feedback", 422, "features", json=both)
    await api.refuses(f"{path}/feedback", 422, "features", json={**both, "features": {}})
    await api.refuses(f"{path}/feedback", 422, "features", json={"label": "UP"})
    await api.refuses(f"{path}/feedback", 422, "features", json={"label": "UP", "features": None, "id": "x"})
    assert 1 == len((await api.get(f"{path}/pending"))["pending"])


async def test_a_refused_label_leaves_the_prediction_waiting(api):
    """A tracked prediction is not used up by a label or a discount that is refused."""
    path = await api.learnt()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    for wrong in ({"label": "SIDEWAYS"}, {"label": None}, {"label": "UP", "discount": 0.5}):
        row = {"prediction_id": told["prediction_id"], **wrong}
        await api.refuses(f"{path}/feedback", 422, json=row)
    await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": "UP"})


async def test_a_prediction_that_was_never_tracked_is_404(api):
    """Unknown, or another model's."""
    path, other = await api.learnt(), await api.learnt()
    told = await api.post(f"{other}/predict", {**ROW, "track": True})
    for identity in ("nobody", told["prediction_id"]):
        row = {"prediction_id": identity, "label": "UP"}
        await api.refuses(f"{path}/feedback", 404, "prediction_id", json=row)


async def test_discounts_are_for_algorithms_that_take_them(api):
    """The others take none, and say so."""
    for algorithm in ("dfop", "rls"):
        path = await api.learnt(algorithm=algorithm)
        await api.refuses(f"{path}/feedback", 422, "discount", json={**ROW, "label": "UP", "discount": 0.9})


@pytest.mark.parametrize(
    "discount", ["0", "-0.5", "1.0000001", "2", "1e-320", '"0.5"', "true", "[1]", "1e400", "9" * 5000]
)
async def test_discounts_out_of_range(api, discount):
    """More than 0 and at most 1, and really a number."""
    path = await api.learnt(algorithm="gdfop")
    content = body("feedback", more=f', "discount": {discount}')
    await api.refuses(f"{path}/feedback", 422, "discount", content=content, headers=JSON)


@every_route
async def test_unknown_fields_are_refused(api, route):
    """A misspelt option would otherwise be taken for its default."""
    path = await api.learnt()
    for name in ("lable", "Track", "features ", "new\nline", "\u0000", "x" * 5000):
        more = {"label": "UP"} if route == "feedback" else {}
        found = await api.refuses(f"{path}/{route}", 422, json={**ROW, **more, name: 1})
        assert [name[:200]] == [error["field"] for error in found["errors"]]


@pytest.mark.parametrize(("name", "value"), [("track", 1), ("track", "yes"), ("track", None), ("explain", 0)])
async def test_options_are_booleans(api, name, value):
    """1 is not true."""
    path = await api.learnt()
    await api.refuses(f"{path}/predict", 422, name, json={**ROW, name: value})


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
