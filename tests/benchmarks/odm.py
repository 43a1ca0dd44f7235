"""Dynamic ODM: accuracy and limits: ``python -m tests.benchmarks.odm [table2 features hindsight ...]``.

    table2      Table 2 of the paper on every stream at hand, SEA and hyperplane: a-priori accuracy, mean over ten
                subsets of 4T/5 consecutive rows that start at T/50, 2T/50, ... 10T/50. Columns: the defaults; scaling
                "standard"; variant "paper" with T known, C = 4 lambda, V_T = T/100; the single learner; dfop (auto);
                the paper's figure and the defaults' distance to it; no change (the last label) and majority.
                The paper's SEA and hyperplane are other draws; hyperplane's noise is not known and not compared.
                Weather is held to its figure under "features": what the linear model misses is told, not held.
    features    Weather with 100 random features, five seeds
    multiclass  streams with more than two classes, small sets in five orders and small generated ones, beside dfop
    hindsight   the defaults against the best of a grid on each synthetic stream (tests/benchmarks/odm_limits.py)
    outliers    1 % of the rows times 1e4; one row times 1e8
    long        1e6 rows: everything finite, no weight lost
    calibration log loss and calibration error of the probabilities, beside those of dfop

Exits with 1 where something that is asked for is missed. Without ../shared/data it says so and exits with 0.
"""

import sys

import numpy as np

from core.contract import Floats, Ints, Prediction, Spec
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.benchmarks.accuracy import subsets
from tests.benchmarks.forgetting import MULTICLASS, calibration_error, log_loss
from tests.benchmarks.odm_limits import hindsight, long_run, outliers
from tests.benchmarks.odm_runs import STREAMS, Model, accuracy, stream
from tests.benchmarks.streams import CLASSIFICATION, DATA, multiclass

PAPER = {
    "SEA": 87.49, "1CDT": 99.98, "2CDT": 95.99, "1CHT": 99.90, "UG_2C_2D": 95.99, "GEARS_2C_2D": 95.98,
    "weather_noaa": 79.11, "powersupply": 75.12, "usenet1": 68.98, "luxembourg": 98.98, "electricity": 76.80,
}  # fmt: skip
BEHIND_MAX = dict.fromkeys(PAPER, 1.0) | {"luxembourg": 1.5, "weather_noaa": np.inf}
SMALL = (
    "static/balance", "static/contraceptive", "static/dermatology", "static/glass", "static/iris", "static/libras",
    "clusters 200 4 8", "clusters 400 8 10", "clusters 400 12 20", "clusters 1000 20 15",
)  # fmt: skip
"""Sets of few rows, and generated ones: rows, classes, columns."""
ORDERS = 5
FEATURES, WEATHER_MIN, SEEDS = 100, 79.0, 5


def _dfop(X: Floats, y: Ints) -> Prediction:
    entry = find("dfop")
    learner = entry.build(Spec("classification", X.shape[1], entry.complete({})))
    for _ in range(int(y.max()) + 1):
        learner.add_class()
    return learner.learn(X, y)


def _right(told: Prediction, y: Ints) -> float:
    return float(100 * (told.value == y).mean())


def _baselines(y: Ints) -> tuple[float, float]:
    """No change and majority."""
    ones_before = np.cumsum(y)[:-1]
    majority = 2 * ones_before > np.arange(1, len(y))
    return float(100 * (y[1:] == y[:-1]).mean()), float(100 * (majority == y[1:]).mean())


def _line(X: Floats, y: Ints) -> list[float]:
    """The columns of one subset: ours, standard, paper's variant, odm, dfop, no change, majority."""
    paper = {"variant": "paper", "horizon": float(len(y)), "bound": 40.0, "variation": len(y) / 100.0}
    own = [accuracy(X, y), accuracy(X, y, scaling="standard"), accuracy(X, y, **paper), accuracy(X, y, "odm")]
    return [*own, _right(_dfop(X, y), y), *_baselines(y)]


def table2() -> list[str]:
    """Print the table; what is missed."""
    heads = ("ours", "standard", "variant", "odm", "dfop", "no-chng", "majority", "paper", "diff")
    print(f"{'accuracy %':14}" + "".join(f"{head:>9}" for head in heads))
    missed, differences = [], []
    for name in STREAMS:
        X, y = stream(name)
        line = np.mean([_line(np.ascontiguousarray(X[rows]), y[rows]) for rows in subsets(len(y))], axis=0)
        published = PAPER.get(name)
        end = "" if published is None else f"{published:9.2f}{line[0] - published:+9.2f}"
        print(f"{name:14}" + "".join(f"{value:9.2f}" for value in line) + end, flush=True)
        if published is not None:
            differences.append(line[0] - published)
            if -differences[-1] > BEHIND_MAX[name]:
                missed.append(f"{name} {differences[-1]:+.2f} from the paper, {-BEHIND_MAX[name]} asked for")
    print(f"{'mean difference to the paper':86}{np.mean(differences):+9.2f}")
    return missed + (["the paper's mean"] if np.mean(differences) < 0 else [])


