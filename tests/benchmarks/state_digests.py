"""Digests of what a client sees of thirty fixed streams: equal before and after a change that should change nothing.

    python -m tests.benchmarks.state_digests [--only WORD]
    python -m tests.benchmarks.state_digests --base COMMIT        make digests BASE=COMMIT

A line has the stream's name, the rows learned, the drift events found, and the digests of predictions (labels and
numbers, probabilities, deviations, intervals, losses), of metrics (with challengers, experts and phases) and of drift
events. Floats count by their bits, objects by their sorted keys. Not in it is what only represents the model: saved
states, the names of arrays, format numbers, configurations as the model keeps them, bytes of memory, and texts.

Rows come alone, in blocks, and as several requests in one entry; predictions are tracked and their labels come late;
the features change in each phase; the model is saved and loaded, restored, configured, reset. What is asked of core
stands in tests.core.digests.model.

``--base`` runs this program on the code of the commit and on that of this checkout, on one machine: across CPU types
round-off differs. The commit is checked out into a temporary worktree with the tests of this checkout; its kernels are
compiled there first, which takes a minute or two. Lines that differ are printed, and the exit code is 1 if there are
any.
"""

import argparse
import hashlib
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import core
from tests.core.digests.model import Late, Model
from tests.core.digests.streams import STREAMS, WATCH, WIDE, Source, Stream

ROOT = Path(__file__).resolve().parents[2]


class Life:
    """A model that lives through its stream, and the digests of what it says."""

    def __init__(self, stream: Stream) -> None:
        declared = {"features": [*stream.features]} if stream.features and stream.features is not WIDE else {}
        config = {"algorithm": stream.algorithm, "task": stream.task, "watch": WATCH, **declared, **stream.config}
        self._stream, self._source, self._model = stream, Source(stream), Model(config)
        self._features, self._drift = stream.features, ""
        self._said, self._scored = hashlib.blake2b(digest_size=6), hashlib.blake2b(digest_size=6)

    def live(self) -> str:
        """All of it: rows learned, events, digests."""
        model, stream = self._model, self._stream
        self._learn(*[1] * 40)
        for name, body in stream.challengers.items():
            self._say(model.challenge(name, body))
        self._learn(120, (5, 1, 9), 40)
        late = [self._track() for _ in range(4)]
        self._restart()
        self._label(*late[:2])
        self._say(model.switch("abort"))  # refused: there is nothing to abort
        self._learn(140)
        if stream.change:
            self._change()
        self._learn(*[1] * 20, 80)
        for name in [name for name, body in stream.challengers.items() if "promote" not in body][:1]:
            self._say(model.promote(name))
        self._label(*late[2:])
        self._restart()
        snapshot = model.snapshot()
        self._learn(60, (20, 13))
        self._say(model.restore(snapshot))
        self._learn(*[1] * 20, 700)
        self._say(model.configure({"watch": {"error_rate": {"batch_size": 30}}}))
        self._learn(100)
        self._look()
        rows, events = model.rows, len(model.drift())
        self._say(model.reset())
        self._learn(*[1] * 20, 100)
        self._restart()
        drift = hashlib.blake2b(canonical(model.drift()), digest_size=6)
        digests = " ".join(one.hexdigest() for one in (self._said, self._scored, drift))
        return f"{rows + model.rows:5} {events:3} {digests}"

    def _change(self) -> None:
        """A change of features that is aborted, and one that is not."""
        model, new = self._model, self._stream.change
        both = self._stream.features + new
        for mapping, end in (("kernel", "abort"), ("linear", "complete")):
            self._say(model.switch("begin", new, mapping))
            old, self._features = self._features, both
            self._learn(*[1] * 12, 20)
            self._say(model.overlap(self._source.rows(5, both)[0]))
            self._features = old
            self._restart()
            self._say(model.switch(end))
        self._features = new

    def _learn(self, *counts: int | tuple[int, ...]) -> None:
        """Entries; a tuple is one of several requests."""
        for count in counts:
            sizes = (count,) if isinstance(count, int) else count
            self._say(self._model.learn(*(self._source.request(size, self._features) for size in sizes)))

    def _track(self) -> tuple[Late, slice]:
        (row,), part = self._source.rows(1, self._features)
        return self._model.track(row), part

    def _label(self, *tracked: tuple[Late, slice]) -> None:
        for late, part in tracked:
            self._say(self._model.label(late, self._source.labels(part)))

    def _restart(self) -> None:
        """Look at the model, save it, load it, look again."""
        self._look()
        self._model.restart()
        self._look()

    def _look(self) -> None:
        """What a client reads counts."""
        self._say(self._model.predict(self._source.rows(3, self._features)[0]))
        self._scored.update(canonical(self._model.metrics()))

    def _say(self, answer: Any) -> None:
        self._said.update(canonical(answer))


def canonical(value: Any) -> bytes:
    """A value as bytes: floats by their bits, objects by their sorted keys, arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return struct.pack("<cd", b"f", math.nan if math.isnan(value) else value)
    if value is None or isinstance(value, bool | int | str):
        return f"{value!r},".encode()
    if isinstance(value, Mapping):
        value = [[name, value[name]] for name in sorted(value)]
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value)} has no canonical bytes")
    return b"[" + b"".join(map(canonical, value)) + b"]"


# ---------------------------------------------------------------- two checkouts


def lines_of(checkout: Path, only: str) -> "subprocess.Popen[str]":
    """This program at work on the code of a checkout."""
    command = [sys.executable, "-m", "tests.benchmarks.state_digests", "--only", only]
    return subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True)


def differences(base: str, only: str) -> int:
    """Print the lines that differ between a commit and this checkout, and tell how many."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "base"
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), base], check=True)
        try:
            shutil.rmtree(before / "tests", ignore_errors=True)
            (before / "tests").symlink_to(ROOT / "tests")
            started = [lines_of(before, only), lines_of(ROOT, only)]
            found = [one.communicate()[0].splitlines() for one in started]
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    if any(one.returncode for one in started) or len(found[0]) != len(found[1]):
        raise SystemExit("a checkout has not run to its end")
    apart = [(old, new) for old, new in zip(*found, strict=True) if old != new]
    for old, new in apart:
        print(f"- {old}\n+ {new}")
    print(f"{len(found[1])} streams, {len(apart)} differ from {base}")
    return len(apart)


def main() -> None:
    """Print a line per stream, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="streams whose names hold this")
    parser.add_argument("--base", help="the commit to compare with")
    given = parser.parse_args()
    if given.base:
        raise SystemExit(differences(given.base, given.only) > 0)
    if not Path(core.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"{core.__file__} is not the core of {Path.cwd()}")
    for name, stream in STREAMS.items():
        if given.only in name:
            print(f"{name:24} {Life(stream).live()}", flush=True)


if __name__ == "__main__":
    main()
