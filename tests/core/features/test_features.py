"""Declared features, and rows read against them."""

import json
import math
from functools import partial
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.features import parse_features
from core.problems import Invalid
from tests.core.features.schemas import FINITE, MIXED, NAN, schema
from tests.core.refusals import fields, problems

# -- declarations


CATEGORICAL = {"name": "a", "type": "categorical"}
WRONG_FIELDS = [
    ("colour", {"colour": 1}), ("type", {"type": "text"}), ("type", {"type": []}), ("max", {"min": 1, "max": 1}),
    ("min", {"min": True}), ("min", {"min": "0"}), ("max", {"max": 10**400}), ("max", {"max": math.inf}),
    *(("categories", {"type": kind, "categories": ["x", "y"]}) for kind in ("numeric", "boolean")),
    *(("buckets", {"type": "categorical", "buckets": buckets}) for buckets in (1, 10_001)),
    ("buckets", {"buckets": True}), ("buckets", {"categories": ["x", "y"], "buckets": 8}),
    ("outside", {"min": 0, "outside": "drop"}), ("outside", {"outside": "clip"}),
    ("outside", {"categories": ["x", "y"], "outside": "clip"}),
    ("min", {**CATEGORICAL, "categories": [1, 2], "min": 0}), ("categories", {**CATEGORICAL, "categories": ["x"]}),
    *((f"categories[{at}]", {**CATEGORICAL, "categories": categories})
      for at, categories in ((1, ["x", None]), (2, [0, 1, "0"]), (1, [1, 1.0]))),
]  # fmt: skip
"""A field of a feature that is wrong, and what the declaration has beside the name."""


