"""SVMlight text as rows of a sparse space, and its refusals."""

import numpy as np
import pytest

from core.features import SparseSchema
from core.problems import Invalid
from service.runtime.rows.sparse_rows import projected_lines, read_lines

SPACE = SparseSchema(0, 24, "sign")


def test_rows_are_those_of_their_names_and_values():
    """To the bit; comments, labels and line ends do not matter, names are texts before the last colon."""
    rows = [{"a": 0.1, "b": -2.5e-7}, {"1": 3}, {"01": 3}, {"größe": 2, "a:b": 1}]
    text = [" ".join(f"{name}:{value!r}" for name, value in row.items()) for row in rows]
    lines = "\r\n".join(f"+1 {line}  # {at}" for at, line in enumerate(text))
    expected = np.concatenate([SPACE.row(row) for row in rows])
    np.testing.assert_array_equal(expected, projected_lines(SPACE, [*read_lines(lines)]))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1 a:1\n\n# nothing\n1 a:1 b:2 a:3", "line 4, column 11"),
        ("1 :5", "line 1, column 3"),
        ("  1   word", "line 1, column 7"),
        ("1 a:", "line 1, column 3"),
        ("1 a:nan", "line 1, column 3"),
        ("1 a:1_0", "line 1, column 3"),
        ("1 a:1e999", "line 1, column 3"),
        ("a:1 b:x", "line 1, column 5"),
        ("3 qid:1 a:1", "line 1, column 3"),
    ],
)
def test_svmlight_that_cannot_be(text, place):
    """Each is named by line and column, from 1, blank lines and comments counted."""
    with pytest.raises(Invalid) as refused:
        projected_lines(SPACE, [*read_lines(text)])
    assert [place] == [problem.field for problem in refused.value.problems]


def test_svmlight_lines():
    """Labels are the first cells without a value; blank lines and comments are passed over."""
    lines = [*read_lines("+1 a:1 # x:9\n\n#\n-1\nb:2\n")]
    assert [(1, "+1", ["a:1"]), (4, "-1", []), (5, None, ["b:2"])] == [(x.number, x.label, x.cells) for x in lines]
    assert ["line 1, column 1", "line 5, column 1"] == [lines[0].place(-1), lines[2].place(0)]
