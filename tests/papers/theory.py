"""The papers' bounds as numbers: per theorem a generated stream that meets its assumptions, bound and measured loss.

Onepass's learner, or its mixture of experts, is measured; further quantities of a bound (K = sup |P|, V_T, gradients)
are computed from the same stream.
"""

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from core.contract import Floats, Learner, Prediction
from core.learners.vigo.kernels import BETA, STAGE, WAITING
from core.learners.vigo.learner import Vigo
from core.switching.mixture import Mixture
from tests.papers.charts import Figure, Line
from tests.papers.measure import learner

DELTA, BATCH, WIDTH = 0.05, 200, 3
SCALE = 2.0 / (1.0 - math.exp(-2.0))
"""gamma^2 of Lemma 1, as a multiple of a normal variable's variance: E exp(e^2 / gamma^2) = e."""


def _weights(model: Learner) -> Floats:
    found = model.weights()
    assert found is not None
    return found.coefficients[-1]


def _tracking(X: Floats, W: Floats, y: Floats, mu: float, start: float) -> tuple[list[float], float]:
    """|w_t - w^_t| of the learner after every row of X (n, d), and K = sup |P_k| of the printed recursion."""
    K, errors = 0.0, []
    model = learner("dfop", X.shape[1], 0, forgetting_rate=mu, initial_variance=start, bias=False)
    P = start * np.eye(X.shape[1])
    for x, w, label in zip(X, W, y, strict=True):
        model.learn(x[None], np.array([label]))
        P = (P - mu * np.outer(P @ x, P @ x) / (1.0 - mu + mu * x @ P @ x)) / (1.0 - mu)
        K = max(K, float(np.linalg.norm(P, 2)))
        errors.append(float(np.linalg.norm(w - _weights(model))))
    return errors, K


def dfop_theorem1() -> Figure:
    """(8), with normal drift and noise, so that the bounding sequences are known."""
    rng, n, d, mu, start, noise, drift = np.random.default_rng(0), 1000, 3, 0.05, 1.0, 0.1, 1e-3
    X = rng.uniform(-1.0, 1.0, (n, d))
    W = rng.normal(size=d) + np.cumsum(drift * rng.normal(size=(n + 1, d)), axis=0)
    y = (X * W[:-1]).sum(axis=1) + noise * rng.normal(size=n)
    errors, K = _tracking(X, W[1:], y, mu, start)
    t, x = np.arange(1, n + 1), float(np.linalg.norm(X, axis=1).max())
    gamma = drift * math.sqrt(2.0 / (1.0 - math.exp(-2.0 / d)))
    spread = math.sqrt(2.0) * (1.0 + np.sqrt(3.0 * np.log(2.0 * t / DELTA)))
    sigma = noise * math.sqrt(SCALE)
    sum_ = 2.0 * sigma * x * math.sqrt(mu) + gamma * (1.0 / start + x * x) / math.sqrt(mu)
    bound = K * ((1.0 - mu) ** t / start * np.linalg.norm(W[0]) + spread * sum_)
    note = (
        f"Rows excite all {d} columns, so K = sup |P| = {K:.1f} is finite. Where a column stays silent P "
        "grows like 1 / (1 - mu)^t, and the bound with it (Onepass leaks a little back)."
    )
    return _estimate("dfop_theorem1", "DFOP, Theorem 1: error of the estimate", errors, bound, note)


def _estimate(key: str, title: str, errors: list[float], bound: Floats, note: str) -> Figure:
    t = range(1, len(errors) + 1)
    lines = [Line("measured", t, errors), Line("bound", t, bound.tolist(), dashed=True)]
    return Figure(key, title, lines, "rows", "|w - w^|", note, log=True, holds=bool((np.array(errors) <= bound).all()))


