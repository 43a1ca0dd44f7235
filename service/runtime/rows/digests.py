"""The digests by which repeated ids are compared: another label under the same id is a conflict."""

import hashlib

import msgspec
import numpy as np

from core.contract import Label
from service.runtime.rows.row_validation import Labels

_encode = msgspec.json.Encoder().encode


def digest(*parts: bytes) -> str:
    """The digest by which a body sent under an Idempotency-Key is compared with a later one."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


def digests_of(labels: Labels) -> tuple[str, ...]:
    """The digests by which labels are compared, as ``RowValidator.bare_labels`` gives them; False is not 0."""
    if isinstance(labels, np.ndarray):
        return tuple([digest_of(label) for label in labels.tolist()])
    keys = [*zip(map(type, labels), labels, strict=True)]
    digests = {key: digest_of(key[1]) for key in {*keys}}
    return tuple(map(digests.__getitem__, keys))


def digest_of(label: Label | float) -> str:
    """The digest by which a label is compared with a later one."""
    return digest(_encode(label))
