"""Ten million rows with everything that winds forgetting up: ``python -m tests.benchmarks.stability [--rows N]``.

Rates .01, .1 and .5 on the streams of tests/core/learners/dfop/long_streams.py: a constant, an always-zero and a
collinear column, one-hot rows, scales 1e6 and 1e-6; then the same with silence and repeated rows. The first is compared
with the plain recursion over the columns that excite (worst and 99.8 % quantile of the difference, in standard
deviations of what is told), as long as that stays finite; the second shows from which row on the plain recursion is
non-finite on it.

Exits with 1 where anything is not finite, or the 99.8 % quantile is above 1e-4.
"""

import argparse
import sys

import numpy as np

from core.contract import Floats, Spec
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.core.learners.dfop.long_streams import BASE, fresh_plain, plain, rows, starved

CHUNK = 200_000
RATES = (0.01, 0.1, 0.5)
SHARE, DIGITS = 0.998, 1e-4


def finite(learner: object) -> bool:
    """Whether every number of the state is finite."""
    return all(np.isfinite(array).all() for array in learner.to_arrays()[0].values())  # type: ignore[attr-defined]


def run(rate: float | str, total: int, starve: bool) -> tuple[bool, float, float, int]:
    """Finite or not; worst and quantile difference to the plain recursion; its first non-finite row (-1: none)."""
    entry = find("dfop")
    learner = entry.build(Spec("regression", 10, entry.complete({"forgetting_rate": rate})))
    mu = rate if isinstance(rate, float) else 0.01
    w, Q = fresh_plain(mu, 1e3 * mu)
    told: Floats = np.empty(CHUNK)
    sound, worst, quantile, broken = True, 0.0, 0.0, -1
    for begin in range(0, total, CHUNK):
        X, y = rows(CHUNK, seed=begin)
        X, y = starved(X, y) if starve else (X, y)
        value = learner.learn(X, y).value
        sound &= bool(np.isfinite(value).all())
        if broken < 0:
            plain(X, y, mu, 1e3 * mu, w, Q, told)
            if not np.isfinite(told).all():
                broken = begin + int(np.flatnonzero(~np.isfinite(told))[0])
            elif begin:
                apart = np.abs(value - told) / told.std()
                worst, quantile = max(worst, float(apart.max())), max(quantile, float(np.quantile(apart, SHARE)))
    return sound and finite(learner), worst, quantile, broken


def main() -> int:
    """Print the table; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each stream (10000000)")
    total = parser.parse_args().rows
    single_threaded()
    kept = True
    print(f"{total} rows, {BASE} exciting columns of 10")
    print(f"{'rate':>6}{'stream':>10}{'finite':>8}{'worst':>10}{'99.8 %':>10}  plain recursion")
    for starve in (False, True):
        for rate in RATES:
            sound, worst, quantile, broken = run(rate, total, starve)
            kept &= sound and (starve or (broken < 0 and quantile <= DIGITS))
            apart = f"{'-':>10}{'-':>10}" if starve else f"{worst:10.1e}{quantile:10.1e}"
            end = "finite" if broken < 0 else f"non-finite at row {broken}"
            kind = "starved" if starve else "exciting"
            print(f"{rate:6g}{kind:>10}{'yes' if sound else 'NO':>8}{apart}  {end}", flush=True)
    sound, *_ = run("auto", total // 10, starve=True)
    print(f"{'auto':>6}{'starved':>10}{'yes' if sound else 'NO':>8}   ({total // 10} rows)")
    if not (kept and sound):
        print("MISSED", file=sys.stderr)
    return 0 if kept and sound else 1


if __name__ == "__main__":
    sys.exit(main())