def dfop_theorem2() -> Figure:
    """Sparse-DFOP: rows and weights with few non-zeros; delta_2s over the supports that occur."""
    rng, n, D, d, s, mu, start = np.random.default_rng(1), 1000, 120, 40, 2, 0.02, 1.0
    M, noise, drift = rng.normal(size=(d, D)) / math.sqrt(d), 0.1, 1e-3
    support = rng.permutation(D)[:s]
    X, W, gap = np.zeros((n, D)), np.zeros((n + 1, D)), 0.0
    W[:, support] = rng.normal(size=s) + np.cumsum(drift * rng.normal(size=(n + 1, s)), axis=0)
    for t in range(n):
        places = rng.permutation(D)[:s]
        X[t, places] = rng.uniform(-1.0, 1.0, s)
        both = M[:, np.union1d(places, support)]
        gap = max(gap, float(np.abs(np.linalg.eigvalsh(both.T @ both) - 1.0).max()))
    y, psi = (X * W[:-1]).sum(axis=1) + noise * rng.normal(size=n), np.ascontiguousarray(X @ M.T)
    errors, K = _tracking(psi, W[1:] @ M.T, y, mu, start)
    t, x, p = np.arange(1, n + 1), *(float(np.linalg.norm(rows, axis=1).max()) for rows in (X, psi))
    gamma, sigma = drift * math.sqrt(2.0 / (1.0 - math.exp(-2.0 / s))), noise * math.sqrt(SCALE)
    noisy = 2.0 * math.sqrt(2.0) * (1.0 + np.sqrt(3.0 * np.log(2.0 * t / DELTA))) * sigma * max(x, p) * math.sqrt(mu)
    moved = math.sqrt(2.0) * (1.0 + np.sqrt(3.0 * np.log(4.0 * t / DELTA))) * gamma * (1.0 / start + p * p)
    moved *= (math.sqrt(d) + math.sqrt(D) + np.sqrt(2.0 * np.log(8.0 * t / DELTA))) / math.sqrt(mu)
    first = (1.0 - mu) ** t / start * np.linalg.norm(M @ W[0])
    bound = K * (first + 3.0 * gap * p * x * np.linalg.norm(W, axis=1).max() + noisy + moved)
    note = (
        f"{s} of {D} names per row, {d} columns, K = {K:.1f}; the constant of the supports that occur is {gap:.2f}, "
        "above the sqrt 2 - 1 that exact recovery asks for. Section 6.2 does not meet the assumption: its rows "
        "excite ten columns only, and K grows with the rows."
    )
    return _estimate("dfop_theorem2", "Sparse-DFOP, Theorem 2: error of the estimate", errors, bound, note)


def odm_theorem1() -> Figure:
    """Dynamic regret on slowly turning rows u = y x, so that V_T is far below T."""
    T, lam, theta, mu, turn = 4000, 1.0, 0.1, 0.1, 2e-4
    angle = turn * np.arange(T + 1)
    U = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    radius = math.sqrt(2.0 * lam)
    around = np.linspace(0.0, 2.0 * math.pi, 181)
    ball = np.concatenate([r * np.stack([np.cos(around), np.sin(around)], 1) for r in np.linspace(0.0, radius, 15)])

    def loss(m: Floats) -> Floats:
        return (np.maximum(1 - theta - m, 0) ** 2 + mu * np.maximum(m - 1 - theta, 0) ** 2) / (1 - theta) ** 2

    def slope(m: Floats) -> Floats:
        return (2 * mu * np.maximum(m - 1 - theta, 0) - 2 * np.maximum(1 - theta - m, 0)) / (1 - theta) ** 2

    F = lam * loss(ball @ U.T)  # the rest of f is the same for all rows
    V, C = float(np.abs(np.diff(F, axis=1)).max(axis=0).sum()), float(F.max() + lam)
    G = float(radius + lam * np.abs(slope(ball @ U.T)).max())
    m = 2 * lam * (1 - theta) / ((1 - theta) ** 2 + 2 * lam)  # of the minimiser w = m u, |u| = 1
    best = 0.5 * m * m + lam * float(loss(np.array(m)))
    given = {"loss_weight": lam, "horizon": float(T), "bound": C, "variation": V, "bias": False, "scaling": "none"}
    model, regret, sum_ = learner("dynamic_odm", 2, 2, variant="paper", **given), [], 0.0
    labels = np.arange(T) % 2
    for u, label in zip(U[:T], labels, strict=True):
        w = _weights(model)
        sum_ += float(0.5 * w @ w + lam * loss(w @ u)) - best
        regret.append(sum_)
        model.learn((u if label else -u)[None], np.array([label]))
    N = math.ceil(math.log2(2 * C * T / V) / 2) + 1
    epochs = [2**i / math.sqrt(2 * C) for i in range(N)]
    tracked = min(G * G * T / (2 * e) * (math.log(max(e, 1)) + 1) + 2 * e * V for e in epochs)
    bound = tracked + C * math.sqrt(T / 2 * math.log(N))
    note = (
        f"V_T = {V:.1f} of T = {T}, C = {C:.1f}, G = {G:.1f}; the bound is that of the whole stream. It says "
        "nothing on noisy streams: two independent rows differ by a constant somewhere, so V_T grows like T."
    )
    lines = [Line("regret", range(1, T + 1), regret), Line("bound", [1, T], [bound, bound], dashed=True)]
    title = "Dynamic ODM, Theorem 1: dynamic regret"
    return Figure("odm_theorem1", title, lines, "rows", "regret", note, log=True, holds=regret[-1] <= bound)


