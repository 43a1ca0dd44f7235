"""The bytes of the log, literally: a field that moves makes existing logs unreadable; and what comes back from them."""

import msgspec
import numpy as np
import pytest

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
from service.store.log import codec, entries
from service.store.log.codec import FORMAT

X, X_BYTES = np.array([[1.0, 2.0]]), b"\xc4\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@"
FEATURES = parse_features(["a", {"name": "day", "type": "categorical", "categories": ["mon", 0]}])
FEATURES_BYTES = b"\x92\xa1a\x83\xa4name\xa3day\xa4type\xabcategorical\xaacategories\x92\xa3mon\x00"
SERVED = ServedPrediction(
    prediction="UP", probabilities=(("UP", 0.75),), baselines=("UP", 0), interval=((0.0, 1.0),), lags=(0.5,),
    by="7.0", challengers=(ServedPrediction(prediction=0, by="3.1"),), outside="DOWN", scored=3, past=(0.5,),
)  # fmt: skip
SERVED_BYTES = (
    b"\x9a\xa2UP\x91\x92\xa2UP\xcb?\xe8\x00\x00\x00\x00\x00\x00\x92\xa2UP\x00"
    b"\x91\x92\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xcb?\xf0\x00\x00\x00\x00\x00\x00\x91\xcb?\xe0\x00\x00\x00\x00\x00\x00"
    b"\xa37.0\x91\x9a\x00\xc0\xc0\xc0\xc0\xa33.1\x90\xc0\xc0\xc0\xa4DOWN\x03\x91\xcb?\xe0\x00\x00\x00\x00\x00\x00"
)
IDS, IDS_BYTES = ("i:1",), b"\x91\xa3i:1"
SEGMENTS = [
    (
        Rows(
            space="s", features=FEATURES, X=X, y=["UP"], discounts=np.array([0.5]), served=SERVED, ids=IDS,
            weights=np.array([2.0]), outside=["DOWN"], due=True,
        ),
        b"\x9d\xa4rows\x01\xa1s" + FEATURES_BYTES + b"\x01" + X_BYTES + b"\x91\xa2UP"
        b"\xc4\x08\x00\x00\x00\x00\x00\x00\xe0?" + SERVED_BYTES + IDS_BYTES + b"\xc4\x08\x00\x00\x00\x00\x00\x00\x00@"
        b"\x91\xa4DOWN\xc3",
    ),
    (
        Rows(space="s", features=None, X=X, y=np.array([3.0]), outside=np.array([4.0])),
        b"\x9c\xa4rows\x01\xa1s\xc0\x01" + X_BYTES + b"\xc4\x08\x00\x00\x00\x00\x00\x00\x08@\xc0\xc0\x90\xc0"
        b"\xc4\x08\x00\x00\x00\x00\x00\x00\x10@",
    ),
    (Reset(ids=IDS), b"\x93\xa5reset\x01" + IDS_BYTES),
    (
        Restore(state=b"", source="import", ids=IDS, digest="00ff", size=5),
        b"\x96\xa5state\x01\xa400ff\x05\xa6import" + IDS_BYTES,
    ),
    (
        Switch(action="begin", features=FEATURES, mapping="linear", ids=IDS),
        b"\x96\xa6switch\x01\xa5begin" + FEATURES_BYTES + b"\xa6linear" + IDS_BYTES,
    ),
    (Switch(action="complete"), b"\x96\xa6switch\x01\xa8complete\xc0\xc0\x90"),
    (Overlap(space="s", X=X, ids=IDS), b"\x96\xa7overlap\x01\xa1s\x01" + X_BYTES + IDS_BYTES),
    (Configure(changes={"missing": None}, ids=IDS), b"\x94\xa6config\x01\x81\xa7missing\xc0" + IDS_BYTES),
    (
        Challenge(name="c", config={"algorithm": "rls"}, most=8, ids=IDS),
        b"\x96\xa9challenge\x01\xa1c\x81\xa9algorithm\xa3rls\x08" + IDS_BYTES,
    ),
    (Withdraw(name="c", ids=IDS), b"\x94\xa8withdraw\x01\xa1c" + IDS_BYTES),
    (Promote(name="c", ids=IDS, force=False), b"\x95\xa7promote\x01\xa1c" + IDS_BYTES + b"\xc2"),
]  # fmt: skip
TRACKED_BYTES = b"\x96\x01\xa1s" + X_BYTES + b"\x07" + SERVED_BYTES + b"\x09"
OUTCOME = Outcome(
    rows=3, predictions=["UP"], losses=[0.0], learned=False, p_true=[0.75], mapped=False, joined=[(0, "UP")],
    refusal="no", phase="steady", overlap_rows=4, warning="few", version=7, feature_state=b"{}",
)  # fmt: skip
OUTCOME_BYTES = (
    b"\x92\x01\x9d\x03\x91\xa2UP\x91\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xc2\x91\xcb?\xe8\x00\x00\x00\x00\x00\x00\xc2"
    b"\x91\x92\x00\xa2UP\xa2no\xa6steady\x04\xa3few\x07\xc4\x02{}"
)


