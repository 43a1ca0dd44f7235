"""Segments and answers come back from their bytes as they were; anything else is refused."""

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.entry import (
    Challenge,
    Configure,
    Outcome,
    Overlap,
    Promote,
    Reset,
    Restore,
    Rows,
    ServedPrediction,
    Switch,
    Withdraw,
)
from core.features import parse_features
from service.store.log import codec
from service.store.log.codec import FORMAT

FEATURES = parse_features(
    ["a", {"name": "day", "type": "categorical", "categories": ["mon", 0]}, {"name": "b", "min": 0}]
)


@pytest.mark.parametrize(
    "segment",
    [
        Reset(("one",)),
        Restore(b"", "import", (), "00ff", 2**40),
        Restore(b"", "restore", ("id",), "00ff", 1),
        Switch("begin", FEATURES, "kernel", ("two",)),
        Switch("complete"),
        Switch("abort", ids=("three",)),
        Configure(
            {"watch": {"error_rate": {"delta": 0.1, "batch_size": 50}}, "missing": None, "tags": {}}, ("k:four",)
        ),
        Challenge("a", {"algorithm": "rls", "params": {}}, 8, ("k:1",)),
        Withdraw("a"),
        Promote("b"),
        Promote("b", (), False),
    ],
)
def test_a_segment_comes_back_as_it_was(segment):
    """Features keep their kinds, categories and ranges."""
    assert segment == codec.decode(codec.encode(segment))


def test_proposed_features_come_back_with_their_kinds():
    """A bare name where that is enough."""
    X = np.ones((1, 3))
    back = codec.decode(codec.encode(Rows("space", FEATURES, X, ["UP"])))
    assert FEATURES == back.features
    short = msgspec.msgpack.encode(("rows", FORMAT, "space", ("a", "b", "c"), 1, X.tobytes(), ["UP"], None, None, ()))
    assert parse_features(["a", "b", "c"]) == codec.decode(short).features
    assert short == codec.encode(Rows("space", parse_features(["a", "b", "c"]), X, ["UP"]))


def test_a_state_is_named_not_held():
    """What is written has the digest alone."""
    assert b"bytes" not in codec.encode(Restore(b"bytes", "import", (), "00ff", 5))
    with pytest.raises(ValueError, match="digest"):
        codec.encode(Restore(b"bytes"))


def test_overlap_rows_come_back_bit_for_bit():
    """Missing values too; what the store found seen already is to be skipped."""
    X = np.array([[1.0, np.nan], [-0.0, 1e308], [5e-324, 3.0]])
    back = codec.decode(codec.encode(Overlap("space", X, ("a", "b", "c"))), (1,))
    assert isinstance(back, Overlap)
    assert X.tobytes() == back.X.tobytes()
    assert ("space", ("a", "b", "c"), (1,)) == (back.space, back.ids, back.skip)
    assert_array_equal(X, back.X)


def test_answers_of_a_switch_are_remembered():
    """Phase, overlap rows and warning of a step; the count alone of overlap rows."""
    step = Outcome(400, phase="ensemble", overlap_rows=12, warning="few rows", version=7)
    rows = Outcome(400, overlap_rows=15, version=8)
    assert [step, rows] == [codec.decode_answer(codec.encode_answer(one)) for one in (step, rows)]


def test_where_a_model_stood_after_a_switch_is_remembered_with_its_id():
    """As it was answered; with a row's answer nothing of the kind is kept."""
    ((identity, _, blob),) = codec.items_of(
        Switch("abort", ids=("s:x",)), Outcome(3, phase="steady", overlap_rows=0, feature_state=b'{"phase":"steady"}')
    )
    assert ("s:x", b'{"phase":"steady"}') == (identity, codec.decode_answer(blob).feature_state)
    X = np.zeros((3, 2))
    found = codec.items_of(Overlap("space", X, ("a", "b", "c"), (1,)), Outcome(3, overlap_rows=2))
    assert ["a", "c"] == [name for name, _, _ in found]
    assert [b"", b""] == [codec.decode_answer(blob).feature_state for *_, blob in found]


INTERVALS = ((-0.5, 2.0), (-1.0, 3.0), None, None, None)
SERVED = [
    ServedPrediction("UP", (("UP", 0.75), (0, 0.25)), ("UP", 0)),
    ServedPrediction(None, None, (None, None)),
    ServedPrediction(1.5, None, (2.5,)),
    ServedPrediction(False, ((False, 1.0),), (False, True)),
    ServedPrediction("UP", (("UP", 1.0),)),
    ServedPrediction("UP", (("UP", 1.0),), ("UP", "UP"), lags=()),
    ServedPrediction(1.5, None, (2.5,), None, (0.1, -0.0, 1e300)),
    ServedPrediction(1.25, None, (0.5,), INTERVALS),
    ServedPrediction(None),
    ServedPrediction(
        "UP", None, ("UP", 0), by="7.0", challengers=(ServedPrediction(0, ((0, 0.75),), None, None, (1.5,)),)
    ),
    ServedPrediction(0.5, challengers=(ServedPrediction(1.5, None, (None,), ((1.0, 2.0), None), by="3.1"),)),
]


@pytest.mark.parametrize("served", SERVED)
def test_what_was_served_comes_back_with_its_baselines(served):
    """As a tracked prediction, and in the log with its label: types of labels, intervals, what challengers said."""
    X = np.array([[1.0, np.nan]])
    kept = codec.decode_tracked(codec.encode_tracked("space", X, served, 7))
    assert (repr(served), 7) == (repr(kept.served), kept.version)
    assert X.tobytes() == kept.raw.tobytes()
    back = codec.decode(codec.encode(Rows("space", None, X, ["UP"], served=served, ids=("p:1",))))
    assert (repr(served), ("p:1",)) == (repr(back.served), back.ids)


@pytest.mark.parametrize("blob", [b"", b"\xc1", codec.encode(Reset())[:-1], codec.encode(Reset(("x",))) + b"\0"])
def test_bytes_that_are_no_segment_are_refused(blob):
    """Truncated, foreign or followed by something."""
    with pytest.raises(ValueError, match="corrupt"):
        codec.decode(blob)


def test_a_record_of_rows_with_more_than_is_known_is_refused():
    """A development version kept the baselines of tracked rows there; without them scores would differ."""
    served = ("UP", None)
    fields = ("rows", FORMAT, "space", None, 1, np.ones(1).tobytes(), ["UP"], None, served, ("p:one",), None)
    assert "UP" == codec.decode(msgspec.msgpack.encode(fields)).served.prediction
    with pytest.raises(ValueError, match="corrupt"):
        codec.decode(msgspec.msgpack.encode((*fields, ("UP", "UP"), True, ("UP", "UP"))))


@pytest.mark.parametrize("p_true", [(), (0.25, 0.5)])
def test_every_row_of_a_batch_has_a_record_of_its_own(p_true):
    """Its prediction, loss and probability, and the rows after it; a row that was skipped has none.

    Where nothing could be said there is no loss.
    """
    outcome = Outcome(12, ["UP", None], [0.0, None], True, [*p_true], version=7)
    rows = Rows("space", None, np.zeros((3, 1)), ["UP", "UP", "UP"], ids=("i:a", "i:b", "i:c"), skip=(1,))
    found = codec.items_of(rows, outcome)
    shares = [[share] for share in p_true] or [[], []]
    assert [
        ("i:a", Outcome(11, ["UP"], [0.0], True, shares[0], version=7)),
        ("i:c", Outcome(12, [None], [None], True, shares[1], version=7)),
    ] == [(identity, codec.decode_answer(blob)) for identity, _, blob in found]
