"""A change of features through the HTTP API, row by row: ``python -m tests.benchmarks.switch_http [--figure FILE]``.

Section 6.2 of the paper, end to end: each set in its own features for the first half, in a random Gaussian image of
them for the second; the last B rows of the first half carry both. One model lives through begin and complete; another
one, from scratch, begins where the new features do. Printed are accuracies around the switch, means over
the runs; every loss that the service answered is compared with that of the machine by itself, fed the same rows.

``--figure`` draws the average cumulative loss since the switch, in front of it that over the rows before.

Exits with 1 where a loss differs, or where over the whole second half the model from scratch was better on the mean of
the sets.
"""

import argparse
import http.client
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from matplotlib.figure import Figure

from core.contract import Floats
from core.numerics.linalg import single_threaded
from tests.benchmarks.processes import Service
from tests.benchmarks.switches import DIMENSIONS, Life, Spaces, mapped, static

ALGORITHMS = ("fesl_c", "fesl_s", "dfop")
FIRST = 100
"""Rows in front of and behind the switch whose accuracy is printed by itself."""
WARM_UP = 10
"""Rows that are averaged but not drawn by themselves."""
COLOURS = {"fesl_c": "#0072B2", "fesl_s": "#009E73", "dfop": "#D55E00"}


class Run(NamedTuple):
    """One stream once.

    Attributes:
        before: losses of the rows before the switch was complete.
        after: of those behind it.
        scratch: of the same rows, of the model that begins with them.
        same: whether all of them are those of the machine by itself.
    """

    before: Floats
    after: Floats
    scratch: Floats
    same: bool