@pytest.mark.parametrize(
    ("named", "raw"),
    [
        *((["features"], raw) for raw in (None, "a", [], ["a"] * 100_001)),
        *((["features[0]"], [name]) for name in ("a" * 201, "a\n", "\ud800")),
        *((["features[1]"], ["a", name]) for name in ("", "a")),
        (["features[0]", "features[1]"], [1, None]),
        (["features[1].name"], ["a", {"name": "a", "min": 0}]),
        (["features[0].name"], [{}]),
        *(([f"features[0].{field}"], [{"name": "a", **more}]) for field, more in WRONG_FIELDS),
        (["features[0].min", "features[0].max"], [{"name": "a", "type": "time", "min": 0, "max": 1}]),
        *((["features[1]"], [{"name": "a", "type": kind}, name])
          for kind, name in (("time", "a.days"), ("categorical", "a#31"))),
        (["features[1]"], [{**CATEGORICAL, "categories": ["x", "y"]}, "a=y"]),
        (["features"], [{**CATEGORICAL, "name": str(i), "categories": list(range(9999))} for i in range(11)]),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_refused(named, raw):
    """Each problem is named by its path."""
    assert named == fields(parse_features, raw)


# -- schemas


def test_a_schema_knows_its_columns():
    """Names, indices and encoded columns follow the declaration."""
    mixed = schema(MIXED)
    assert ("load", "day", "x") == mixed.names
    assert {"load": 0, "day": 1, "x": 2} == mixed.index
    assert ("load", "day=mon", "day=tue", "day=1", "day=false", "x") == mixed.columns
    assert 6 == mixed.width


def test_the_id_follows_from_the_declaration():
    """Equal declarations have equal ids; another order, category or range changes the id; the digest never changes."""
    assert schema(MIXED).id == schema(MIXED).id
    others = [["a", "b"], ["b", "a"], [{"name": "a", "min": 0}, "b"], MIXED, [MIXED[0], MIXED[1]]]
    assert len(others) == len({schema(raw).id for raw in others})
    assert blake2b(b'["a","b"]', digest_size=8).hexdigest() == schema(["a", "b"]).id


@pytest.mark.parametrize("raw", [["a"], ["a", "b", "c"], MIXED])
def test_a_row_is_read_by_names(raw):
    """Whatever the order of the names, numbers come out in schema order and categories as indices."""
    values = {"x": 3, "c": 2.5, "b": -1, "day": 1.0, "load": 2, "a": 10**18}
    expected = [2.0 if name == "day" else float(values[name]) for name in schema(raw).names]
    row = schema(raw).row({name: values[name] for name in reversed(schema(raw).names)}, False)
    assert [expected] == row.tolist()
    assert (np.float64, True) == (row.dtype, row.flags.c_contiguous)


@pytest.mark.parametrize("value", [True, "1", [], {}, math.nan, math.inf, -math.inf, 10**400, -(10**400), 1j])
@pytest.mark.parametrize("missing_allowed", [False, True])
def test_an_invalid_number_is_refused(value, missing_allowed):
    """Booleans, texts and non-finite values are not numbers, neither in a row nor in a block."""
    assert ["features.b"] == fields(schema().row, {"a": 1, "b": value, "c": 1}, missing_allowed)
    assert ["data[1][1]"] == fields(schema().block, ["c", "b", "a"], [[1, 2, 3], [1, value, 3]], missing_allowed)


@given(st.lists(FINITE, min_size=3, max_size=3))
def test_every_finite_number_gets_in(values):
    """Any finite double is read bit for bit, even if the sum of the row overflows."""
    values = [max(values, key=abs)] * 2 + values[2:]
    assert [values] == schema().row(dict(zip("abc", values, strict=True)), False).tolist()
    assert [values, values] == schema().block("a b c".split(), [values, values], False).tolist()


def test_unknown_and_missing_names_are_listed():
    """The refusal names unknown and missing features, at most 20 of them, and lists the allowed names."""
    found = problems(schema().row, {"a": 1, "d": 2, "c": None}, False)
    assert ["features.d", "features.b", "features.c"] == [problem.field for problem in found]
    assert ["a", "b", "c"] == found[0].allowed
    found = problems(schema([f"f{i}" for i in range(300)]).row, {"z": 1}, False)
    assert (20, 100) == (len(found), len(found[0].allowed))
    with pytest.raises(Invalid):
        schema().row([("a", 1)], False)


def test_a_long_table_is_its_parts():
    """Reading in chunks of some thousand rows does not show; a bad cell is named by its row in the whole table."""
    mixed, count = schema(MIXED), 5000
    rows = [[float(at), ["mon", "tue", 1, False][at % 4], at % 7 or None] for at in range(count)]
    texts = [["" if cell is None else json.dumps(cell).strip('"') for cell in row] for row in rows]
    found = mixed.block(mixed.names, rows, True)
    assert (count, 3) == found.shape
    np.testing.assert_array_equal(np.concatenate([mixed.block(mixed.names, [row], True) for row in rows]), found)
    np.testing.assert_array_equal(found, mixed.block(mixed.names, texts, True, texts=True))
    rows[4321][0], texts[4321][0] = "x", "x"
    for read, place in ((mixed.block, "data[4321][0]"), (partial(mixed.block, texts=True), "row 4322, column load")):
        assert [place] == fields(read, mixed.names, rows if read == mixed.block else texts, True)


@settings(max_examples=60)
@given(st.permutations(["a", "b", "c"]), st.integers(0, 3), st.integers(0, 4))
def test_numbers_are_a_block(order, width, count):
    """An array with its columns in any order, some absent, is read like a table of the same values."""
    columns, X = order[:width], np.arange(1.0, 1 + count * width).reshape(count, width)
    found = schema().numbers(columns, X, True)
    assert np.array_equal(schema().block(columns, X.tolist(), True), found, equal_nan=True)
    assert found.flags.c_contiguous
    if width < 3:
        assert ["header"] == fields(schema().numbers, columns, X, False, texts=True)


def test_texts_are_numbers_and_categories():
    """Categories match by text or by numeric value; an empty cell is missing."""
    table = schema(MIXED).block(["day", "x", "load"], [["1.0", "2e3", "-0.5"], ["false", "", "1"]], True, texts=True)
    assert np.array_equal([[-0.5, 2, 2000], [1, 3, NAN]], table, equal_nan=True)
    assert ["row 1, column day", "row 1, column x"] == fields(
        schema(MIXED).reading(others=False).block, ["day", "x", "load"], [["wed", "", "1"]], False, texts=True
    )


def test_an_empty_text_may_be_a_category():
    """If "" is a declared category, an empty cell is that category and not missing."""
    blank = schema([{"name": "a", "type": "categorical", "categories": ["x", ""]}, "b"])
    for missing_allowed in (False, True):
        assert [[1.0, 2.0]] == blank.block(["a", "b"], [["", "2"]], missing_allowed, texts=True).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.uint64, ">f8"])
def test_an_array_of_real_numbers_is_accepted(dtype):
    """Any real type becomes C-contiguous float64; an array that already is one is not copied."""
    X = np.asfortranarray([[1, 2, 3], [4, 1, 6]]).astype(dtype)
    raw = schema(MIXED).matrix(X, False)
    assert X.tolist() == raw.tolist()
    assert (np.float64, True) == (raw.dtype, raw.flags.c_contiguous)
    assert raw is schema(MIXED).matrix(raw, False)


@pytest.mark.parametrize(
    "X", [np.zeros(3), np.zeros((2, 4)), *(np.zeros((2, 3), dtype=kind) for kind in (bool, complex, object))]
)
def test_an_array_of_another_shape_or_type_is_refused(X):
    """Rows by columns of real numbers; test_kinds.py has the cells."""
    assert ["data"] == fields(schema(MIXED).matrix, X, False)
