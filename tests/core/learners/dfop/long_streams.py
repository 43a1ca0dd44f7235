"""Long streams with everything that winds up forgetting, and the plain recursion to compare with."""

import numpy as np

BASE = 6
"""The first columns excite every direction; the columns after them add no information."""


def rows(n, seed=0):
    """Rows (n, 10) and targets (n,): exciting columns, two of them at scales 1e6 and 1e-6, and redundant ones.

    The columns are two normal ones, one times 1e6, one times 1e-6, two of three indicators; then the third indicator, a
    constant, an always-zero one, and the sum of the first two. The targets drift slowly.
    """
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 10))
    X[:, :4] = rng.normal(size=(n, 4)) * [1.0, 1.0, 1e6, 1e-6]
    kinds = np.eye(3)[rng.integers(0, 3, n)]
    X[:, 4:7] = kinds
    X[:, 7] = 1.0
    X[:, 9] = X[:, 0] + X[:, 1]
    swing = np.sin(np.arange(n) / 1e4)
    y = X[:, 0] * swing - X[:, 1] + 2e-6 * X[:, 2] + 3e6 * X[:, 3] + kinds @ [0.0, 1.0, -1.0] + 5
    return X, y + rng.normal(size=n) / 10


def starved(X, y, seed=0):
    """The same stream with silence and repetition: in every 20 000 rows, 5000 are zero and 5000 repeat one row."""
    X, y = X.copy(), y.copy()
    for begin in range(0, len(y), 20_000):
        X[begin + 5000 : begin + 10_000] = 0.0
        y[begin + 5000 : begin + 10_000] = 0.0
        X[begin + 10_000 : begin + 15_000] = X[begin + 10_000 : begin + 10_001]
        y[begin + 10_000 : begin + 15_000] = y[begin + 10_000 : begin + 10_001]
    return X, y


def plain(X, y, mu, q0, w, Q, told):
    """The plain recursion without leak or refresh over base columns and bias; w and Q continue from call to call."""
    lam = 1.0 - mu
    x = np.ones(BASE + 1)
    for i in range(len(y)):
        x[:BASE] = X[i, :BASE]
        q = Q @ x
        g = x @ q
        told[i] = w @ x
        w += q * ((y[i] - told[i]) / (lam + g))
        Q = (Q - np.multiply.outer(q, q / (lam + g))) / lam
        Q = (Q + Q.T) / 2


def fresh_plain(mu, q0):
    """Weights and covariance before the first row."""
    return np.zeros(BASE + 1), np.eye(BASE + 1) * q0
