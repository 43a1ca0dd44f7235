"""What a label never seen before does: ``python -m tests.benchmarks.new_label [ALGORITHM ...]``.

Seven generated streams of 4000 rows, of 2 to 10 classes. Per algorithm and stream: accuracy and log loss of all rows.
Then one row of another label is learned, and the last 1000 rows are predicted again: how many of them it draws, in per
cent, its mean probability, and by how many points the accuracy of these rows changes. Below, a class that is held back
until row 2000 and comes as often as any other then: accuracy, in per cent, of the 300 rows from its first one on, and
of those among them that are its own.
"""

import sys
from collections.abc import Callable

import numpy as np

from core.config import Config
from core.contract import Floats, Ints
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.machine import Machine
from tests.benchmarks import generators

ROWS, LAST, HELD_BACK, NEXT, BLOCK = 4000, 1000, 2000, 300, 250
Stream = Callable[[], tuple]
STREAMS: dict[str, Stream] = {
    "rbf, 4 classes": lambda: generators.rbf(0, ROWS),
    "rbf, 3 classes": lambda: generators.rbf(1, ROWS, 3, 7),
    "led, 10 classes": lambda: generators.led(0, ROWS),
    "agrawal": lambda: generators.agrawal(0, ROWS),
    "chess board": lambda: generators.chess_board(0, ROWS),
    "mixed kinds": lambda: generators.mixed_kinds(0, ROWS),
    "fraud": lambda: generators.fraud(0, ROWS),
}


class Model:
    """A model as clients create it, fed in blocks."""

    def __init__(self, algorithm: str, columns: int) -> None:
        names = [f"x{j}" for j in range(columns)]
        config = {"algorithm": algorithm, "task": "classification", "features": names, "watch": None}
        self.machine, self.version = Machine(Config.parse(config)), 0

    def learn(self, X: Floats, labels: list[str]) -> list[object]:
        """Learn rows; what was said of them."""
        said: list[object] = []
        for at in range(0, len(X), BLOCK):
            self.version += 1
            rows = Rows(self.machine.feedback_schema.id, None, X[at : at + BLOCK], labels[at : at + BLOCK])
            said += self.machine.apply(Entry(self.version, 0, (rows,)))[0].predictions
        return said

    def right(self, X: Floats, labels: list[str]) -> tuple[float, Floats]:
        """The share of right answers to rows as they would be given now, and their probabilities."""
        value, probabilities, _ = self.machine.predict(X)
        names = self.machine.labels.labels
        return float(np.mean([names[k] == label for k, label in zip(value, labels, strict=True)])), probabilities


def read(stream: Stream) -> tuple[Floats, Ints]:
    """Rows (n, d) and classes (n,)."""
    X, y, *_ = stream()
    return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64)


def mistyped(algorithm: str, X: Floats, y: Ints) -> str:
    """A line on one row of another label."""
    labels = [f"c{k}" for k in y]
    model = Model(algorithm, X.shape[1])
    model.learn(X, labels)
    overall = model.machine.metrics.report()["overall"]
    before, _ = model.right(X[-LAST:], labels[-LAST:])
    model.learn(X[-1:], ["mistyped"])
    after, p = model.right(X[-LAST:], labels[-LAST:])
    drawn = 100 * np.mean(p.argmax(axis=1) == p.shape[1] - 1)
    figures = f"{100 * overall['accuracy']:6.2f} %  log loss {overall['log_loss']:.4f}"
    return f"{figures}  drawn {drawn:5.1f} %  p {p[:, -1].mean():.5f}  accuracy {100 * (after - before):+5.1f}"


def late(algorithm: str, X: Floats, y: Ints) -> str:
    """A line on a class that comes late."""
    kept = (np.arange(len(y)) >= HELD_BACK) | (y != y.max())
    X, labels = np.ascontiguousarray(X[kept]), [f"c{k}" for k in y[kept]]
    said = Model(algorithm, X.shape[1]).learn(X, labels)
    right = np.array([one == other for one, other in zip(said, labels, strict=True)])
    own = y[kept] == y.max()
    first = int(np.flatnonzero(own)[0])
    part = slice(first, first + NEXT)
    return f"{100 * right[part].mean():6.1f} %  of its own {100 * right[part][own[part]].mean():5.1f} %"


def main() -> None:
    """Print a table per algorithm."""
    able = [one.id for one in ALGORITHMS.values() if "classification" in one.tasks and not one.sparse]
    read_streams = {name: read(stream) for name, stream in STREAMS.items()}
    for algorithm in sys.argv[1:] or able:
        print(f"\n{algorithm}", flush=True)
        for name, (X, y) in read_streams.items():
            print(f"  {name:16} {mistyped(algorithm, X, y)}", flush=True)
        for name, (X, y) in [*read_streams.items()][:3]:
            print(f"  {name:16} a class that comes late {late(algorithm, X, y)}", flush=True)


if __name__ == "__main__":
    main()
