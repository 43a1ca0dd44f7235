"""The bytes of the log, literally: a field of core that is moved or renamed would make existing logs unreadable."""

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

X, X_BYTES = np.array([[1.0, 2.0]]), b"\xc4\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@"
FEATURES = parse_features(["a", {"name": "day", "type": "categorical", "categories": ["mon", 0]}])
FEATURES_BYTES = b"\x92\xa1a\x83\xa4name\xa3day\xa4type\xabcategorical\xaacategories\x92\xa3mon\x00"
SERVED = ServedPrediction(
    prediction="UP",
    probabilities=(("UP", 0.75),),
    baselines=("UP", 0),
    interval=((0.0, 1.0),),
    lags=(0.5,),
    by="7.0",
    challengers=(ServedPrediction(prediction=0, by="3.1"),),
    outside="DOWN",
)
SERVED_BYTES = (
    b"\x98\xa2UP\x91\x92\xa2UP\xcb?\xe8\x00\x00\x00\x00\x00\x00\x92\xa2UP\x00"
    b"\x91\x92\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xcb?\xf0\x00\x00\x00\x00\x00\x00\x91\xcb?\xe0\x00\x00\x00\x00\x00\x00"
    b"\xa37.0\x91\x98\x00\xc0\xc0\xc0\xc0\xa33.1\x90\xc0\xa4DOWN"
)
IDS, IDS_BYTES = ("i:1",), b"\x91\xa3i:1"
SEGMENTS = [
    (
        Rows(
            space="s",
            features=FEATURES,
            X=X,
            y=["UP"],
            discounts=np.array([0.5]),
            served=SERVED,
            ids=IDS,
            weights=np.array([2.0]),
            outside=["DOWN"],
            due=True,
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
    (Overlap(space="s", X=X, ids=IDS), b"\x96\xa7overlap\x01\xa1s\x01" + X_BYTES + IDS_BYTES),
    (Configure(changes={"missing": None}, ids=IDS), b"\x94\xa6config\x01\x81\xa7missing\xc0" + IDS_BYTES),
    (
        Challenge(name="c", config={"algorithm": "rls"}, most=8, ids=IDS),
        b"\x96\xa9challenge\x01\xa1c\x81\xa9algorithm\xa3rls\x08" + IDS_BYTES,
    ),
    (Withdraw(name="c", ids=IDS), b"\x94\xa8withdraw\x01\xa1c" + IDS_BYTES),
    (Promote(name="c", ids=IDS, force=False), b"\x95\xa7promote\x01\xa1c" + IDS_BYTES + b"\xc2"),
]
TRACKED_BYTES = b"\x96\x01\xa1s" + X_BYTES + b"\x07" + SERVED_BYTES + b"\x09"
OUTCOME = Outcome(
    rows=3,
    predictions=["UP"],
    losses=[0.0],
    learned=False,
    p_true=[0.75],
    mapped=False,
    joined=[(0, "UP")],
    refusal="no",
    phase="steady",
    overlap_rows=4,
    warning="few",
    version=7,
    feature_state=b"{}",
)
OUTCOME_BYTES = (
    b"\x92\x01\x9d\x03\x91\xa2UP\x91\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xc2\x91\xcb?\xe8\x00\x00\x00\x00\x00\x00\xc2"
    b"\x91\x92\x00\xa2UP\xa2no\xa6steady\x04\xa3few\x07\xc4\x02{}"
)


@pytest.mark.parametrize(("segment", "blob"), SEGMENTS, ids=lambda one: type(one).__name__)
def test_bytes_of_a_segment(segment, blob):
    """Written and read as by every release before."""
    assert blob == codec.encode(segment)
    assert repr(segment) == repr(codec.decode(blob))


def test_every_kind_of_segment_is_pinned():
    """A new one needs its bytes here."""
    assert set(codec.Segment.__args__) == {type(segment) for segment, _ in SEGMENTS}


def test_bytes_of_what_is_kept_with_an_id():
    """A tracked prediction, an answer, and the name of a segment that is kept in pieces."""
    assert TRACKED_BYTES == codec.encode_tracked("s", X, SERVED, 7, 9)
    tracked = codec.decode_tracked(TRACKED_BYTES)
    assert ("s", X.tobytes(), 7, SERVED, 9) == (
        tracked.space,
        tracked.x,
        tracked.version,
        tracked.served,
        tracked.grace_ms,
    )
    assert OUTCOME_BYTES == codec.encode_answer(OUTCOME)
    assert OUTCOME == codec.decode_answer(OUTCOME_BYTES)
    assert b"\x94\xa5named\x01\xa400ff\x05" == entries.name("00ff", 5)


@pytest.mark.parametrize("blob", [blob for _, blob in SEGMENTS], ids=lambda blob: blob[2:9].decode("latin-1"))
def test_a_segment_with_more_fields_is_refused(blob):
    """The field may decide what is learned; to pass over it would give another state."""
    fields = [*msgspec.msgpack.decode(blob)]
    full = fields if fields[0] != "rows" else [*fields, True][:13]
    with pytest.raises(ValueError, match="corrupt"):
        codec.decode(msgspec.msgpack.encode([*full, None]))


def test_a_tracked_prediction_with_more_fields_is_refused():
    """So is the prediction in it, which the log has as well."""
    fields = [*msgspec.msgpack.decode(TRACKED_BYTES)]
    for more in ([*fields, None], [*fields[:4], [*fields[4], None], fields[5]]):
        with pytest.raises(ValueError, match="corrupt"):
            codec.decode_tracked(msgspec.msgpack.encode(more))
