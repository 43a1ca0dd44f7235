"""Marks are bounded and thinned evenly."""

import json
from itertools import pairwise

import pytest

from core.metrics import ClassificationMetrics, RegressionMetrics
from core.metrics.prequential import MARKS_MAX, Marks


@pytest.mark.parametrize("metrics", [ClassificationMetrics(), RegressionMetrics()])
def test_a_hundred_marks_are_kept_and_the_rest_counted(metrics):
    """In order, including the first and the latest; they survive the header."""
    for row in range(130):
        metrics.mark(row, "drift", action="reset")
    report = metrics.report()
    rows = [mark["row"] for mark in report["marks"]]
    assert (MARKS_MAX, 30) == (len(rows), report["marks_thinned"])
    assert sorted({*rows}) == rows
    assert (0, 129) == (rows[0], rows[-1])
    assert {"row": 129, "kind": "drift", "action": "reset"} == report["marks"][-1]
    restored = type(metrics)()
    arrays, header = metrics.to_arrays()
    restored.load_arrays(arrays, json.loads(json.dumps(header)))
    assert report == restored.report()


def test_marks_are_thinned_evenly():
    """After ten thousand alarms no gap is larger than four times the even one."""
    marks = Marks()
    for row in range(0, 100_000, 10):
        marks.add({"row": row, "kind": "drift"})
    rows = [mark["row"] for mark in marks.kept]
    assert (MARKS_MAX, 10_000 - MARKS_MAX) == (len(rows), marks.thinned)
    assert max(after - before for before, after in pairwise(rows)) <= 4 * 100_000 / MARKS_MAX


def test_a_burst_is_thinned_before_isolated_marks():
    """The closest marks go first."""
    marks = Marks()
    alone = [{"row": 1000 * k, "kind": "drift"} for k in range(50)]
    for mark in (*alone, *({"row": 60_000 + k, "kind": "drift"} for k in range(200))):
        marks.add(mark)
    assert alone == marks.kept[:50]


def test_alarms_go_before_resets_and_switches():
    """Resets and switches stay as long as there is an alarm to drop."""
    marks = Marks()
    for row in range(300):
        marks.add({"row": row, "kind": "reset" if row % 10 == 5 else "drift"})
    assert [*range(5, 300, 10)] == [mark["row"] for mark in marks.kept if mark["kind"] == "reset"]
    for row in range(300, 500):
        marks.add({"row": row, "kind": "reset"})
    assert MARKS_MAX == len(marks.kept)
    assert 499 == marks.kept[-1]["row"]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"marks": None, "marks_thinned": 0},
        {"marks": [1], "marks_thinned": 0},
        {"marks": [{}], "marks_thinned": 0},
        {"marks": [{"row": 1.5, "kind": "drift"}], "marks_thinned": 0},
        {"marks": [{"row": 1, "kind": "drift"}] * (MARKS_MAX + 1), "marks_thinned": 0},
        {"marks": [], "marks_thinned": -1},
        {"marks": [], "marks_thinned": 1},
        {"marks": [], "marks_thinned": True},
    ],
)
def test_invalid_marks_are_refused(header):
    """Another form, too many of them, or an impossible number of dropped ones."""
    with pytest.raises(ValueError, match="marks"):
        Marks.from_header(header)
