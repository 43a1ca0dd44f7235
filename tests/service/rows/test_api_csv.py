"""CSV as other programs write it: other delimiters, words for missing values, columns that are no features."""

import math

import pytest

from core.features.parsing import MISSING_TEXTS
from tests.service.api_fixtures import CSV, JSON, NPY, RLS, columnar, npy, problem
from tests.service.switches import overlapping, row

TABLE = columnar(4)
LABELS = ["UP", "DOWN", "DOWN", "UP"]


def csv(delimiter=",", extra=("note", "when")):
    """The rows with two columns that are no features."""
    lines = [["a", extra[0], "y", "b", extra[1]]]
    lines += [
        [repr(a), f"n{at}", label, repr(b), "2026"]
        for at, ((a, b), label) in enumerate(zip(TABLE["data"], LABELS, strict=True))
    ]
    return "\n".join(delimiter.join(line) for line in lines)


@pytest.mark.parametrize(
    ("delimiter", "query"),
    [(",", None), (",", ","), (";", ";"), ("\t", "tab"), ("\t", "\t"), ("|", "|"), (" ", " "), ("¦", "¦"), (":", ":")],
)
async def test_columns_are_passed_over_and_delimiters_are_read(api, delimiter, query):
    """Of both kinds of batches; the rest is read as ever."""
    paths = [await api.new() for _ in range(2)]
    expected = await api.post(f"{paths[0]}/feedback/batch", {**TABLE, "labels": LABELS})
    params = {"label": "y", "drop": "note,when", **({} if query is None else {"delimiter": query})}
    answer = await api.post(f"{paths[1]}/feedback/batch", content=csv(delimiter), headers=CSV, params=params)
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    params = {**params, "drop": "note,when,y"}
    del params["label"]
    told = await api.post(f"{paths[1]}/predict/batch", content=csv(delimiter), headers=CSV, params=params)
    assert told == await api.post(f"{paths[1]}/predict/batch", TABLE)


async def test_a_dropped_name_may_hold_a_comma(api):
    """In quotes, as in a line of CSV; a column that is there twice goes twice."""
    path = await api.learnt()
    content = '"x,y",a,z,b,z\n1,2,3,4,5\n'
    params = {"drop": '"x,y",z'}
    told = await api.post(f"{path}/predict/batch", content=content, headers=CSV, params=params)
    assert told == await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": [[2, 4]]})


async def test_overlap_rows_pass_over_columns_too(api):
    """With their own delimiter."""
    path = await overlapping(api)
    names = [*row(0)]
    lines = [[*names, "odd"], *([*map(repr, row(at).values()), "x"] for at in range(3))]
    content, params = "\n".join(";".join(line) for line in lines), {"delimiter": ";", "drop": "odd"}
    answer = await api.post(f"{path}/features/overlap", content=content, headers=CSV, params=params)
    assert 11 == answer["overlap_rows"]


@pytest.mark.parametrize("word", sorted(MISSING_TEXTS))
async def test_words_for_missing_values(api, word):
    """Where numbers are expected they are missing values, as NaN of an array is; refused where these are."""
    path = await api.learnt(missing="mean")
    content = f"a,b\n1,{word}\n{word},2\n{word},{word}\n"
    told = await api.post(f"{path}/predict/batch", content=content, headers=CSV)
    holes = [[1, math.nan], [math.nan, 2], [math.nan, math.nan]]
    assert told == await api.post(f"{path}/predict/batch", content=npy(holes), headers=NPY)
    found = await api.refuses(f"{path}/predict/batch", 422, content=f"a,b\n1,٣\n{word},2\n", headers=CSV)
    assert ["row 1, column b"] == [error["field"] for error in found["errors"]], "beside a cell that is no number"
    strict = await api.learnt()
    answer = await api.ask("POST", f"{strict}/predict/batch", content=content, headers=CSV)
    assert "is missing" in problem(answer, 422, "row 1, column b")["errors"][0]["problem"]


async def test_words_for_missing_values_among_categories(api):
    """A category may be called so; what is none is no missing value, but for the empty cell."""
    declared = ["x", {"name": "day", "type": "categorical", "categories": ["NA", "mon"]}]
    paths = [await api.new(RLS, features=declared, missing="zero") for _ in range(2)]
    content = "x,day,y\nNA,NA,1\n1,mon,2\nnull,,3\n"
    answer = await api.post(f"{paths[0]}/feedback/batch?label=y", content=content, headers=CSV)
    data = [[None, "NA"], [1, "mon"], [None, None]]
    body = {"columns": ["x", "day"], "data": data, "labels": [1, 2, 3]}
    expected = await api.post(f"{paths[1]}/feedback/batch", body)
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    strict = await api.new(RLS, features=declared)
    await api.post(f"{strict}/feedback/batch?label=y", content="x,day,y\n1,null,1\n", headers=CSV)


