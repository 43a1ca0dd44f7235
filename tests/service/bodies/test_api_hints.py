"""Refusals that name what was meant, what else is lacking, where it is, and the declaration that would take a row."""

import json

import msgspec
import pytest

from service.api.http import json_body, json_pieces
from service.api.http.keys import Keys
from service.api.schemas import FeedbackRow
from service.errors import NotJson, Unauthorized
from tests.service.api_fixtures import CSV, DFOP, JSON, problem

ROW = {"a": 0.25, "b": -0.5}


@pytest.mark.parametrize(
    ("path", "body", "meant", "lacking"),
    [
        ("/predict", {"feature": ROW}, {"feature": "features"}, ["features"]),
        ("/predict", {"features": ROW, "trak": True, "explian": True}, {"trak": "track", "explian": "explain"}, []),
        ("/feedback", {"feature": ROW, "label": "UP"}, {"feature": "features"}, ["features"]),
        ("/feedback", {"prediction_id": "x", "lable": "UP"}, {"lable": "label"}, ["label"]),
        ("/feedback/batch", {"colums": ["a"], "data": [[1]], "labels": [1]}, {"colums": "columns"}, []),
        ("/feedback/batch", [{"features": ROW, "lable": "UP"}], {"rows[0].lable": "label"}, ["rows[0].label"]),
        ("/features/switch", {"acton": "begin"}, {"acton": "action"}, ["action"]),
    ],
)
async def test_a_field_too_many(api, path, body, meant, lacking):
    """Each is told with the field that may be meant and all that there are; then what the body lacks."""
    found = problem(await api.ask("POST", await api.shared() + path, json=body), 422)
    told = {error["field"]: error for error in found["errors"]}
    assert {*meant, *lacking} == {*told}
    for name, known in meant.items():
        assert f"is not a field of this request; did you mean {known}?" == told[name]["problem"]
        assert known in told[name]["allowed"]
    assert all("is required" == told[name]["problem"] for name in lacking)


@pytest.mark.parametrize("path", ["/predict", "/feedback"])
async def test_a_row_without_features(api, path):
    """Values that stand beside the label belong under "features", and numbers have no quotes."""
    model, label = await api.shared(), {"label": "UP"} if path == "/feedback" else {}
    found = problem(await api.ask("POST", model + path, json={**ROW, **label}), 422)
    assert 'is required: put the row under "features"' in [one["problem"] for one in found["errors"]]
    quoted = ": send it without quotes"
    for given, said in (("3", quoted), ("-0.5", quoted), ("x3", ""), ("3,5", "")):
        found = problem(await api.ask("POST", model + path, json={"features": {**ROW, "a": given}, **label}), 422)
        assert found["errors"][0]["problem"].startswith(f"is not a number{said}")


async def test_a_large_body_is_not_read_again():
    """The field that the decoder met is told, and no other."""
    body = b'{"lable": "' + b"x" * json_body.LOOKED_AT_BYTES + b'", "other": 1}'
    (found,) = json_body.refusal(body, FeedbackRow, "", "lable").problems
    assert ("lable", "is not a field of this request; did you mean label?") == found[:2]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"features": {"a": 1', "it ends too early (byte 20)"),
        (b'{"features":\n  {"a": 1,}}', "trailing comma in object (line 2, column 11, byte 23)"),
        (b'{"features": {"\xc3\xa4": tru}}', "(byte 24)"),
        (rb'{"\\ud800\ud83d\ude00": "\uD83d"}', "half of a surrogate pair is not a character (byte 25)"),
        (b"", "is empty"),
    ],
)
async def test_what_is_not_json_is_told_with_its_place(api, content, said):
    """By byte, and in a body of several lines by line and column."""
    answer = await api.ask("POST", f"{await api.shared()}/predict", content=content, headers=JSON)
    assert said in problem(answer, 400)["detail"]


@pytest.mark.parametrize("before", [b"x" * 1000, b"\\\\" * 70, b"\\ud83d\\ude00" * 80, b"\\\\\\ud83d\\ude00\\n" * 60])
async def test_half_a_pair_is_found_wherever_a_piece_of_the_body_ends(monkeypatch, before):
    """A large body is searched in pieces, so that other requests are answered in between."""
    monkeypatch.setattr(json_pieces, "PIECE_BYTES", 40)
    for more in range(40):
        body = b'"' + b"y" * more + before + b'\\uD83dx"'
        with pytest.raises(NotJson, match=f"not a character .byte {len(body) - 8}"):
            json_body.decode(body, msgspec.json.Decoder(str))


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("label=clas", "label", "names no column; did you mean class?"),
        ("label=twice", "label", "names several columns"),
        ("lable=class", "lable", "is not a parameter of this route; did you mean label?"),
        ("label=class&drop=noet", "drop", "did you mean note?"),
    ],
)
async def test_queries_of_csv(api, query, field, said):
    """A column or a parameter that is not there is told with the nearest one."""
    content = b"a,b,note,twice,twice,class\n1,2,x,1,1,UP\n"
    path = f"{await api.shared()}/feedback/batch?{query}"
    found = problem(await api.ask("POST", path, content=content, headers={"Content-Type": "text/csv"}), 422, field)
    assert said in next(error["problem"] for error in found["errors"] if error["field"] == field)