@pytest.mark.parametrize(("segment", "blob"), SEGMENTS, ids=lambda one: type(one).__name__)
def test_bytes_of_a_segment(segment, blob):
    """Written and read as by every release before; a further field may decide what is learned and is refused."""
    assert blob == codec.encode(segment)
    assert repr(segment) == repr(codec.decode(blob))
    fields = [*msgspec.msgpack.decode(blob)]
    full = fields if fields[0] != "rows" else [*fields, True][:13]
    with pytest.raises(ValueError, match="corrupt"):
        codec.decode(msgspec.msgpack.encode([*full, None]))


def test_every_kind_of_segment_is_pinned():
    """A new one needs its bytes here."""
    assert set(codec.Segment.__args__) == {type(segment) for segment, _ in SEGMENTS}


def test_bytes_of_what_is_kept_with_an_id():
    """A tracked prediction, refused with further fields, an answer, and the name of a segment kept in pieces."""
    assert TRACKED_BYTES == codec.encode_tracked("s", X, SERVED, 7, 9)
    tracked = codec.decode_tracked(TRACKED_BYTES)
    assert ("s", X.tobytes(), 7) == (tracked.space, tracked.x, tracked.version)
    assert (SERVED, 9) == (tracked.served, tracked.grace_ms)
    fields = [*msgspec.msgpack.decode(TRACKED_BYTES)]
    for more in ([*fields, None], [*fields[:4], [*fields[4], None], fields[5]]):
        with pytest.raises(ValueError, match="corrupt"):
            codec.decode_tracked(msgspec.msgpack.encode(more))
    assert OUTCOME_BYTES == codec.encode_answer(OUTCOME)
    assert OUTCOME == codec.decode_answer(OUTCOME_BYTES)
    number, answer = msgspec.msgpack.decode(OUTCOME_BYTES)
    older = codec.decode_answer(msgspec.msgpack.encode([number, answer[:-1]]))  # lacks the last field
    assert (7, b"") == (older.version, older.feature_state)
    assert b"\x94\xa5named\x01\xa400ff\x05" == entries.name("00ff", 5)


def test_proposed_features_come_back_with_their_kinds():
    """A numeric feature without a range is written as its bare name."""
    X, ranged = np.ones((1, 3)), (*FEATURES, *parse_features([{"name": "b", "min": 0}]))
    assert ranged == codec.decode(codec.encode(Rows("space", ranged, X, ["UP"]))).features
    short = msgspec.msgpack.encode(("rows", FORMAT, "space", ("a", "b", "c"), 1, X.tobytes(), ["UP"], None, None, ()))
    assert parse_features(["a", "b", "c"]) == codec.decode(short).features
    assert short == codec.encode(Rows("space", parse_features(["a", "b", "c"]), X, ["UP"]))


def test_a_state_is_named_not_held():
    """Only the digest of the state is written."""
    assert b"bytes" not in codec.encode(Restore(b"bytes", "import", (), "00ff", 5))
    with pytest.raises(ValueError, match="digest"):
        codec.encode(Restore(b"bytes"))


def test_overlap_rows_come_back_bit_for_bit():
    """Missing values too; what the store found seen already is to be skipped."""
    X = np.array([[1.0, np.nan], [-0.0, 1e308], [5e-324, 3.0]])
    back = codec.decode(codec.encode(Overlap("space", X, ("a", "b", "c"))), (1,))
    assert X.tobytes() == back.X.tobytes()
    assert ("space", ("a", "b", "c"), (1,)) == (back.space, back.ids, back.skip)


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
PREDICTIONS = [
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


@pytest.mark.parametrize("served", PREDICTIONS)
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
