"""A model that lives through a stream of tests.core.digests.streams, and the digests of its answers."""

import hashlib
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.core.digests.model import Late, Model
from tests.core.digests.streams import WATCH, WIDE, Source, Stream


class Life:
    """A model that lives through its stream, and the digests of its answers."""

    def __init__(self, stream: Stream) -> None:
        declared = {"features": [*stream.features]} if stream.features and stream.features is not WIDE else {}
        config = {"algorithm": stream.algorithm, "task": stream.task, "watch": WATCH, **declared, **stream.config}
        self._stream, self._source, self._model = stream, Source(stream), Model(config)
        self._features, self._drift = stream.features, ""
        self._said, self._scored = hashlib.blake2b(digest_size=6), hashlib.blake2b(digest_size=6)

    def live(self) -> str:
        """Run the whole life and return its rows, events and digests."""
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
        """Abort one change of features and complete another."""
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
        """Learn one entry per count; a tuple is one entry of several requests."""
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
        """Read the model, save and load it, then read it again."""
        self._look()
        self._model.restart()
        self._look()

    def _look(self) -> None:
        """Reads count: add a prediction and the metrics to the digests."""
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
