"""A tar of states as it is read: every member is looked at before the first one is used.

The headers are read here one by one, as blocks of 512 bytes: the tarfile module reads extended headers of any size into
memory, and takes a damaged header for the end of the tar.
"""

import hashlib
import json
import tarfile
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from service.cli.connection import Refused
from service.replay.options import model_name

SUFFIX = ".safetensors"
BLOCK = tarfile.BLOCKSIZE
STATE_BYTES_MAX = 2**36
"""More than a service takes of one model, however it is configured."""
HEAD_BYTES_MAX = 100_000_000
"""Of a state, as core.state.envelope has it."""


class StateMember(NamedTuple):
    """A model's state in a tar.

    Attributes:
        model: name of the model.
        start: where its bytes begin.
        size: their number.
    """

    model: str
    start: int
    size: int

    def read(self, file: IO[bytes]) -> Iterator[bytes]:
        """Its bytes in pieces."""
        file.seek(self.start)
        left = self.size
        while left and (piece := file.read(min(left, 2**20))):
            left -= len(piece)
            yield piece


def members(file: IO[bytes], name: str) -> tuple[list[StateMember], bool]:
    """The members of a tar, and whether they are all: it is not cut off or damaged behind them.

    Args:
        file: the tar.
        name: of the file.

    Raises:
        Refused: a member is not a model's state, or the file is no tar.
    """
    end, found = file.seek(0, 2), dict[str, StateMember]()
    at = file.seek(0)
    while (block := file.read(BLOCK)) != bytes(BLOCK):
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            if not found:
                raise Refused(f"{name} is not a tar; a state of one model is imported by NAME FILE") from None
            return [*found.values()], False
        model = _model(header)
        if model in found:
            raise Refused(f"member {header.name!a} is there twice; nothing is imported")
        at += BLOCK
        if at + header.size > end:
            return [*found.values()], False
        found[model] = StateMember(model, at, header.size)
        at = file.seek(at + -(-header.size // BLOCK) * BLOCK)
    return [*found.values()], True


def _model(header: tarfile.TarInfo) -> str:
    """The model that a member is the state of.

    Raises:
        Refused: of none.
    """
    name = header.name.removesuffix(SUFFIX)
    try:
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise ValueError("is not a plain file")
        if name == header.name or model_name(name) != name:
            raise ValueError(f"is not named NAME{SUFFIX}")
        if not 0 <= header.size <= STATE_BYTES_MAX:
            raise ValueError(f"has {header.size:,} bytes, which no state has")
    except (ValueError, ArgumentTypeError) as error:
        raise Refused(f"member {header.name!a} {error}; nothing is imported") from None
    return name


def state_digest(state: Iterable[bytes]) -> str | None:
    """A digest of what a state predicts and learns by, which an import does not change; None: it is no state.

    Left out is what belongs to the model whose log it is of: where it was taken, the marks of its metrics (an import is
    one), its drift events, and which entry a challenger was begun by.
    """
    arriving, begun = iter(state), bytearray()
    length = 8
    while len(begun) < length and (piece := next(arriving, b"")):
        begun += piece
        length = 8 + min(int.from_bytes(begun[:8], "little"), HEAD_BYTES_MAX)
    try:
        head = json.loads(begun[8:length])
        text = json.loads(head["__metadata__"].pop("onepass"))
        own = text["state"]
        for learner in (own, *(one["state"] for one in own.get("challengers", ()))):
            for name in ("born", "episodes", "outbox"):
                learner.pop(name, None)
            for name in ("marks", "marks_thinned"):
                learner["metrics"].pop(name, None)
        told = json.dumps([head, text["config"], text["format"], own], sort_keys=True)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    digest = hashlib.blake2b(told.encode(), digest_size=16)
    digest.update(begun[length:])
    for piece in arriving:
        digest.update(piece)
    return digest.hexdigest()
