"""Tracked predictions as bytes and back: what is kept until the label comes.

[1, space, X float64 (1, F), version, served]        served: a ``core.entry.ServedPrediction``
"""

import msgspec
import numpy as np

from core.contract import Floats
from core.entry import ServedPrediction
from service.store.log.codec import FORMAT, decoded, float_bytes


class Tracked(msgspec.Struct, array_like=True, frozen=True):
    """A tracked prediction: the row and the prediction that was served.

    Attributes:
        format: version of this record.
        space: id of the feature space it was predicted in.
        x: raw row, float64.
        version: the version it was predicted with.
        served: the prediction.
    """

    format: int
    space: str
    x: bytes
    version: int
    served: ServedPrediction

    @property
    def raw(self) -> Floats:
        """The raw row, (1, F)."""
        return np.frombuffer(self.x, dtype="<f8").reshape(1, -1)


_tracked = msgspec.msgpack.Decoder(Tracked)


def encode(space: str, raw: Floats, served: ServedPrediction, version: int) -> bytes:
    """A tracked prediction as bytes."""
    return msgspec.msgpack.encode((FORMAT, space, float_bytes(raw), version, served))


def decode(blob: bytes) -> Tracked:
    """A tracked prediction from bytes.

    Raises:
        ValueError: corrupt, or of another format version.
    """
    return decoded(_tracked, blob, "tracked prediction")
