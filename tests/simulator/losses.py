"""The part of the Python twin that writes whole models: lost ones back, and copies."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulator.script_parts import Args, Data, channel_of


def refill(data: Data, now: int, publish: Callable[[str, bytes], None], keys: Sequence[str], args: Args) -> list[Any]:
    """A model that is lost, written back."""
    meta_key, published, chunks, log, deleted = keys
    incarnation, config, version, uid, created, info, size, count, digest, code = args
    if deleted in data.hashes:
        return [b"deleted", 0]
    old = data.hashes.get(meta_key)
    if old is not None and old[b"incarnation"] != incarnation:
        return [b"taken", int(old[b"version"])]
    if old is not None and (int(old[b"version"]) >= int(version) or old.get(b"refilled") != old[b"version"]):
        return [b"kept", int(old[b"version"])]
    pieces = data.hashes.get(chunks, {})
    if sum(len(pieces.get(digest + b":%d" % number, b"")) for number in range(int(count))) != int(size):
        return [b"incomplete", 0]
    data.unlink(log)
    fields = {b"incarnation": incarnation, b"config": config, b"version": version, b"uid": uid, b"created": created}
    fields |= {b"updated": b"%d" % now, b"snapshot": version, b"code": code, b"refilled": version}
    data.hashes[meta_key] = {**(old or {}), **fields}
    data.hashes[meta_key].pop(b"summary", None)
    data.hashes.setdefault(published, {})[version] = info
    publish(channel_of(meta_key), b"%b %b %b" % (incarnation, version, uid))
    return [b"refilled" if old is None else b"replaced", int(version)]


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
