"""Mutants of valid bytes: bits flipped, parts cut, doubled, moved, or overwritten with typical trouble."""

import random
import struct

TROUBLE = [
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\xc1", b"\xd9", b"\xdd", b"\xdf", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff",
    struct.pack("<q", -1), struct.pack("<Q", 2**63), struct.pack("<d", float("nan")), struct.pack("<d", float("inf")),
    b"NaN", b"Infinity", b"-0", b"1e400", b"1e-400", b"9" * 400, b"null", b"true", b'"', b"\\", b"\\ud800", b"[" * 64,
    b"{" * 64, b"]", b"}", b",", b":", b"\n", b"\r\n", b"\r", b"\t", b";", b"'", b"\xef\xbb\xbf", b"\xed\xa0\x80",
    b"(9223372036854775808,)", b"(True,)", b"(-1,)", b"O", b"|O", b"<M8", b"__reduce__", b"cos\nsystem\n(S'true'\ntR.",
]  # fmt: skip
"""Bytes at limits, malformed numbers, broken text, and code of other formats."""


def mutants(samples, count, seed):
    """Make ``count`` mutants of random samples, the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        one = bytearray(draw.choice(samples))
        for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
            draw.choice(WAYS)(draw, one, samples)
        yield bytes(one)


def _part(draw, one):
    at = draw.randrange(len(one) + 1)
    return at, min(len(one), at + draw.choice((1, 2, 4, 8, 64)))


def _flip(draw, one, _):
    if one:
        one[draw.randrange(len(one))] ^= 1 << draw.randrange(8)


def _cut(draw, one, _):
    at, end = _part(draw, one)
    del one[at:end]


def _end(draw, one, _):
    del one[draw.randrange(len(one) + 1) :]


def _double(draw, one, _):
    at, end = _part(draw, one)
    one[at:at] = bytes(one[at:end]) * draw.choice((1, 2, 50))


def _trouble(draw, one, _):
    at, end = _part(draw, one)
    one[at : draw.choice((at, end))] = draw.choice(TROUBLE)


def _number(draw, one, _):
    digits = [at for at, byte in enumerate(one) if 48 <= byte <= 57]
    if digits:
        at = draw.choice(digits)
        one[at : at + 1] = draw.choice((b"", b"0", b"-1", b"99999999999", b"1e308", b"18446744073709551616", b"0.1"))


def _splice(draw, one, samples):
    other = draw.choice(samples)
    at, end = _part(draw, other)
    where = draw.randrange(len(one) + 1)
    one[where:where] = other[at:end]


WAYS = (_flip, _cut, _end, _double, _trouble, _number, _splice)
