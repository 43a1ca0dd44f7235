"""The feature switch, measured: ``python -m tests.benchmarks.fesl``.

table2      the protocol of Section 6.2: four of its sets (standardised; one-hot where the paper's numbers of
columns say so) and a random Gaussian image of each, d2 as in Table 1, T1 = T2 = n/2, overlaps of B
rows, 10 runs in random order; accuracy on T2. NOGD starts at T1 + 1 and knows nothing; ROGD-u is the
old model on recovered rows, learning on; ROGD-f the same, fixed. They learn as ours do (scaling,
AdaGrad, ridge), so they are stronger than the paper's; the paper's own figures stand beside them.
"""

import sys
from typing import Any

import numpy as np

from core.numerics.linalg import single_threaded
from tests.benchmarks.streams import DATA
from tests.benchmarks.switches import DIMENSIONS, Life, Spaces, mapped, static

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
BELOW_BEST_MAX = 0.005


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


def _held(kept: bool, what: str) -> bool:
    print(f"  {'kept' if kept else 'MISSED'}: {what}", flush=True)
    return kept


def main() -> int:
    """Print the table; 1 where ours is too far below the best baseline."""
    single_threaded()
    if not DATA.is_dir():
        print(f"SKIPPED: no benchmark data in {DATA}", file=sys.stderr)
        return 0
    return 0 if table2() else 1


if __name__ == "__main__":
    sys.exit(main())