def _experts(T: int) -> tuple[Floats, Floats]:
    """Two experts for numbers in [0, 1], the first better until T/3, the second later; and the numbers."""
    rng, t = np.random.default_rng(2), np.arange(T)
    y = rng.random(T)
    noise = np.stack([np.where(t < T // 3, 0.1, 0.6), np.maximum(0.5 - t / T, 0.1)])
    return np.clip(y + noise * rng.normal(size=(2, T)), 0.0, 1.0), y


def _mix(P: Floats, y: Floats, selects: bool) -> list[float]:
    """Cumulated (expected) loss of the mixture with the paper's rates."""
    mixture, sum_, found = Mixture(np.full(2, 0.5), 0, selects, len(y), 0), 0.0, []
    for row, label in enumerate(y):
        weights = mixture.weights.copy()
        made = [Prediction(P[k, row : row + 1].copy(), None) for k in range(2)]
        told = float(mixture.learn(made, np.array([label])).value[0])
        sum_ += float(weights @ (P[:, row] - label) ** 2) if selects else (told - label) ** 2
        found.append(sum_)
    return found


def _regrets(key: str, title: str, lines: list[Line], bound: float, note: str) -> Figure:
    T = len(lines[0].y)
    drawn = [*lines, Line("bound", [1, T], [bound, bound], dashed=True)]
    return Figure(key, title, drawn, "rows", "cumulated loss", note, holds=lines[0].y[-1] <= bound)


def _sums(losses: Floats, names: Sequence[str]) -> list[Line]:
    t = range(1, losses.shape[1] + 1)
    return [Line(name, t, np.cumsum(row).tolist()) for name, row in zip(names, losses, strict=True)]


def fesl_theorem1() -> Figure:
    """FESL-c follows the better of two experts; squared losses within [0, 1]."""
    T = 3000
    P, y = _experts(T)
    losses = (P - y) ** 2
    lines = [Line("FESL-c", range(1, T + 1), _mix(P, y, selects=False)), *_sums(losses, ("expert 1", "expert 2"))]
    bound = float(losses.sum(axis=1).min()) + math.sqrt(T / 2 * math.log(2.0))
    note = "Losses are within [0, 1]. Logistic loss, which the paper uses, has no upper end: there (9) is not proven."
    return _regrets("fesl_theorem1", "FESL, Theorem 1: FESL-c", lines, bound, note)


def fesl_theorem2() -> Figure:
    """With probabilities mixed at eta = 1, -ln p has constant regret; for averaged margins see test_errata."""
    T = 3000
    rng = np.random.default_rng(3)
    P = np.clip(np.stack([rng.beta(2, 1, T), rng.beta(3, 1, T)]), 1e-3, 1 - 1e-3)
    losses, log_weights, sum_, found = -np.log(P), np.zeros(2), 0.0, []
    for row in range(T):
        a = np.exp(log_weights - log_weights.max())
        sum_ -= math.log(float(a @ P[:, row] / a.sum()))
        found.append(sum_)
        log_weights -= losses[:, row]
    lines = [Line("mixed", range(1, T + 1), found), *_sums(losses, ("expert 1", "expert 2"))]
    bound = float(losses.sum(axis=1).min()) + math.log(2.0)
    note = "(6) and (4) on probabilities. For averaged margins, as printed, (10) fails: see test_errata.py."
    return _regrets("fesl_theorem2", "FESL, Theorem 2: probabilities mixed", lines, bound, note)


def fesl_theorem3() -> Figure:
    """FESL-s follows the best switch from the first expert to the second."""
    T = 3000
    P, y = _experts(T)
    losses = (P - y) ** 2
    early, late = np.cumsum(losses[0]), losses[1].sum() - np.cumsum(losses[1])
    d = 1.0 / (T - 1)
    entropy = -d * math.log(d) - (1 - d) * math.log1p(-d)
    bound = float((early + late).min()) + math.sqrt(T / 2 * (2 * math.log(2.0) + entropy / d))
    lines = [Line("FESL-s", range(1, T + 1), _mix(P, y, selects=True)), *_sums(losses, ("expert 1", "expert 2"))]
    note = (
        "Expected loss of the draw. It needs T_2 in advance; for Onepass's share 1/t, which does not, (14) is unproven."
    )
    return _regrets("fesl_theorem3", "FESL, Theorem 3: FESL-s", lines, bound, note)


def vigo_lemma2() -> Figure:
    """How often (12) fires on rows with one mean, and misses a mean that moved by more than 2 epsilon."""
    deltas, runs = (0.05, 0.1, 0.3, 0.5), 100
    wrong: dict[str, list[float]] = {"false alarms": [], "misses": [], "false alarms, AR(1)": []}
    for delta in deltas:
        for name, rates in wrong.items():
            fired = sum(_fires(np.random.default_rng(seed), delta, name) for seed in range(runs)) / runs
            rates.append(1.0 - fired if name == "misses" else fired)
    lines = [Line("bound", deltas, deltas, dashed=True), *(Line(name, deltas, rates) for name, rates in wrong.items())]
    independent = (wrong["false alarms"], wrong["misses"])
    holds = all(rate <= delta for rates in independent for rate, delta in zip(rates, deltas, strict=True))
    note = (
        f"{runs} pairs of windows per delta, |B| = {BATCH}. For independent rows the test is far on the safe side. "
        "It fails for rows that depend on those before them: an AR(1) series of .99 fires far more often. A model "
        "makes a test every |B| rows, so delta is not the rate of false alarms in its life."
    )
    return Figure("vigo_lemma2", "VIGO, Lemma 2: errors of test (12)", lines, "delta", "rate", note, holds=holds)


def _fires(rng: np.random.Generator, delta: float, kind: str) -> bool:
    """Whether VIGOd's test on a window of a class fires; rows lie in [0, 1]; "misses" shifts it by 2.02 epsilon."""
    ends, X = np.array([np.zeros(WIDTH), np.ones(WIDTH)]), 0.4 * rng.random((4 * BATCH, WIDTH))
    if "AR" in kind:
        X = rng.normal(size=X.shape)
        for t in range(1, len(X)):
            X[t] += 0.99 * X[t - 1]
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    model = cast("Vigo", learner("vigod", WIDTH, 2, variant="paper", batch_size=BATCH, delta=delta))
    model.learn(np.tile(ends, (BATCH // 2, 1)), np.ones(BATCH, dtype=np.int64))
    row = 0
    while row < BATCH or model.stats[0, WAITING] or not model.counters[STAGE]:  # until a window of class 0 begins
        model.learn(X[row : row + 1], np.zeros(1, dtype=np.int64))
        row += 1
    cut = math.sqrt(0.5 * math.log(4 * WIDTH / delta) * (1.0 / model.stats[0, BETA] + 1.0 / BATCH))
    window = X[row : row + BATCH] + (2.02 * cut if kind == "misses" else 0.0)
    model.learn(window, np.zeros(BATCH, dtype=np.int64))
    return any(alarm.kind == "class_mean" for alarm in model.take_alarms())


BOUNDS: dict[str, Callable[[], Figure]] = {
    "dfop_theorem1": dfop_theorem1, "dfop_theorem2": dfop_theorem2, "odm_theorem1": odm_theorem1,
    "fesl_theorem1": fesl_theorem1, "fesl_theorem2": fesl_theorem2, "fesl_theorem3": fesl_theorem3,
    "vigo_lemma2": vigo_lemma2,
}  # fmt: skip
