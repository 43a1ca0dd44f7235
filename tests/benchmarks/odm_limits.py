"""How far dynamic ODM's defaults are from the best in hindsight, and what wild rows and long streams do to it."""

from itertools import product

import numpy as np

from core.contract import Floats
from tests.benchmarks.odm_runs import STREAMS, SYNTHETIC, Model, accuracy, stream

ROWS = 50_000
LOSS_WEIGHTS, TRADEOFFS, TOLERANCES = (1.0, 3.0, 10.0, 30.0, 100.0), (0.1, 0.5, 1.0), (0.0, 0.1, 0.3)
LEARNERS = (
    ("dynamic_odm", {}),
    ("odm", {}),
    ("odm", {"learning_rate": 1e-4}),
    ("odm", {"learning_rate": 1e-3}),
    ("odm", {"learning_rate": 1e-2}),
)
BEHIND_MAX = 0.6
LOST_MAX = 1.0
LONG_ROWS = 1_000_000


def hindsight() -> list[str]:
    """The defaults against the best of a grid, whole streams (their first 50 000 rows); what is missed."""
    grid = list(product(LOSS_WEIGHTS, TRADEOFFS, TOLERANCES, LEARNERS))
    print(f"\n{f'of {len(grid)} learners':14}{'defaults':>9}{'best':>9}{'diff':>9}  the best one")
    differences = []
    for name in SYNTHETIC:
        X, y = stream(name)
        X, y = X[:ROWS], y[:ROWS]
        found = []
        for lam, mu, theta, (algorithm, params) in grid:
            shape = {"loss_weight": lam, "deviation_tradeoff": mu, "tolerance": theta}
            found.append((accuracy(X, y, algorithm, **shape, **params), f"{algorithm} {lam:g} {mu} {theta} {params}"))
        ours, (best, how) = accuracy(X, y), max(found)
        differences.append(ours - best)
        print(f"{name:14}{ours:9.2f}{best:9.2f}{ours - best:+9.2f}  {how}", flush=True)
    print(f"{'mean':32}{np.mean(differences):+9.2f}  asked: {-BEHIND_MAX}")
    return ["the best in hindsight"] if np.mean(differences) < -BEHIND_MAX else []


def _many(X: Floats, rng: np.random.Generator) -> Floats:
    """1 % of the rows times 1e4."""
    return np.where(rng.random(len(X))[:, None] < 0.01, X * 1e4, X)


def _one(X: Floats) -> Floats:
    """One row, a fifth into the stream, times 1e8."""
    spoiled = X.copy()
    spoiled[len(X) // 5] *= 1e8
    return spoiled


def outliers() -> list[str]:
    """Points lost to wild rows, which count like all others, by scaling; what the defaults miss."""
    kinds = ("robust", "standard", "none")
    print(f"\n{'points lost':14}{'1 % of rows times 1e4':^27}{'one row times 1e8':^27}")
    print(f"{'':14}" + "".join(f"{kind:>9}" for kind in kinds) * 2)
    missed = []
    for name in STREAMS:
        X, y = stream(name)
        clean = {kind: accuracy(X, y, scaling=kind) for kind in kinds}
        spoiled = (_many(X, np.random.default_rng(1)), _one(X))
        lost = [clean[kind] - accuracy(Z, y, scaling=kind) for Z in spoiled for kind in kinds]
        print(f"{name:14}" + "".join(f"{value:9.2f}" for value in lost), flush=True)
        missed += (
            [f"{name}: {worst:.2f} points lost to wild rows"] if (worst := max(lost[0], lost[3])) > LOST_MAX else []
        )
    return missed


def long_run() -> list[str]:
    """A million rows, drifting and with wild ones among them; what is missed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LONG_ROWS, 10))
    w = np.repeat(rng.normal(size=(10, 10)), LONG_ROWS // 10, axis=0)
    y = ((X * w).sum(axis=1) > 0).astype(np.int64)
    wild = rng.random(X.shape) < 1e-4
    X[wild] = rng.choice([1e308, -1e308, 1e155, 1e8, 0.0, 1e-308], int(wild.sum()))
    model = Model("dynamic_odm", 10)
    told = model.learn(X, y)
    arrays, _ = model.learner.to_arrays()
    finite = all(np.isfinite(array).all() for array in arrays.values())
    least = float(arrays["shares"].min())
    print(f"\n{LONG_ROWS} rows: {100 * (told.value == y).mean():.2f} % right, finite: {finite}, ", end="")
    print(f"least weight of {arrays['shares'].shape[1]} candidates: {least:.1e}", flush=True)
    return [] if finite and least > 0 else ["1e6 rows"]
