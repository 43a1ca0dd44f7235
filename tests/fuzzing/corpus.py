"""The corpus: inputs that make a decoder end in a new way, kept next to the samples and mutated with them.

``python -m tests.fuzzing.corpus COUNT SEED`` searches COUNT mutants for more: for each new outcome (a new kind of value
or a new wording of a refusal) the first mutant is kept in ``corpus/DECODER.txt``, packed, one per line. Inputs that
once broke a decoder are added by hand.
"""

import base64
import re
import sys
import zlib
from pathlib import Path

from tests.fuzzing.decoders import DECODERS, Decoder
from tests.fuzzing.mutations import mutants

FOLDER = Path(__file__).parent / "corpus"
KEPT_MAX, BYTES_MAX = 40, 4_096
"""The number of inputs per decoder, and the packed bytes of each."""
_OWN = re.compile(r"'[^']*'|\d+")
"""Differences between equal errors: names and numbers."""


def corpus(name: str) -> list[bytes]:
    path = FOLDER / f"{name.replace(' ', '-')}.txt"
    return [*map(_unpacked, path.read_text(encoding="ascii").split())] if path.exists() else []


def _unpacked(line: str) -> bytes:
    return zlib.decompress(base64.b64decode(line))


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def outcome(decoder: Decoder, data: bytes) -> str:
    """How a decoder ends: the kind of value it reads, or the error and its wording."""
    try:
        return f"read: {type(decoder.read(data)).__name__}"
    except decoder.refusals as error:
        problems = [f"{one.field} {one.problem}" for one in getattr(error, "problems", ())]
        return _OWN.sub("#", f"{type(error).__name__} {error} {problems}")


def look(name: str, count: int, seed: int) -> list[bytes]:
    """The corpus, extended by mutants with new outcomes."""
    decoder, found = DECODERS[name], corpus(name)
    known = {outcome(decoder, data) for data in (*decoder.samples, *found)}
    for data in mutants([*decoder.samples, *found], count, seed):
        if len(found) >= KEPT_MAX:
            break
        if len(_packed(data)) <= BYTES_MAX and (end := outcome(decoder, data)) not in known:
            known.add(end)
            found.append(data)
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in DECODERS:
        kept = look(each, int(sys.argv[1]), int(sys.argv[2]))
        print(each, len(kept))
        if kept:
            text = "".join(f"{_packed(data)}\n" for data in kept)
            (FOLDER / f"{each.replace(' ', '-')}.txt").write_text(text, encoding="ascii")
