"""SVMlight text as rows of a sparse space; test_api_sparse.py has what is refused."""

import numpy as np

from core.features import SparseSchema
from service.runtime.rows.sparse_rows import projected_lines, read_lines

SPACE = SparseSchema(0, 24, "sign")


def test_rows_are_those_of_their_names_and_values():
    """To the bit; comments, labels and line ends do not matter, names are texts before the last colon."""
    rows = [{"a": 0.1, "b": -2.5e-7}, {"1": 3}, {"01": 3}, {"größe": 2, "a:b": 1}]
    text = [" ".join(f"{name}:{value!r}" for name, value in row.items()) for row in rows]
    lines = "\r\n".join(f"+1 {line}  # {at}" for at, line in enumerate(text))
    expected = np.concatenate([SPACE.row(row) for row in rows])
    np.testing.assert_array_equal(expected, projected_lines(SPACE, [*read_lines(lines)]))


def test_svmlight_lines():
    """Labels are the first cells without a value; blank lines and comments are passed over."""
    lines = [*read_lines("+1 a:1 # x:9\n\n#\n-1\nb:2\n")]
    assert [(1, "+1", ["a:1"]), (4, "-1", []), (5, None, ["b:2"])] == [(x.number, x.label, x.cells) for x in lines]
    assert ["line 1, column 1", "line 5, column 1"] == [lines[0].place(-1), lines[2].place(0)]
