"""The figures of DFOP, repeated: 1 and 2, 3 to 5 in one, 6 and 7.

Figure 1 has no pets, which are images; 2 has the available sets and the paper's contenders; 4 and 5 only have Onepass's
lines, since the paper prints no figures of the others there.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from core.contract import Floats, Ints
from core.features import SparseSchema
from tests.papers.charts import Figure, Line
from tests.papers.dfop import COMPRESSED, SPARSE_RATE, STREAMS, fan, planes, stream
from tests.papers.measure import answers, learner, mean, parts, right
from tests.papers.rows import quoted

STEP, HELD_OUT, WINDOW = 500, 1000, 100
NAMES_D, EXCITED, STAGE_ROWS, STAGES = 1000, 10, 500, 4


def _held_out(X: Floats, truth: Ints, y: Ints, **given: float) -> tuple[list[int], list[float]]:
    """Accuracy of ``dfop`` (``rls`` without a rate) every 500 rows, on the next 1000 rows."""
    model, at, found = learner("dfop" if given else "rls", X.shape[1], 2, **given), [], []
    for start in range(0, len(y) - HELD_OUT, STEP):
        model.learn(np.ascontiguousarray(X[start : start + STEP]), y[start : start + STEP])
        coming = slice(start + STEP, start + STEP + HELD_OUT)
        at.append(start + STEP)
        found.append(float(100 * (model.predict(np.ascontiguousarray(X[coming])).value == truth[coming]).mean()))
    return at, found


def figure1() -> Figure:
    """Holdout accuracy on the hyperplane."""
    X, y = fan()
    lines = [
        Line(name, *_held_out(X, y, y, **given))
        for name, given in (("dfop, .002", {"forgetting_rate": 2e-3}), ("rls", {}))
    ]
    note = "Measured every 500 rows on the next 1000, before they are learned. 5 % of the labels are noise."
    return Figure("dfop_figure1", "DFOP, Figure 1: holdout accuracy, hyperplane", lines, "rows", "% right", note)


def figure2() -> Figure:
    """Robustness: the sum over the sets of each accuracy divided by the lowest of all methods."""
    sums: dict[str, float] = {}
    for name, cells in quoted("dfop1").items():
        ours, rate = STREAMS.get(name, ("", 0.0))
        if ours:
            figures = {method: figure.mean for method, figure in cells.items()}
            figures["Onepass"] = mean(right("dfop", *part, forgetting_rate=rate) for part in parts(*stream(ours), 1))
            for method, figure in figures.items():
                sums[method] = sums.get(method, 0.0) + figure / min(figures.values())
    ordered = sorted(sums, key=lambda method: sums[method])
    lines = [
        Line(method, (0, 1), (sums[method], sums[method])) for method in ("DFOP", "Onepass", "DWM", "RLS", ordered[0])
    ]
    told = ", ".join(f"{method} {sums[method]:.2f}" for method in reversed(ordered))
    note = f"Over {len(STREAMS)} sets; first subset for Onepass, the others are quoted: {told}."
    return Figure("dfop_figure2", "DFOP, Figure 2: robustness", lines, "", "sum of ratios", note)


def _sparse_stream() -> tuple[Floats, Floats, Floats]:
    """Rows by (23), their labels, and the weights of every row, which jump every 500 rows."""
    rng = np.random.default_rng(0)
    n, r = STAGES * STAGE_ROWS, np.zeros(EXCITED)
    X, W = np.zeros((n, NAMES_D)), np.zeros((n, NAMES_D))
    w = rng.normal(size=EXCITED)
    for t in range(n):
        if t and t % STAGE_ROWS == 0:
            w = w + rng.normal(0.0, np.sqrt(0.1), EXCITED)
        r = r / 10.0 + rng.uniform(-1.0, 1.0, EXCITED)
        X[t, :EXCITED], W[t, :EXCITED] = r, w
    return X, (X * W).sum(axis=1) + rng.normal(0.0, 0.05, n), W


def _smooth(values: Floats) -> tuple[Sequence[int], Floats]:
    means = np.convolve(values, np.full(WINDOW, 1.0 / WINDOW), mode="valid")
    return range(WINDOW, len(values) + 1), means


def figure3() -> Figure:
    """Loss and running time on the sparse stream, for DFOP on its columns and for Sparse-DFOP."""
    X, y, _ = _sparse_stream()
    M = SparseSchema(0, COMPRESSED, "gaussian").projection.columns([f"name {j}" for j in range(NAMES_D)])
    spent, lines = [], []
    for name, rows in (("dfop", X[: 2 * STAGE_ROWS]), ("sparse_dfop", X)):
        begun = time.perf_counter()
        seen = np.ascontiguousarray(rows[:, :EXCITED] @ M[:, :EXCITED].T) if "sparse" in name else rows
        told = answers(name, seen, y[: len(rows)], forgetting_rate=SPARSE_RATE, bias=False)
        spent.append((time.perf_counter() - begun) / len(rows))
        lines.append(Line(name, *_smooth((told - y[: len(rows)]) ** 2)))
    note = (
        f"Squared error, mean of {WINDOW} rows; dfop on the first two stages. The weights jump every 500 rows. "
        f"Sparse-DFOP is {spent[0] / spent[1]:.0f} times as fast in this run; the paper says over 250."
    )
    return Figure("dfop_figure3", "DFOP, Figures 3 to 5: a sparse stream", lines, "rows", "loss", note, log=True)


def figure6() -> Figure:
    """Error of the weights on the regression hyperplane, by rate."""
    X, y = planes(0)
    first, lines = np.repeat((0, 1, 3, 6), 500), []
    for mu in (0.0, 0.02, 0.05, 0.1):
        given = {"forgetting_rate": mu} if mu else {}
        model, errors = learner("dfop" if mu else "rls", 10, 0, bias=False, **given), []
        for t in range(len(y)):
            model.learn(X[t : t + 1], y[t : t + 1])
            found, w = model.weights(), np.zeros(10)
            w[first[t] : first[t] + 3] = 1.0 / 3.0
            assert found is not None
            errors.append(float(np.linalg.norm(w - found.coefficients[-1])))
        lines.append(Line(f"mu {mu:g}" if mu else "rls", range(20, len(y)), errors[20:]))
    note = (
        "A rate of .1 tracks fastest but settles at the largest error; RLS never recovers. In the paper .1 beats RLS."
    )
    return Figure("dfop_figure6", "DFOP, Figure 6: error of the estimate", lines, "rows", "|w - w^|", note)


def figure7() -> Figure:
    """Prequential accuracy on the hyperplane by rate."""
    X, y = fan()
    lines = []
    for mu in (0.0, 1e-3, 1e-2, 0.1, 0.5):
        told = answers("dfop", X, y, forgetting_rate=mu) if mu else answers("rls", X, y)
        share = 100 * np.cumsum(told == y) / np.arange(1, len(y) + 1)
        lines.append(Line(f"mu {mu:g}" if mu else "rls", range(100, len(y)), share[100:]))
    note = "RLS falls behind; a rate of .5 forgets faster than weights are learned. In the paper .5 is even below RLS."
    return Figure("dfop_figure7", "DFOP, Figure 7: prequential accuracy, hyperplane", lines, "rows", "% right", note)


FIGURES: dict[str, Callable[[], Figure]] = {
    "dfop_figure1": figure1, "dfop_figure2": figure2, "dfop_figure3": figure3, "dfop_figure6": figure6,
    "dfop_figure7": figure7,
}  # fmt: skip
