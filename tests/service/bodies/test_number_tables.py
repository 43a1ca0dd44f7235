"""Tables of plain numbers are packed into arrays, as reading cell by cell gives them; SVMlight text as sparse rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.features import Schema, SparseSchema, parse_features
from core.problems import Invalid
from service.runtime.rows import number_tables
from service.runtime.rows.sparse_rows import projected_lines, read_lines

NAMES = ("a", "b")
SPACE = Schema(parse_features(list(NAMES)))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)
VALUES = NUMBERS | st.sampled_from([None, True, "1", 10**400, [1], [[1.0]], "\ud800", math.inf])
CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["", "-0", "-0.0", "-0e1", "0", "1.", ".5", "+1", "01", " 1", "1 ", "1\n", "null", " null", "1e999"]
    ),
    st.sampled_from(["NA", "NaN", "None", "n/a", "nan"]),
    st.text('0123456789+-.eE,[]{}" \t\nnul', max_size=6),
)


def table(cells):
    """Some rows of cells, now and then one too short or too long."""
    right, any_length = st.lists(cells, min_size=2, max_size=2), st.lists(cells, max_size=3)
    return st.lists(right | right | any_length, min_size=1, max_size=4)


def read(reader, *args):
    """The bytes of what a reader of cells gives; None where it refuses."""
    try:
        return reader(NAMES, *args).tobytes()
    except Invalid:
        return None


@given(table(VALUES))
@example([[1.0, -(2**63) - 1]])
def test_packed_values_are_those_of_the_schema(rows):
    """Wherever an array is given it is bit for bit what the cells give; floats and integers always give one."""
    found = number_tables.from_values(rows, 2)
    if found is not None:
        assert read(SPACE.block, rows, False) == found.tobytes()
    plain = all(len(row) == 2 and {int, float}.issuperset(map(type, row)) for row in rows)
    if plain and not {10**400, math.inf}.intersection(value for row in rows for value in row):
        assert found is not None


@given(table(CELLS))
@example([["1,2"]])
def test_packed_texts_are_those_of_the_schema(rows):
    """Wherever an array is given it is what the cells give; the sign of a zero aside, which JSON does not have."""
    found = number_tables.from_texts(rows, 2)
    if found is not None:
        assert np.array_equal(SPACE.block(NAMES, rows, False, texts=True), found)


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2), min_size=1))
def test_numbers_as_json_writes_them_are_packed(rows):
    """No table of ordinary numbers is left to the slow reading."""
    texts = [[json.dumps(value) for value in row] for row in rows]
    found = number_tables.from_texts(texts, 2)
    assert found is not None
    assert np.array(rows).tobytes() == found.tobytes()


@pytest.mark.parametrize("width", [1, 15, 16, 70_000])
@pytest.mark.parametrize("count", [1, 15, 16])
def test_rows_of_every_width_are_packed(width, count):
    """The header of a row, and of the table, takes one, three or five bytes."""
    expected = np.arange(count * width, dtype=np.float64).reshape(count, width)
    found = number_tables.from_values(expected.tolist(), width)
    assert found is not None
    assert expected.tobytes() == found.tobytes()
    assert number_tables.from_values(expected.tolist(), width + 1) is None


def test_a_long_table_is_its_parts():
    """It is read some thousand rows at a time; one odd cell anywhere leaves all of it to the schema."""
    rows = np.arange(2.0 * 5000).reshape(5000, 2)
    values, texts = rows.tolist(), [[repr(cell) for cell in row] for row in rows.tolist()]
    for found in (number_tables.from_values(values, 2), number_tables.from_texts(texts, 2)):
        assert found is not None
        assert rows.tobytes() == found.tobytes()
    values[4321][0], texts[4321][0] = None, "x"
    assert number_tables.from_values(values, 2) is None
    assert number_tables.from_texts(texts, 2) is None


@pytest.mark.parametrize("cells", [["null", "x"], ["null", "1"], ["1,2", ""], ["1],[2", "3"], ["1.5", ""], ["1,2"]])
def test_a_text_is_never_taken_for_several_numbers_or_for_none(cells):
    """Neither "null" nor "1,2" in quotes is a number, and an empty cell is missing: the schema looks."""
    assert number_tables.from_texts([cells], 2) is None


def test_no_rows_and_no_columns_are_no_table():
    """The schema says what is wrong with them."""
    assert number_tables.from_values([], 2) is None
    assert number_tables.from_values([[]], 0) is None
    assert number_tables.from_texts([[]], 0) is None


SPARSE = SparseSchema(0, 24, "sign")


def test_rows_are_those_of_their_names_and_values():
    """To the bit; comments, labels and line ends do not matter, names are texts before the last colon."""
    rows = [{"a": 0.1, "b": -2.5e-7}, {"1": 3}, {"01": 3}, {"größe": 2, "a:b": 1}]
    text = [" ".join(f"{name}:{value!r}" for name, value in row.items()) for row in rows]
    lines = "\r\n".join(f"+1 {line}  # {at}" for at, line in enumerate(text))
    expected = np.concatenate([SPARSE.row(row) for row in rows])
    np.testing.assert_array_equal(expected, projected_lines(SPARSE, [*read_lines(lines)]))


def test_svmlight_lines():
    """Labels are the first cells without a value; blank lines and comments are passed over."""
    lines = [*read_lines("+1 a:1 # x:9\n\n#\n-1\nb:2\n")]
    assert [(1, "+1", ["a:1"]), (4, "-1", []), (5, None, ["b:2"])] == [(x.number, x.label, x.cells) for x in lines]
    assert ["line 1, column 1", "line 5, column 1"] == [lines[0].place(-1), lines[2].place(0)]
