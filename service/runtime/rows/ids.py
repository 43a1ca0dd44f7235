"""Ids of rows and requests from clients, and the digests by which repeated ids are compared: another label under the
same id is a conflict.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from core.problems import Invalid, Problem
from service.runtime.rows.row_validation import Labels
from service.runtime.rows.table import FieldPath, check_size
from service.store.keys import LABEL, ROW
from service.store.log.codec import digest_of

NO_IDENTITY = "is not 1 to 200 printable characters, or an integer"
Id = str | int
"""An id as the client sends it: 17 and "17" are one id."""
ID, PREDICTION, REQUEST, OVERLAP, SWITCH = ROW, LABEL, "k:", "o:", "s:"
"""Prefixes that separate ids of labelled rows, prediction ids, Idempotency-Keys, ids of overlap rows and of switches:
a row may train a mapping before its label arrives, with the same id."""
UNLABELLED = "overlap"  # the digest of every overlap row: a repeated id is not compared further
_LENGTHS = frozenset(range(1, 201))
BITS_MAX = 661  # bits of an integer of up to 199 digits; Python is slow to print longer ones


class Identity(NamedTuple):
    """The ids and digests by which a retry of a request is recognised."""

    # one per row, or a single one for the whole request, each with its prefix; () if the client gave none
    ids: tuple[str, ...] = ()
    # one per id, which a request with the same id must match; () if the labels' digests serve as these
    digests: tuple[str, ...] = ()


def identity_of(
    key: str | None,
    given: Sequence[Id] | None,
    prefix: str,
    sent: Sequence[bytes],
    ids_max: int = 1,
    place: FieldPath = lambda _: "id",
) -> Identity:
    """The identity of a request, from the id of its one row, the ids of its rows, or else its Idempotency-Key.

    The ``key`` covers what was ``sent``, in parts; if the body has ids (``given``), it only tells proxies that they may
    retry. ``place`` names an id for errors: ``Invalid`` for a wrong one, ``TooLarge`` for more than ``ids_max``.
    """
    if given is None:
        if key is None:
            return Identity()
        return Identity((REQUEST + printable(key, "Idempotency-Key"),), (digest(*sent),))
    check_size(len(given), ids_max, "ids", " with ids")
    texts: Sequence[Any] = given if {str}.issuperset(map(type, given)) else [*map(_text, given)]
    if not "".join(texts).isprintable() or not _LENGTHS.issuperset(map(len, texts)):
        odd = [at for at, one in enumerate(texts) if not is_id(one)][:20]
        raise Invalid(*(Problem(place(at), NO_IDENTITY) for at in odd))
    return Identity(tuple([prefix + one for one in texts]))


def printable(given: Id, field: str) -> str:
    """An id as text; ``Invalid`` if it is not one."""
    text = _text(given)
    if not is_id(text):
        raise Invalid.of(field, NO_IDENTITY)
    return text


def _text(given: Id) -> str:
    """An id as text; "", which is invalid, for an integer with more digits than an id may have."""
    if isinstance(given, str):
        return given
    return str(given) if given.bit_length() <= BITS_MAX else ""


def is_id(given: str) -> bool:
    """Whether a text is an id."""
    return len(given) in _LENGTHS and given.isprintable()


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