def features() -> list[str]:
    """Print Weather with random features; what is missed."""
    X, y = stream("weather_noaa")
    means = []
    for seed in range(SEEDS):
        parts = [accuracy(X[r], y[r], seed=seed, random_features=FEATURES) for r in subsets(len(y))]
        means.append(float(np.mean(parts)))
    print(f"\nweather_noaa, {FEATURES} random features, seeds 0 to {SEEDS - 1}: {np.round(means, 2)}, ", end="")
    print(f"mean {np.mean(means):.2f} (asked: {WEATHER_MIN}; paper {PAPER['weather_noaa']})", flush=True)
    return ["Weather with random features"] if np.mean(means) < WEATHER_MIN else []


def clusters(seed: int, rows: int, classes: int, columns: int) -> tuple[Floats, Ints]:
    """Normal classes around random centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, columns)) * 1.5
    y = rng.integers(0, classes, rows)
    return centres[y] + rng.normal(size=(rows, columns)), y


def _runs(name: str) -> list[tuple[Floats, Ints]]:
    """A stream once; small sets in several orders, small generated ones with several seeds."""
    if name.startswith("clusters"):
        rows, classes, columns = map(int, name.split()[1:])
        return [clusters(seed, rows, classes, columns) for seed in range(ORDERS)]
    X, y = multiclass(name)
    if name in MULTICLASS:
        return [(X, y)]
    orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(ORDERS)]
    return [(np.ascontiguousarray(X[order]), y[order]) for order in orders]


def several() -> list[str]:
    """Print accuracy and log loss with more than two classes."""
    heads = ("ours", "odm", "dfop", "fesl_c", "ours", "dfop")
    print(f"\n{'':20}{'accuracy %':^36}{'log loss':^18}\n{'':20}" + "".join(f"{head:>9}" for head in heads))
    lines = []
    for name in (*MULTICLASS, *SMALL):
        parts = []
        for X, y in _runs(name):
            models = [Model(name, X.shape[1], classes=int(y.max()) + 1) for name in ("dynamic_odm", "odm", "fesl_c")]
            ours, single, gradient = (model.learn(X, y) for model in models)
            told = [ours, single, _dfop(X, y), gradient]
            losses = [log_loss(each.probabilities, y) for each in told[::2] if each.probabilities is not None]
            parts.append([*(_right(each, y) for each in told), *losses])
        lines.append(np.mean(parts, axis=0))
        line = lines[-1]
        print(
            f"{name:20}" + "".join(f"{x:9.2f}" for x in line[:4]) + "".join(f"{x:9.3f}" for x in line[4:]), flush=True
        )
    print(f"{'mean':20}" + "".join(f"{value:9.2f}" for value in np.mean(lines, axis=0)))
    return []


def calibration() -> list[str]:
    """Print how good the probabilities are."""
    print(f"\n{'':14}{'log loss':^18}{'calibration error':^18}\n{'':14}" + f"{'ours':>9}{'dfop':>9}" * 2)
    lines = []
    for name in CLASSIFICATION:
        X, y = stream(name)
        told = [Model("dynamic_odm", X.shape[1]).learn(X, y).probabilities, _dfop(X, y).probabilities]
        lines.append([measure(p, y) for measure in (log_loss, calibration_error) for p in told if p is not None])
        print(f"{name:14}" + "".join(f"{value:9.3f}" for value in lines[-1]), flush=True)
    print(f"{'mean':14}" + "".join(f"{value:9.3f}" for value in np.mean(lines, axis=0)))
    return []


PARTS = {
    "table2": table2,
    "features": features,
    "multiclass": several,
    "hindsight": hindsight,
    "outliers": outliers,
    "long": long_run,
    "calibration": calibration,
}


def main() -> int:
    """Print what was asked for, everything by default; 1 where something is missed."""
    if not DATA.is_dir():
        print(f"SKIPPED: no benchmark data in {DATA}", file=sys.stderr)
        return 0
    single_threaded()
    missed = [miss for part in sys.argv[1:] or PARTS for miss in PARTS[part]()]
    for miss in missed:
        print(f"MISSED: {miss}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
