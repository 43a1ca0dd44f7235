"""The part of the Python twin that writes copies."""

from collections.abc import Sequence
from typing import Any

from tests.simulator.script_parts import Args, Data


def copied(data: Data, now: int, keys: Sequence[str], args: Args) -> list[Any]:
    """A copy, unless the name is taken."""
    meta_key, published, chunks = keys
    incarnation, config, info, size, count, digest, code, origin, summary = args
    old = data.hashes.get(meta_key)
    if old is not None:
        return [old[b"incarnation"], old.get(b"origin", b"")]
    pieces = data.hashes.get(chunks, {})
    if sum(len(pieces.get(digest + b":%d" % number, b"")) for number in range(int(count))) != int(size):
        return [b"", b""]
    fields = {b"incarnation": incarnation, b"config": config, b"version": b"0", b"uid": incarnation, b"snapshot": b"0"}
    fields |= {b"created": b"%d" % now, b"updated": b"%d" % now, b"code": code, b"origin": origin}
    data.hashes[meta_key] = {**fields, b"summary": b"0:%d:%b" % (now, summary)}
    data.hashes.setdefault(published, {})[b"0"] = info
    return [incarnation, origin]