async def test_settings_and_tests_that_may_be_meant(api):
    """Of a change and of a watch as well."""
    path = await api.shared()
    for body, said in (({"on_drfit": "reset"}, "on_drift"), ({"watch": {"eror_rate": None}}, "error_rate")):
        found = problem(await api.ask("PATCH", path, json=body), 422)
        assert f"did you mean {said}?" in found["errors"][0]["problem"]


async def test_no_key_and_an_unknown_one():
    """Are told apart, and nothing else is told."""
    keys = Keys("me:s3cret:read", 0.0, lambda: 0.0)
    for headers, said in (({}, "no key was sent"), ({b"x-api-key": b"s3cre"}, "this key is not known")):
        with pytest.raises(Unauthorized, match=f"^{said}: ") as denied:
            keys.caller(headers)
        assert "s3cre" not in str(denied.value)


@pytest.mark.parametrize(("value", "kind"), [("gold", "categorical"), ("", "categorical"), (True, "boolean")])
async def test_what_is_no_number_names_the_declaration_that_takes_it(api, value, kind):
    """For a single row and a batch: of the very feature, as it stands in the body of PUT of another model."""
    declaration = json.dumps({"name": "b", "type": kind})
    batch = {"columns": ["a", "b"], "data": [[1, value]], "labels": ["UP"]}
    for route, body, field in (
        ("predict", {"features": {"a": 1, "b": value}}, "features.b"),
        ("feedback", {"features": {"a": 1, "b": value}, "label": "UP"}, "features.b"),
        ("feedback/batch", batch, "data[0][1]"),
    ):
        found = await api.refuses(f"{await api.shared()}/{route}", 422, field, json=body)
        (error,) = found["errors"]
        assert error["problem"].endswith(
            f"create another model that declares all its features, this one as {declaration}"
        )
        assert declaration in found["detail"]
        assert "a finite number" == error["allowed"]
    path = await api.new({**DFOP, "features": ["a", json.loads(declaration)], "missing": "mean"})
    assert 200 == (await api.ask("POST", f"{path}/feedback/batch", json=batch)).status_code


async def test_a_gap_in_the_first_row_names_both_ways_out(api):
    """A row without gaps first, or another model whose features are all declared."""
    path, gap, full = await api.new({**DFOP, "features": None}), {"a": 1, "b": None}, {"a": 1, "b": 2}
    found = await api.refuses(f"{path}/feedback", 422, "features.b", json={"features": gap, "label": "UP"})
    (error,) = found["errors"]
    said, _, declaration = error["problem"].partition("declares all its features, this one for example as ")
    assert said.endswith("send a row without gaps first, or create another model that ")
    declared = await api.new({**DFOP, "features": ["a", json.loads(declaration)], "missing": "mean"})
    for model, rows in ((path, [full]), (declared, [gap, full])):
        for row in rows:
            answer = await api.ask("POST", f"{model}/feedback", json={"features": row, "label": "UP"})
            assert 200 == answer.status_code


IGNORED, FILLED = 'add it to "ignore" to skip it', 'declare "missing": "mean" or "zero"'


@pytest.mark.parametrize(
    ("route", "how", "field", "said"),
    [
        ("", {"json": {"features": {"Temprature": 1, "humid": 2}}}, "features.Temprature", "did you mean temperature?"),
        ("", {"json": {"features": {"x": 1, "humid": 2}}}, "features.x", IGNORED),
        ("", {"json": {"features": {"temperature": 1, "humid": None}}}, "features.humid", FILLED),
        ("", {"json": {"features": {"temperature": 1}}}, "features.humid", FILLED),
        ("/batch", {"json": {"columns": ["Temprature", "humid"], "data": [[1, 2]]}}, "columns[0]", "mean temperature?"),
        ("/batch", {"content": "temperature,hum\n1,2\n", "headers": CSV}, "header[1]", "did you mean humid?"),
        ("/batch", {"content": "temperature,humid\n1,gold\n", "headers": CSV}, "row 1, column humid", "categorical"),
    ],
)
async def test_a_row_is_told_what_would_be_right(api, route, how, field, said):
    """The name that was probably meant, or how to ignore it; how to fill a gap; how to declare a text."""
    path = await api.new({**DFOP, "features": ["temperature", "humid"]})
    found = await api.refuses(f"{path}/predict{route}", 422, field, **how)
    assert said in next(error["problem"] for error in found["errors"] if error["field"] == field)


async def test_a_misspelt_field_of_a_declaration(api):
    """And a type that is none."""
    features = [{"name": "a", "categorys": ["x", "y"]}, {"name": "b", "type": "category"}]
    answer = await api.ask("PUT", "/models/misspelt", json={**DFOP, "features": features})
    assert 422 == answer.status_code
    problems = {error["field"]: error["problem"] for error in answer.json()["errors"]}
    assert problems["features[0].categorys"].endswith("did you mean categories?")
    assert problems["features[1].type"].endswith("did you mean categorical?")
