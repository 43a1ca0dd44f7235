"""Section 6.2 of the paper, as far as it is told: D = 1000 names, ten of them excited, d = 100, weights that jump.

    r_{t+1} = r_t / 10 + xi_t,  xi_t ~ U(-1, 1)^10        (23); x_t holds r_t in its first ten names, 0 elsewhere
    y_t = x_t'w_t + e_t,  e_t ~ N(0, 0.05^2)              every 500 rows w_t += N(0, 0.1) on its ten names

DFOP learns all 1000 columns, Sparse-DFOP the Gaussian projection onto 100, both at the rate 2e-3 without a bias.
Tracking error: |w_t - what the learner has for w|, the latter by RECOVER over all 1000 names every 25 rows.

The rows span ten directions, so v is the shortest vector with psi'v = x'w: v = M_S (M_S'M_S)^-1 w_S, and RECOVER gives
(M_S'M_S)^-1 w_S, which is w_S up to about sqrt(s/d). So the support is found, the loss is DFOP's, and the tracking
error does not reach 0 however long one waits. The paper's figures show the same shape; their levels are not told.
"""

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from core.contract import Floats, Learner, Spec
from core.features import SparseSchema
from core.learners.catalogue import find
from core.learners.dfop.sparse import recover

OUT = Path(__file__).resolve().parent / "out"
D, S, COMPRESSED = 1000, 10, 100
ROWS, STAGE, EVERY = 2500, 500, 25
RATE, NOISE, JUMP = 2e-3, 0.05, 0.1
NAMES = [f"name {j}" for j in range(D)]


class Curves(NamedTuple):
    """What is drawn of a learner.

    Attributes:
        tracking: at every 25th row, |w_t - its w|.
        loss: squared error of every row.
        support: at the end of every stage, how many of the ten are among its ten largest.
    """

    tracking: Floats
    loss: Floats
    support: list[int]


def rows(seed: int) -> tuple[Floats, Floats, Floats]:
    """X (n, 10) of the excited names, y (n,), w (n, 10)."""
    rng = np.random.default_rng(seed)
    X, w = np.empty((ROWS, S)), np.empty((ROWS, S))
    r, now = np.zeros(S), rng.normal(size=S)
    for t in range(ROWS):
        r = r / 10 + rng.uniform(-1, 1, S)
        if t and t % STAGE == 0:
            now = now + rng.normal(0, np.sqrt(JUMP), S)
        X[t], w[t] = r, now
    return X, (X * w).sum(axis=1) + rng.normal(0, NOISE, ROWS), w


def build(algorithm: str, columns: int) -> Learner:
    """A learner of the section's setting."""
    entry = find(algorithm)
    return entry.build(Spec("regression", columns, entry.complete({"forgetting_rate": RATE, "bias": False})))


def follow(algorithm: str, X: Floats, y: Floats, w: Floats, M: Floats | None) -> Curves:
    """Learn the rows, looking at the weights every 25."""
    learner = build(algorithm, X.shape[1])
    tracking, losses, support = [], [], []
    for begin in range(0, ROWS, EVERY):
        part = slice(begin, begin + EVERY)
        losses.append((learner.learn(np.ascontiguousarray(X[part]), y[part]).value - y[part]) ** 2)
        found = learner.weights().coefficients[0]
        found = found if M is None else recover(M, found, S).weights
        truth = np.concatenate([w[begin + EVERY - 1], np.zeros(D - S)])
        tracking.append(np.linalg.norm(found - truth))
        if (begin + EVERY) % STAGE == 0:
            support.append(int((np.argsort(-np.abs(found))[:S] < S).sum()))
    return Curves(np.array(tracking), np.concatenate(losses), support)


def draw(full: Curves, sparse: Curves) -> Path:
    """Tracking errors and losses as one picture."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = np.arange(EVERY, ROWS + 1, EVERY)
    for curves, name, line in ((full, f"DFOP, D = {D}", "0.5"), (sparse, f"Sparse-DFOP, d = {COMPRESSED}", "C0")):
        style = {"color": line, "linewidth": 3 if curves is full else 1, "label": name}
        left.plot(places, curves.tracking, **style)
        smooth = np.convolve(curves.loss, np.full(EVERY, 1 / EVERY), "valid")
        right.semilogy(np.arange(len(smooth)) + EVERY, smooth, **style)
    left.set(title="tracking error |w - w_t|", xlabel="row", ylim=(0, None))
    right.set(title=f"squared error, mean of {EVERY} rows", xlabel="row")
    left.legend()
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "sparse.svg")
    return OUT / "sparse.svg"


def rate(learner: Learner, X: Floats, y: Floats, block: int) -> float:
    """Rows per second of blocks of some size, after as many to warm up."""
    half = len(y) // 2
    for begin in range(0, half, block):
        learner.learn(X[begin : begin + block], y[begin : begin + block])
    began = time.perf_counter()
    for begin in range(half, len(y), block):
        learner.learn(X[begin : begin + block], y[begin : begin + block])
    return (len(y) - half) / (time.perf_counter() - began)


def speed(wide: Floats, X: Floats, y: Floats, schema: SparseSchema) -> None:
    """Rows per second at D = 1000, whole and projected, the projection of the ten names included and not."""
    print(f"  rows/s at D = {D}:{'DFOP':>20}{'Sparse-DFOP':>14}{'x':>7}{'+ projection':>14}{'x':>7}")
    names, values = [NAMES[:S]] * len(X), X.tolist()
    for block, count in ((1, 600), (STAGE, ROWS)):
        full = rate(build("dfop", D), wide[:count], y[:count], block)
        psi = schema.lists(names, values)
        own = rate(build("sparse_dfop", COMPRESSED), psi, y, block)
        began = time.perf_counter()
        for begin in range(0, ROWS, block):
            schema.lists(names[begin : begin + block], values[begin : begin + block])
        both = 1 / (1 / own + (time.perf_counter() - began) / ROWS)
        label = "row by row" if block == 1 else f"blocks of {block}"
        print(f"    {label:18}{full:20.0f}{own:14.0f}{own / full:7.1f}{both:14.0f}{both / full:7.1f}", flush=True)


def section_6_2() -> bool:
    """Print what was found, draw the figure; whether the whole support was recovered at the end of every stage."""
    X, y, w = rows(0)
    wide = np.zeros((ROWS, D))
    wide[:, :S] = X
    schema = SparseSchema(0, COMPRESSED, "gaussian")
    M = schema.projection.columns(NAMES)
    full = follow("dfop", wide, y, w, None)
    sparse = follow("sparse_dfop", np.ascontiguousarray(wide @ M.T), y, w, M)
    print(f"\nsection 6.2: s = {S}, d = {COMPRESSED}, D = {D}, rate {RATE:g}, Gaussian M, {ROWS} rows")
    for name, curves in (("DFOP", full), ("Sparse-DFOP", sparse)):
        last = curves.tracking[STAGE // EVERY - 1 :: STAGE // EVERY]
        print(
            f"  {name:12} support at the end of the stages {curves.support} of {S}; tracking error "
            f"{', '.join(f'{error:.2f}' for error in last)}; mean squared error {curves.loss.mean():.4f}, "
            f"second half of the stages {np.mean(curves.loss.reshape(-1, STAGE)[:, STAGE // 2 :]):.4f}"
        )
    print(f"  figure: {draw(full, sparse)}")
    speed(wide, X, y, SparseSchema(0, COMPRESSED, "sign"))
    return all(count == S for count in sparse.support)
