"""What a body that is refused costs: no Python for each of its cells, and no reading on behind a bound.

Counted in calls, of Python and of C, which no clock and no busy machine changes.
"""

import json
import sys

import pytest

from core.config import Config
from core.model import Model
from core.problems import Invalid
from service.api.rows.formats.json_tables import FEEDBACK
from service.api.rows.formats.tables import Sent, read_table
from service.errors import OnepassError
from service.runtime.rows.row_validation import RowValidator

ROWS, ROWS_MAX = 20_000, 1_000
FEW = 5_000
"""Calls that reading a body may take beside those of its rows up to the bound."""
TEXTS = {
    "task": "classification",
    "labels": ["UP", "DOWN"],
    "features": ["a", {"name": "b", "categories": ["a:b", "c"]}],
}
NUMBERS = {"task": "regression", "features": ["a", "b"]}
SPARSE = {"task": "classification", "algorithm": "sparse_dfop", "params": {"compressed_dim": 4}}
JSON, CSV, SVMLIGHT = "application/json", "text/csv", "text/x-svmlight"


def calls(model, kind, body, rows_max=ROWS, **query):
    """How many calls reading a batch takes, and the error that refuses it."""
    own = RowValidator("m", Model.first(Config.parse(model)), lambda _: None)
    sent = Sent(body, kind, query, rows_max, 2**25)
    counted, refusal = 0, None

    def count(_frame, event, _what):
        nonlocal counted
        counted += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        own.feedback(read_table(FEEDBACK, sent, own.space), ())
    except (Invalid, OnepassError) as error:
        refusal = error
    finally:
        sys.setprofile(None)
    return counted, refusal


def columnar(cell, rows=ROWS, **more):
    table = {"columns": ["a", "b"], "data": [[1, cell]] * rows, "labels": more.pop("labels", ["UP"]) * rows, **more}
    return json.dumps(table).encode()


def test_a_colon_in_a_text_costs_nothing():
    """Ids, times and categories hold colons: no body is read a second time for them."""
    plain, _ = calls(TEXTS, JSON, columnar("c"))
    colons, refusal = calls(TEXTS, JSON, columnar("a:b"))
    assert None is refusal
    assert plain + 100 > colons


@pytest.mark.parametrize(
    ("model", "kind", "body"),
    [
        (NUMBERS, JSON, b'{"columns":["x1","x2:"],"data":[' + b"[]," * 330_000 + b'[]],"labels":[]}'),
        (NUMBERS, JSON, b'{"data":' + b"[" * 500_000 + b"]" * 500_000 + b"}"),
        (NUMBERS, JSON, columnar(1, labels=[1])[:-1] + b', "columns": 1}'),
        (NUMBERS, JSON, b'{"rows":[' + b"{}," * 330_000 + b"{}]}"),
        (NUMBERS, JSON, b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
        (NUMBERS, CSV, b"a,b,y\n" + b"\n" * 1_000_000),
        (NUMBERS, CSV, b"," * 1_000_000),
        (NUMBERS, CSV, b'a,b,y\n"' + b"\n" * 1_000_000),
    ],
    ids=["empty rows", "nesting", "a name twice", "empty records", "nested objects", "blank lines",
         "columns", "an open quote"],
)  # fmt: skip
def test_a_refusal_costs_no_call_for_each_cell(model, kind, body):
    """A megabyte of what means nothing is refused in few calls, whatever is wrong with it."""
    counted, refusal = calls(model, kind, body, **({"label": "y"} if kind == CSV else {}))
    assert None is not refusal
    assert FEW > counted


@pytest.mark.parametrize(
    ("model", "kind", "body"),
    [
        (SPARSE, SVMLIGHT, b"1\n" * 500_000),
        (NUMBERS, CSV, b"a,b,y\n" + b"1,2,3\n" * 150_000),
        (NUMBERS, JSON, columnar(1, rows=60_000, labels=[1])),
        (NUMBERS, "application/x-ndjson", b'{"features": {"a": 1, "b": 2}, "label": 1}\n' * 25_000),
    ],
    ids=["SVMlight", "CSV", "JSON", "NDJSON"],
)
def test_nothing_is_read_behind_the_bound_of_rows(model, kind, body):
    """A batch of too many rows is left where it has too many."""
    counted, refusal = calls(model, kind, body, ROWS_MAX, **({"label": "y"} if kind == CSV else {}))
    assert "TooLarge" == type(refusal).__name__
    assert FEW + 20 * ROWS_MAX > counted


@pytest.mark.parametrize("end", [b", NaN]}", b"", b"]"], ids=["a number that is none", "cut off", "cut later"])
def test_what_is_no_json_is_explained_once(end):
    """It is parsed again to say what is wrong where, and each number is looked at once."""
    body = columnar(1, labels=[1])[:-2] + end
    counted, refusal = calls(NUMBERS, JSON, body)
    assert "NotJson" == type(refusal).__name__
    assert FEW + len(body) > counted
