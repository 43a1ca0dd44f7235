"""VIGO, VIGOd and VIGOw row by row, with lists and plain matrices: slow, and easy to compare with the text.

``Paper`` is the pseudo-code, including VIG's iterations; VIGOd works on rows scaled to [0, 1]. ``Repaired`` is the
default that kernels.py and gaussians.py promise. Both add a class at its first row.
"""

import math

import numpy as np
from scipy.special import gammaln


def gaussian(x, mean, covariance):
    """Ln N(x | mean, covariance)."""
    away = x - mean
    return -0.5 * (
        len(x) * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1] + away @ np.linalg.solve(covariance, away)
    )


def student(x, mean, scale, freedom):
    """Ln of the multivariate Student-t density."""
    D, away = len(x), x - mean
    q = away @ np.linalg.solve(scale, away)
    return (
        gammaln((freedom + D) / 2)
        - gammaln(freedom / 2)
        - 0.5 * (D * math.log(freedom * math.pi) + np.linalg.slogdet(scale)[1])
        - 0.5 * (freedom + D) * math.log1p(q / freedom)
    )


def vig(rows, m0, beta0, nu0, W0, iterations=60):
    """Algorithm 1 on n rows: update m, H, nu and W in turn until convergence; E[Lambda] starts as nu_0 W_0."""
    n, mean = len(rows), np.mean(rows, axis=0)
    S = sum(np.outer(x - mean, x - mean) for x in rows)
    J = np.outer(mean - m0, mean - m0)
    m = (beta0 * m0 + n * mean) / (beta0 + n)
    nu = nu0 + n + 1
    W = W0 * nu0 / nu  # so that nu W starts as the guess of E[Lambda]
    for _ in range(iterations):
        H = (beta0 + n) * nu * W
        W = np.linalg.inv(np.linalg.inv(W0) + (beta0 + n) * np.linalg.inv(H) + S + beta0 * n / (beta0 + n) * J)
    return m, nu, W


class Gaussian:
    """The state of one class."""

    def __init__(self, D):
        self.m, self.beta, self.nu, self.W = np.zeros(D), 0.0, float(D), np.eye(D)
        self.rows, self.seen, self.c, self.old = [], 0, 1.0, 0.0
        self.wrong, self.wrong_before = 0, 0


class Paper:
    """Algorithms 2, 3 and 4."""

    def __init__(self, kind, D, batch, delta=0.3, low=None, high=None):
        self.kind, self.D, self.batch, self.delta = kind, D, batch, delta
        self.low, self.span = (0.0, 1.0) if kind != "vigod" else (low, high - low)
        self.classes, self.building, self.window, self.alarms = [], kind != "vigo", 0, []

    def predict(self, x):
        """The class with the largest prior times density among those that have rows."""
        scores = [
            -np.inf if not one.seen else self.prior(one) + gaussian(x, one.m, np.linalg.inv(one.nu * one.W))
            for one in self.classes
        ]
        return int(np.argmax(scores))

    def prior(self, one):
        """Ln of the class's count."""
        return math.log(max(one.c + one.old, 1e-300))

    def learn(self, X, y):
        """The a-priori class of every row; alarms as (row, class, columns, epsilon)."""
        told = []
        for row, (raw, k) in enumerate(zip(X, y, strict=True)):
            while len(self.classes) <= k:
                self.classes.append(Gaussian(self.D))
            x = (raw - self.low) / self.span
            told.append(self.predict(x))
            self.absorb(row, x, int(k), told[-1] != k)
        return np.array(told)

    def absorb(self, row, x, k, wrong):
        """One pass of the loops after the label is revealed."""
        if self.building and all(one.seen >= self.batch for one in self.classes):
            self.building = False
            total = sum(one.c for one in self.classes)
            for one in self.classes:
                if self.kind == "vigow":
                    one.old, one.c = self.batch * one.c / total, 0.0
            self.window = 0
        own = self.classes[k]
        own.c, own.seen, self.window = own.c + 1, own.seen + 1, self.window + 1
        if self.kind == "vigow" and not self.building and self.window == self.batch:
            for one in self.classes:
                one.old, one.c = one.c, 0.0
            self.window = 0
        own.rows.append(x)
        if self.kind == "vigo" or self.building:
            if wrong or (self.building and len(own.rows) == self.batch):
                self.update(own)
        elif len(own.rows) == self.batch:
            if self.kind == "vigod":
                self.test(row, k)
            self.update(own)
            if self.kind == "vigow":
                own.beta = self.batch

    def test(self, row, k):
        """Equation (12), and its consequences if it fires."""
        own = self.classes[k]
        if own.beta == 0:
            return
        harmonic = 1 / (1 / own.beta + 1 / self.batch)
        cut = math.sqrt(math.log(4 * self.D / self.delta) / (2 * harmonic))
        apart = np.abs(own.m - np.mean(own.rows, axis=0))
        if (apart >= cut).any():
            self.alarms.append((row, k, cut))
            own.beta = 0.0
            for one in self.classes:
                one.c = 1.0

    def update(self, own):
        """The procedure at the end of Algorithm 3."""
        n = len(own.rows)
        own.m, own.nu, own.W = vig(own.rows, own.m, own.beta, own.nu, own.W)
        own.beta, own.rows = own.beta + n, []