class Client:
    """A connection that is kept open.

    Args:
        port: of the service.
        model: name.
        config: created with it.
    """

    def __init__(self, port: int, model: str, config: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path = f"/models/{model}"
        self._call("PUT", "", config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("DELETE", "")
        self._connection.close()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, self._path + path, sent, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status not in (200, 201, 204):
            raise RuntimeError(f"{method} {self._path}{path}: {answer.status} {data!r}")
        return json.loads(data) if data else None

    def switch(self, **body: Any) -> None:
        """A step of the change."""
        self._call("POST", "/features/switch", body)

    def feed(self, stream: Spaces, spaces: Sequence[int], start: int, stop: int) -> list[float]:
        """Labelled rows, one by one, in the features of some spaces; their losses."""
        losses = []
        for at in range(start, stop):
            features = {name: float(stream.X[s][at, j]) for s in spaces for j, name in enumerate(stream.names[s])}
            losses.append(self._call("POST", "/feedback", {"features": features, "label": int(stream.y[at])})["loss"])
        return losses


def once(port: int, stream: Spaces, algorithm: str, overlap: int) -> Run:
    """Both models over one stream."""
    half, end = len(stream.y) // 2, len(stream.y)
    config = {"algorithm": algorithm, "task": "classification"}
    with Client(port, "switched", {**config, "features": stream.names[0]}) as client:
        before = client.feed(stream, [0], 0, half - overlap)
        client.switch(action="begin", features=stream.names[1])
        before += client.feed(stream, [0, 1], half - overlap, half)
        client.switch(action="complete")
        after = client.feed(stream, [1], half, end)
    with Client(port, "scratch", {**config, "features": stream.names[1]}) as client:
        scratch = client.feed(stream, [1], half, end)
    same = np.array_equal(np.array(before + after), _alone(stream, algorithm, overlap))
    return Run(np.array(before), np.array(after), np.array(scratch), same)


def _alone(stream: Spaces, algorithm: str, overlap: int) -> Floats:
    """The losses of the machine by itself."""
    life, half = Life(stream, algorithm), len(stream.y) // 2
    before = life.feed(0, half - overlap)
    life.begin()
    during = life.feed(half - overlap, half)
    life.complete()
    return np.concatenate([before, during, life.feed(half, len(stream.y))])


def measure(port: int, name: str, runs: int, overlap: int) -> dict[str, list[Run]]:
    """All algorithms on one set."""
    X, y = static(name)
    streams = [mapped(X, y, [DIMENSIONS[name][1]], np.random.default_rng(seed)) for seed in range(runs)]
    return {algorithm: [once(port, stream, algorithm, overlap) for stream in streams] for algorithm in ALGORITHMS}


def accuracies(runs: Sequence[Run]) -> list[float]:
    """All before the switch, the last before it; the first behind it and all, each beside the model from scratch."""
    parts = [
        [run.before.mean(), run.before[-FIRST:].mean()]
        + [part.mean() for part in (run.after[:FIRST], run.scratch[:FIRST], run.after, run.scratch)]
        for run in runs
    ]
    return (1.0 - np.mean(parts, axis=0)).tolist()


def draw(path: Path, found: dict[str, dict[str, list[Run]]], overlap: int) -> None:
    """The average cumulative loss around the switch, a panel per set."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    for axes, (name, by_algorithm) in zip(figure.subplots(2, 2).flat, found.items(), strict=True):
        for algorithm, runs in by_algorithm.items():
            colour = COLOURS[algorithm]
            before, after, scratch = (np.mean([getattr(run, part) for run in runs], axis=0) for part in Run._fields[:3])
            behind = np.arange(1, len(after) + 1)
            axes.plot(np.arange(-len(before), 0)[WARM_UP:], _average(before), color=colour, alpha=0.45)
            axes.plot(behind[WARM_UP:], _average(after), color=colour, label=f"{algorithm}, switched")
            if algorithm != "fesl_s":  # without a switch it is fesl_c
                dashed = (0, (3, 2))
                axes.plot(
                    behind[WARM_UP:], _average(scratch), color=colour, ls=dashed, label=f"{algorithm}, from scratch"
                )
        axes.axvline(0, color="#555555", linewidth=1.0)
        axes.set_title(name, loc="left", fontsize=11)
        axes.set_ylim(0, 0.55)
        axes.grid(axis="y", color="#D9D9D9", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(f"rows since the features changed (B = {overlap})", fontsize=9)
        axes.set_ylabel("average cumulative 0/1 loss", fontsize=9)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _average(losses: Floats) -> Floats:
    return (np.cumsum(losses) / np.arange(1, len(losses) + 1))[WARM_UP:]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--overlap", type=int, default=10, help="rows with both sets of features (B)")
    parser.add_argument("--figure", type=Path, help="draw the average cumulative loss into this .svg or .png")
    asked = parser.parse_args()
    single_threaded()
    with Service(snapshot_min_kb="1000000") as service:
        found = {name: measure(service.port, name, asked.runs, asked.overlap) for name in DIMENSIONS}
    heads = ("before", f"last {FIRST}", f"next {FIRST}", "scratch", "after", "scratch")
    print(f"{'':24s}" + "".join(f"{head:>10s}" for head in heads))
    for name, by_algorithm in found.items():
        for algorithm, runs in by_algorithm.items():
            print(f"{name:12s}{algorithm:12s}" + "".join(f"{100 * value:10.2f}" for value in accuracies(runs)))
    if asked.figure is not None:
        draw(asked.figure, found, asked.overlap)
    return _verdict(found)


def _verdict(found: dict[str, dict[str, list[Run]]]) -> int:
    """0 where the service says what the machine says, and the switch pays for every algorithm."""
    missed = [
        f"{n} {a}: losses differ from the machine's" for n in found for a in ALGORITHMS if not _all_same(found[n][a])
    ]
    for algorithm in ALGORITHMS:
        after, scratch = np.mean([accuracies(found[name][algorithm])[-2:] for name in found], axis=0)
        print(f"{'mean':12s}{algorithm:12s}switched {100 * after:.2f}, from scratch {100 * scratch:.2f}")
        if after < scratch:
            missed.append(f"{algorithm}: the model from scratch is better")
    print("the service's losses are the machine's" if not missed else "\n".join(missed))
    return int(bool(missed))


def _all_same(runs: Sequence[Run]) -> bool:
    return all(run.same for run in runs)


if __name__ == "__main__":
    sys.exit(main())
