"""States that the samples are of: streams of tests.benchmarks.state_digests, stopped in every phase.

    python -m tests.core.state.samples        writes those of the settled format that are not there yet

A sample is written once, by the code of its format, and stays as it is: later code has to read it.
"""

from collections.abc import Iterator
from pathlib import Path

from core.entry import Overlap, Switch
from core.features import parse_features
from core.state.envelope import FORMAT
from tests.benchmarks.state_digests import NEW, STREAMS, Stream

SAMPLES = Path(__file__).parent / "samples"
SETTLED = 6
"""The newest format that does not change any more. One in the making has no samples yet: raise this, and write them,
with the last change to it."""
SINCE = dict.fromkeys(("dfop lags", "dfop random", "ga2m", "auto", "auto regression"), 4)
"""The first format that has a stream; the others are in every one."""
IN_EVERY_PHASE = ("dfop auto", "rls", "odm", "vigo", "fesl_s")
"""Streams that are also stopped in an overlap and in an ensemble."""
SMALL = {"params": {"compressed_dim": 10, "sparsity": 2}}


def steady(name: str) -> Stream:
    """Rows one at a time and in blocks."""
    algorithm, task, more = STREAMS[name]
    stream = Stream(algorithm, task, {**more, **SMALL} if algorithm == "sparse_dfop" else more)
    stream.learn(*[1] * 12, 60)
    return stream


def overlap(name: str, mapping: str) -> Stream:
    """In a change of features, with rows that have trained the mapping."""
    stream = steady(name)
    stream.apply(Switch("begin", parse_features(NEW), mapping))
    stream.learn(*[1] * 4, 20)
    union = stream.machine.feedback_schema
    stream.apply(Overlap(union.id, stream.rows(5, union).X))
    return stream


def ensemble(name: str, mapping: str) -> Stream:
    """After it, with experts that learn side by side."""
    stream = overlap(name, mapping)
    stream.apply(Switch("complete"))
    stream.learn(*[1] * 4, 20)
    return stream


def streams() -> Iterator[tuple[str, Stream]]:
    """All of them by the name of their sample."""
    for name in STREAMS:
        yield name, steady(name)
    for name in IN_EVERY_PHASE:
        for mapping in ("linear", "kernel"):
            yield f"{name} overlap {mapping}", overlap(name, mapping)
            yield f"{name} ensemble {mapping}", ensemble(name, mapping)


def first_version(name: str) -> int:
    """The first format that has a sample."""
    return SINCE.get(name, 0)


def path(name: str, version: int) -> Path:
    """Where a sample is."""
    return SAMPLES / f"{version}" / f"{name.replace(' ', '-')}.safetensors"


def main() -> None:
    """Write the samples."""
    if FORMAT != SETTLED:
        raise SystemExit(f"this code writes format {FORMAT}, which is not settled yet")
    for name, stream in streams():
        to = path(name, FORMAT)
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(stream.machine.to_bytes({"sample": name}))


if __name__ == "__main__":
    main()