class Repaired:
    """The default form."""

    def __init__(self, kind, D, batch, delta=0.3, reset="full", reset_on="class_mean"):
        self.kind, self.D, self.batch, self.delta, self.reset, self.reset_on = kind, D, batch, delta, reset, reset_on
        self.classes, self.rows, self.window, self.slides, self.alarms = [], [], 0, False, []
        self.known, self.low, self.high = np.zeros(D), np.full(D, np.inf), np.full(D, -np.inf)

    def learn(self, X, y):
        """The a-priori class and probabilities of every row; alarms as (kind, row, class, before, after, epsilon)."""
        values, shares = [], []
        for row, (x, k) in enumerate(zip(X, y, strict=True)):
            while len(self.classes) <= k:
                self.classes.append(self.fresh())
            value, p = self.predict(x)
            values.append(value)
            shares.append(p)
            self.absorb(row, x, int(k), value != k)
        return np.array(values), shares

    def fresh(self):
        """A class before its first row: A and the share of the prior replace W."""
        one = Gaussian(self.D)
        one.A, one.share, one.sigma = np.zeros((self.D, self.D)), 1.0, None
        one.c = 0.0 if self.slides else 1.0
        return one

    def prior(self, one):
        """The count of the class."""
        return one.c + one.old + (1.0 if self.slides else 0.0)

    def predict(self, x):
        """The class by point density, probabilities by Student-t."""
        if not any(one.seen for one in self.classes):
            return 0, np.full(len(self.classes), 1 / len(self.classes))
        point, expected = np.full((2, len(self.classes)), -np.inf)
        for k, one in enumerate(self.classes):
            if one.seen:
                freedom = one.nu + 1 - self.D
                scale = one.sigma * one.nu * (1 + one.beta) / (one.beta * freedom)
                point[k] = math.log(self.prior(one)) + gaussian(x, one.m, one.sigma)
                expected[k] = math.log(self.prior(one)) + student(x, one.m, scale, freedom)
        p = np.exp(expected - expected.max())
        return int(np.argmax(point)), p / p.sum()

    def absorb(self, row, x, k, wrong):
        """Add the row to its class, and update that class or all of them if due."""
        self.rows.append(x)
        self.low, self.high = np.minimum(self.low, x), np.maximum(self.high, x)
        own = self.classes[k]
        building = own.seen < self.batch
        own.seen, own.c, self.window = own.seen + 1, own.c + 1, self.window + 1
        own.wrong += wrong
        own.rows.append(x)
        if self.kind == "vigow" and self.window == self.batch:
            self.slide()
        full = self.kind != "vigo" and len(own.rows) == self.batch
        due = (building or self.kind == "vigo") and (wrong or len(own.rows) >= own.beta)
        if full and not building and self.kind == "vigod":
            self.test(row, k)
        if full or due:
            self.update(own)
        if full and not building and self.kind == "vigow":
            own.beta = float(self.batch)
        span = self.high - self.low
        if (span > 2 * self.known).any():
            self.known = span
            for one in self.classes:
                if one.seen:
                    one.sigma = self.sigma(one)

    def slide(self):
        """End the window of counts; the first window is scaled to |B| rows."""
        total = self.batch if self.slides else sum(one.c for one in self.classes)
        for one in self.classes:
            one.old, one.c = self.batch * one.c / total, 0.0
        self.slides, self.window = True, 0

    def test(self, row, k):
        """Run both tests, and reset."""
        own, n = self.classes[k], self.batch
        inverse = 1 / own.beta + 1 / n
        cut = math.sqrt(math.log(4 * self.D / self.delta) * inverse / 2)
        recent, span = np.mean(own.rows, axis=0), self.high - self.low
        before = len(self.alarms)
        if (np.abs(recent - own.m) >= cut * span).any():
            self.alarms.append(("class_mean", row, k, own.m, recent, cut))
        if self.reset_on == "both":
            a, b, L = own.wrong_before / own.beta, own.wrong / n, math.log(2 / 0.05)
            p = (own.wrong_before + own.wrong) / (own.beta + n)
            worse = math.sqrt(2 * p * (1 - p) * L * inverse) + 2 * L * inverse / 3
            if b - a >= worse:
                self.alarms.append(("error_rate", row, k, a, b, worse))
        if len(self.alarms) > before:
            own.beta, own.wrong_before = 0.0, 0
            if self.reset == "full":
                own.A, own.nu, own.share = np.zeros((self.D, self.D)), float(self.D), 1.0
            for one in self.classes:
                one.c = 1.0

    def update(self, own):
        """The closed form, then Sigma with the current ranges and variances."""
        n, mean = len(own.rows), np.mean(own.rows, axis=0)
        S = sum(np.outer(x - mean, x - mean) for x in own.rows)
        own.A = own.A + S + own.beta * n / (own.beta + n) * np.outer(mean - own.m, mean - own.m)
        own.m = (own.beta * own.m + n * mean) / (own.beta + n)
        own.beta, own.nu = own.beta + n, own.nu + n
        cap = max(2 * self.batch, self.D + self.batch)
        if self.kind == "vigow" and own.nu > cap:
            own.A, own.share, own.nu = own.A * cap / own.nu, own.share * cap / own.nu, float(cap)
        own.rows, own.wrong_before, own.wrong = [], own.wrong_before + own.wrong, 0
        own.sigma = self.sigma(own)

    def sigma(self, one):
        """(A + share .1 diag(range^2)) / nu + .01 diag(variance); 1 for a column that never varied."""
        span, variance = self.high - self.low, np.var(self.rows, axis=0)
        extra = one.share * 0.1 * span**2 / one.nu + 0.01 * variance
        return one.A / one.nu + np.diag(np.where(span == 0.0, 1.0, extra))
