"""The feature switch, measured: ``python -m tests.benchmarks.fesl [SECTION ...]``, all sections without one.

    table2      the protocol of Section 6.2: four of its sets (standardised; one-hot where the paper's numbers of
                columns say so) and a random Gaussian image of each, d2 as in Table 1, T1 = T2 = n/2, overlaps of B
                rows, 10 runs in random order; accuracy on T2. NOGD starts at T1 + 1 and knows nothing; ROGD-u is the
                old model on recovered rows, learning on; ROGD-f the same, fixed. They learn as ours do (scaling,
                AdaGrad, ridge), so they are stronger than the paper's; the paper's own figures stand beside them.
    three       three switches in a row, mean accuracy after the first one; keep-new goes on with the new model
                alone, from scratch starts one at each switch. The four sets and four synthetic ones.
    partial     three quarters of the features kept: as they are, and renamed, which is the plain form.
    algorithms  every algorithm, 50 features, a hyperplane that turns by 90 degrees in 4000 rows, a switch to a noisy
                image after 3000 of them: the 100 rows after it, beside a model that starts there, one that starts
                with the overlap rows, and one whose features never change.
    ridge       the ridge of the mapping as leave-one-out chooses it beside .03 for all: exact images, real sets.

Exits with 1 where what was asked for is missed. Without ../shared/data only the last two sections can run.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from core.contract import Floats
from core.learners.catalogue import ALGORITHMS
from core.numerics.linalg import single_threaded
from core.switching.mixture import Mixture
from tests.benchmarks.fesl_ridge import choice
from tests.benchmarks.streams import DATA
from tests.benchmarks.switches import DIMENSIONS, Life, Spaces, drifting, mapped, static, synthetic

RUNS = 10
PAPER = {
    "australian": (0.767, 0.849, 0.809, 0.849, 0.849),
    "german": (0.684, 0.700, 0.700, 0.700, 0.703),
    "svmguide3": (0.680, 0.779, 0.748, 0.779, 0.778),
    "kr_vs_kp": (0.612, 0.621, 0.538, 0.626, 0.630),
}
"""Table 2: NOGD, ROGD-u, ROGD-f, FESL-c, FESL-s; B is 5 or 10, the paper does not say which."""
PAPER_STEPS = {"australian": 1.0, "german": 1 / 50, "svmguide3": 1.0, "kr_vs_kp": 1 / 100}
"""1/c of Section 6.2."""
BELOW_BEST_MAX, ABOVE_NEW_MIN, ABOVE_SCRATCH_MIN = 0.005, 0.005, 0.02


def halves(stream: Spaces, B: int, algorithm: str, **params: Any) -> tuple[Life, Life]:
    """A machine at the end of its overlap of B rows, twice."""
    lives = []
    for _ in range(2):
        life = Life(stream, algorithm, **params)
        half = len(stream.y) // 2
        life.feed(0, half - B)
        life.begin()
        life.feed(half - B, half)
        lives.append(life)
    return lives[0], lives[1]


def baselines(life: Life, start: int) -> tuple[float, float, float]:
    """NOGD, ROGD-u and ROGD-f from ``start`` on, of a machine in its overlap."""
    X = np.ascontiguousarray(life.stream.X[1][start:])
    y = np.array([life.machine.labels.index(int(label)) for label in life.stream.y[start:]])
    overlap: Any = life.machine.pipeline
    overlap.recovery.freeze()
    recovered = overlap.old.own.with_input_mapping(overlap.recovery)
    recovered.restart()
    fixed = float((recovered.predict_encoded(X).value == y).mean())
    updated = float((recovered.learn(X, y, None).value == y).mean())
    life.complete()
    return float((life.fresh().learn(X, y, None).value == y).mean()), updated, fixed


def accuracy(life: Life) -> float:
    """Of the second half, after the switch."""
    life.complete()
    return float(1 - life.feed(len(life.stream.y) // 2, len(life.stream.y)).mean())


def table2() -> bool:
    """Print the table; whether ours is never much below the best baseline."""
    print(
        f"\n{'accuracy on T2':22}{'baselines of ours':^27}{'ours':^18}{'':9}{'paper variant':^18}{'paper, Table 2':^40}"
    )
    names = ("NOGD", "ROGD-u", "ROGD-f", "FESL-c", "FESL-s", "c - best", "FESL-c", "FESL-s")
    print(f"{'':22}" + "".join(f"{name:>9}" for name in names) + "   NOGD ROGD-u ROGD-f FESL-c FESL-s")
    kept = True
    for name, published in PAPER.items():
        for B in (5, 10, 50):
            line = np.mean([_run2(name, B, seed) for seed in range(RUNS)], axis=0)
            gap = line[3] - line[:3].max()
            kept &= bool(B > 10 or gap >= -BELOW_BEST_MAX)
            cells = "".join(f"{cell:9.3f}" for cell in (*line[:5], gap, *line[5:]))
            print(f"{name:14}B = {B:<4}{cells}   " + " ".join(f"{cell:6.3f}" for cell in published), flush=True)
    return _held(kept, f"FESL-c at B = 5 and 10 at most {BELOW_BEST_MAX} below the best baseline")


def _run2(name: str, B: int, seed: int) -> list[float]:
    X, y = static(name)
    stream = mapped(X, y, [DIMENSIONS[name][1]], np.random.default_rng(seed))
    life, other = halves(stream, B, "fesl_c", seed=seed)
    line = [*baselines(other, len(y) // 2), accuracy(life)]
    line.append(accuracy(halves(stream, B, "fesl_s", seed=seed)[0]))
    paper = {"variant": "paper", "learning_rate": PAPER_STEPS[name], "horizon": len(y) - len(y) // 2}
    return [*line, *(accuracy(halves(stream, B, form, seed=seed, **paper)[0]) for form in ("fesl_c", "fesl_s"))]


def three() -> bool:
    """Print the table; whether ours is above both others by what is asked, on average."""
    print(f"\n{'three switches':22}{'ours':>9}{'keep new':>9}{'scratch':>9}")
    totals = []
    for B in (10, 50):
        lines = [_show(f"{name:14}B = {B}", _three_lines(name, B)) for name in (*DIMENSIONS, *synthetic)]
        totals.append(_show(f"  mean, B = {B}", np.mean(lines, axis=0)))
    ours, new, scratch = _show("  mean", np.mean(totals, axis=0))
    kept = ours - new >= ABOVE_NEW_MIN and ours - scratch >= ABOVE_SCRATCH_MIN
    return _held(kept, f"above keep-new by {ABOVE_NEW_MIN} and above from-scratch by {ABOVE_SCRATCH_MIN} on average")


def _show(head: str, line: Any, points: int = 3) -> Any:
    print(f"{head:22}" + "".join(f"{cell:9.{points}f}" for cell in line), flush=True)
    return line


def _three_lines(name: str, B: int) -> Floats:
    return np.mean([[_three(name, B, seed, kept) for kept in ("all", "new", "none")] for seed in range(5)], axis=0)


def _three(name: str, B: int, seed: int, kept: str) -> float:
    rng = np.random.default_rng(seed)
    X, y = synthetic[name](rng) if name in synthetic else static(name)
    width = DIMENSIONS[name][1] if name in DIMENSIONS else 21
    life = Life(mapped(X, y, [width] * 3, rng), "fesl_c")
    quarter, losses = len(y) // 4, []
    life.feed(0, quarter - B)
    for at in range(1, 4):
        life.begin()
        life.feed(at * quarter - B, at * quarter)
        life.complete()
        if kept != "all":
            _only(life, life.machine.pipeline, fresh=kept == "none")
        stop = (at + 1) * quarter - B if at < 3 else len(y)
        losses.append(life.feed(at * quarter, stop).mean())
    return float(1 - np.mean(losses))


def _only(life: Life, ensemble: Any, fresh: bool) -> None:
    """Leave one expert in the ensemble: the new model, or a fresh one."""
    ensemble.experts = {"new": life.fresh() if fresh else ensemble.new}
    ensemble.mixture = Mixture(np.ones(1), 0, selects=False, horizon=None, seed=0)


def partial() -> bool:
    """Print the table; whether copying kept features is better than recovering them too, on average."""
    print(f"\n{'75 % kept':22}{'ours':>9}{'plain':>9}{'recov.':>9}{'plain':>9}   (recov.: the recovered expert alone)")
    lines = [
        _show(f"{name:14}B = {B}", np.mean([_partial(name, B, seed) for seed in range(RUNS)], axis=0))
        for name in DIMENSIONS
        for B in (5, 10, 50)
    ]
    mean = _show("  mean", np.mean(lines, axis=0))
    return _held(mean[0] > mean[1] and mean[2] > mean[3], "kept features copied: better than the plain form")


def _partial(name: str, B: int, seed: int) -> list[float]:
    X, y = static(name)
    copied = mapped(X, y, [X.shape[1]], np.random.default_rng(seed), kept=0.75)
    renamed = copied._replace(names=[copied.names[0], [f"new {name}" for name in copied.names[1]]])
    line = [accuracy(halves(stream, B, "fesl_c")[0]) for stream in (copied, renamed)]
    return [*line, *(baselines(halves(stream, B, "fesl_c")[0], len(y) // 2)[1] for stream in (copied, renamed))]


def algorithms() -> bool:
    """Print the tables of all algorithms; whether a switch beats a new start for each, from 50 overlap rows on."""
    print("\nfirst 100 rows after a switch: accuracy, or squared error in units of the labels' variance")
    print(
        f"{'':30}{'switch':>9}{'scratch':>9}{'+overlap':>9}{'no switch':>10}   (+overlap: scratch, overlap rows first)"
    )
    kept = True
    for B in (10, 50, 200):
        for algorithm, task in _dense():
            line = np.mean([_after(algorithm, task, B, seed) for seed in range(5)], axis=0)
            better = line[0] > line[1] if task == "classification" else line[0] < line[1]
            kept &= bool(better or B < 50)
            cells = "".join(f"{cell:9.3f}" for cell in line[:3])
            print(f"{algorithm:14}{task:16}{cells}{line[3]:10.3f}   B = {B}", flush=True)
    return _held(kept, "B of 50 and more: better than from scratch with every algorithm")


def _dense() -> Iterable[tuple[str, str]]:
    return ((entry.id, task) for entry in ALGORITHMS.values() if not entry.sparse for task in entry.tasks)


def _after(algorithm: str, task: str, B: int, seed: int) -> list[float]:
    stream, at = drifting(np.random.default_rng(seed), task), 3000
    later, never = (Spaces([stream.X[s]], [stream.names[s]], stream.y) for s in (1, 0))
    life, scratch, overlapped, old = (Life(s, algorithm) for s in (stream, later, later, never))
    life.feed(0, at - B)
    life.begin()
    life.feed(at - B, at)
    life.complete()
    overlapped.feed(at - B, at)
    old.feed(0, at)
    lost = [one.feed(at, at + 100).mean() for one in (life, scratch, overlapped, old)]
    return [1 - loss if task == "classification" else loss / stream.y.var() for loss in lost]


def _held(kept: bool, what: str) -> bool:
    print(f"  {'kept' if kept else 'MISSED'}: {what}", flush=True)
    return kept


SECTIONS: dict[str, Callable[[], bool]] = {
    "table2": table2,
    "three": three,
    "partial": partial,
    "algorithms": algorithms,
    "ridge": choice,
}


def main(asked: list[str]) -> int:
    """Run the sections asked for."""
    single_threaded()
    sections = asked or list(SECTIONS)
    if not DATA.is_dir():
        print(f"no {DATA}: only what needs no data")
        sections = [name for name in sections if name in {"algorithms", "ridge"}]
    kept = [SECTIONS[name]() for name in sections]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
