"""Tracked predictions as bytes and back: what is kept until the label comes.

    [1, space, X float64 (1, F), prediction, probabilities | nil, version, what the baselines said | nil,
     intervals | nil, lag columns float64 | nil, learner, what the challengers said [...]]

Records of a model that never had challengers end before the learner (records.py has what follows).
"""

import msgspec
import numpy as np

from core.contract import Floats
from core.entry import ServedPrediction
from service.store.codec import beside_served, decoded, float_bytes, served_from
from service.store.records import FORMAT, Bounds, Predicted, SaidRecord


class Tracked(msgspec.Struct, array_like=True, frozen=True):
    """A tracked prediction: the row and the prediction that was served.

    Attributes:
        format: version of this record.
        space: id of the feature space it was predicted in.
        x: raw row, float64.
        prediction: as it was served.
        probabilities: (label, probability) pairs, or None.
        version: the version it was predicted with.
        baselines: what the baselines said then.
        interval: of a regression, the intervals around the prediction, level by level.
        lags: the lag columns that it was made with, float64; None for a model without.
        by: the learner that made it.
        beside: what the challengers said.
    """

    format: int
    space: str
    x: bytes
    prediction: Predicted
    probabilities: list[tuple[str | int | bool, float]] | None
    version: int
    baselines: tuple[Predicted, ...] | None
    interval: Bounds
    lags: bytes | None
    by: str = ""
    beside: tuple[SaidRecord, ...] = ()

    @property
    def served(self) -> ServedPrediction:
        """The prediction as it was served."""
        kept = self.baselines, self.interval, self.lags
        return served_from(self.prediction, self.probabilities, kept, self.by, self.beside)

    @property
    def raw(self) -> Floats:
        """The raw row, (1, F)."""
        return np.frombuffer(self.x, dtype="<f8").reshape(1, -1)


_tracked = msgspec.msgpack.Decoder(Tracked)


def encode(space: str, raw: Floats, served: ServedPrediction, version: int) -> bytes:
    """A tracked prediction as bytes."""
    told = served.prediction, served.probabilities, version, *beside_served(served)
    return msgspec.msgpack.encode((FORMAT, space, float_bytes(raw), *told))


def decode(blob: bytes) -> Tracked:
    """A tracked prediction from bytes.

    Raises:
        ValueError: corrupt, or of another format version.
    """
    return decoded(_tracked, blob, "tracked prediction")