@pytest.mark.parametrize("cell", ['"0,5"', '"1.000,5"'])
async def test_a_decimal_comma_is_not_read(api, cell):
    """And the answer says so."""
    found = await api.refuses(
        f"{await api.shared()}/predict/batch", 422, "row 1, column b", content=f"a,b\n1,{cell}\n", headers=CSV
    )
    assert "decimal commas are not supported" in found["errors"][0]["problem"]


@pytest.mark.parametrize(("delimiter", "named"), [(";", ";"), ("\t", "tab"), ("|", "|")])
async def test_another_delimiter_is_named(api, delimiter, named):
    """A header that is one column is answered with what stands in it, and the query that reads it."""
    path, content = await api.shared(), csv(delimiter)
    for route, params, field in (("feedback", {"label": "y"}, "label"), ("predict", {}, "header")):
        how = {"content": content, "headers": CSV, "params": params}
        found = await api.refuses(f"{path}/{route}/batch", 422, field, **how)
        said = found["errors"][0]["problem"]
        assert f"{delimiter!r} stands where ',' is expected; delimiter={named} in the query reads it" in said
    wrong = {"content": csv(), "headers": CSV, "params": {"label": "y", "delimiter": ";"}}
    found = await api.refuses(f"{path}/feedback/batch", 422, "label", **wrong)
    assert "delimiter=, in the query" in found["errors"][0]["problem"]


async def test_one_column_may_be_called_so(api):
    """Where the delimiter is given, or the cells do not look alike, it is the name of a column."""
    path = await api.new(RLS, features=["a;b"])
    await api.post(f"{path}/feedback", {"features": {"a;b": 1}, "label": 2})
    for content, params in (("a;b\n1\n", {}), ('a;b\n"1"\n', {"delimiter": ","})):
        told = await api.post(f"{path}/predict/batch", content=content, headers=CSV, params=params)
        assert 1 == len(told["predictions"])


@pytest.mark.parametrize(
    ("params", "field"),
    [
        *(({"delimiter": given}, "delimiter") for given in ("", ";;", '"', "a", ".", "\n")),
        *(({"drop": given}, "drop") for given in ("", "nobody", "note\rwhen", "note,nobody", "y")),
        ({"delimiter": ";"}, "label"),
        ({"drop": "note", "label": "note"}, "drop"),
        *(({"label": given}, "label") for given in (None, "z", "")),
        *(({"id": given}, "id") for given in ("z", "y")),
        ({"discount": "z"}, "discount"),
        ({"labels": "y"}, "labels"),
    ],
)
async def test_what_is_wrong_with_the_queries_of_csv(api, params, field):
    """The parameter is named, each column once; what is the label cannot be passed over."""
    query = {name: value for name, value in {"label": "y", **params}.items() if value is not None}
    how = {"content": csv(), "headers": CSV, "params": query}
    await api.refuses(f"{await api.shared()}/feedback/batch", 422, field, **how)


async def test_dropped_columns_whose_names_have_commas(api):
    """Such a name is quoted; an unknown one is named as it was meant."""
    how = {"content": '"b, c",a,b\n1,2,3\n', "headers": CSV}
    path = await api.shared()
    assert 1 == len((await api.post(f"{path}/predict/batch", params={"drop": '"b, c"'}, **how))["predictions"])
    found = await api.ask("POST", f"{path}/predict/batch", params={"drop": '"b, d"'}, **how)
    assert "did you mean b, c?" in problem(found, 422, "drop")["detail"]


async def test_the_index_of_pandas(api):
    """A column without a name is named by its place; the answer says how to leave it out."""
    path, how = await api.shared(), {"content": ",a,b\n0,1,2\n1,3,4\n", "headers": CSV}
    late = {"content": "z,a,,b\n5,1,0,2\n", "headers": CSV}
    await api.refuses(f"{path}/predict/batch?drop=z", 422, "header[2]", **late)
    assert "drop=," in (await api.refuses(f"{path}/predict/batch", 422, "header[0]", **how))["detail"]
    assert 2 == len((await api.post(f"{path}/predict/batch?drop=,", **how))["predictions"])


async def test_ragged_rows_beside_dropped_columns(api):
    """The row is named, however many cells it lacks."""
    how = {"content": "a,b,z\n1,2,3\n1,2\n", "headers": CSV, "params": {"drop": "z"}}
    await api.refuses(f"{await api.shared()}/predict/batch", 422, "row 2", **how)


@pytest.mark.parametrize("query", ["delimiter=;", "drop=x", "label=y"])
async def test_the_queries_of_csv_are_for_csv(api, query):
    """Of other bodies they are refused."""
    path = await api.shared()
    name = query.partition("=")[0]
    for route in ("predict", "feedback"):
        await api.refuses(f"{path}/{route}/batch?{query}", 422, name, json={**TABLE, "labels": LABELS})
    await api.refuses(f"{path}/predict?{query}", 422, name, content=b"{}", headers=JSON)
