"""Dynamic ODM written as plainly as possible: one object per candidate, vectors, no shared state, logs of weights."""

import numpy as np


def loss(m, mu, theta):
    short, over = max(0.0, 1 - theta - m), max(0.0, m - 1 - theta)
    return (short**2 + mu * over**2) / (1 - theta) ** 2


def slope(m, mu, theta):
    """Its derivative."""
    short, over = max(0.0, 1 - theta - m), max(0.0, m - 1 - theta)
    return (-2 * short + 2 * mu * over) / (1 - theta) ** 2


class Candidate:
    """Online ODM that restarts every ``epoch`` rows (None: never)."""

    def __init__(self, d, epoch, lam, mu, theta, explicit, constant=None):
        self.epoch, self.lam, self.mu, self.theta = epoch, lam, mu, theta
        self.explicit, self.constant = explicit, constant
        self.w = np.zeros(d)
        self.rows = 0

    def objective(self, x, y):
        """The objective f at the current w."""
        return self.w @ self.w / 2 + self.lam * loss(y * (self.w @ x), self.mu, self.theta)

    def step(self, x, y, kappa):
        self.rows += 1
        eta = self.constant or 1 / (self.rows + kappa)
        if self.explicit:
            margin = y * (self.w @ x)
            self.w = self.w - eta * (self.w + self.lam * slope(margin, self.mu, self.theta) * y * x)
        else:
            self.w = self.implicit(x, y, eta)
        norm = np.linalg.norm(self.w)
        if norm > np.sqrt(2 * self.lam):
            self.w = self.w * np.sqrt(2 * self.lam) / norm
        if self.rows == self.epoch:
            self.w = np.zeros_like(self.w)
            self.rows = 0

    def implicit(self, x, y, eta):
        """The closed form, term by term."""
        lam, mu, theta = self.lam, self.mu, self.theta
        m, s = y * (self.w @ x), x @ x
        a = 2 * eta * lam * s / (1 - theta) ** 2
        start, l1 = m / (1 + eta), 0.0
        if start < 1 - theta:
            after = (m + a * (1 - theta)) / (1 + eta + a)
            l1 = -2 * (1 - theta - after) / (1 - theta) ** 2
        elif start > 1 + theta:
            after = (m + mu * a * (1 + theta)) / (1 + eta + mu * a)
            l1 = 2 * mu * (after - 1 - theta) / (1 - theta) ** 2
        return (self.w - eta * lam * l1 * y * x) / (1 + eta)


class Classes:
    """A candidate with one column per class: v = W / sqrt 2 and the row's u replace w and y x."""

    def __init__(self, classes, d, explicit=False):
        self.inner, self.classes = Candidate(classes * d, None, 10.0, 0.1, 0.1, explicit), classes

    @property
    def W(self):
        return np.sqrt(2) * self.inner.w.reshape(self.classes, -1)

    def direction(self, x, y):
        """Return u: x times 1 for its class and minus each rival's share for the others, over sqrt 2."""
        f = self.W @ x
        p = np.where(np.arange(self.classes) == y, 0.0, np.exp(f - f.max()))
        pulls = np.where(np.arange(self.classes) == y, 1.0, -p / p.sum())
        return np.outer(pulls, x).ravel() / np.sqrt(2)

    def step(self, x, y, kappa):
        """Learn one row and return its cost before learning."""
        u = self.direction(x, y)
        cost = self.inner.objective(u, 1.0)
        self.inner.step(u, 1.0, kappa)
        return cost


class MeanSquare:
    """The mean |x|^2; a row counts as at most ten times the mean before it."""

    def __init__(self):
        self.rows, self.mean = 0, 0.0

    def absorb(self, x):
        self.rows += 1
        s = x @ x
        counted = s if self.mean == 0 else min(s, 10 * self.mean)
        self.mean = ((self.rows - 1) * self.mean + counted) / self.rows
        return self.mean

    def near(self, x):
        """The row as it is learned: beyond twice the mean it shrinks with its distance."""
        return x * min(1.0, 2 * self.mean / (x @ x))


class Anytime:
    """Epochs 8, 16, ...; the last candidate splits at the end of its first epoch; fixed share on logs of weights."""

    def __init__(self, d, lam=10.0, mu=0.1, theta=0.1):
        self.settings = (lam, mu, theta, False)
        self.candidates = [Candidate(d, None, *self.settings)]
        self.logs = np.zeros(1)
        self.rows, self.square = 0, MeanSquare()

    def mixture(self):
        """The weights of the current linear model."""
        return sum(np.exp(b) * candidate.w for b, candidate in zip(self.logs, self.candidates, strict=True))

    def learn(self, x, y):
        lam, mu, theta, _ = self.settings
        kappa = 2 * lam * max(1, mu) * self.square.absorb(x) / (1 - theta) ** 2
        x = self.square.near(x)
        losses = np.array([min(candidate.objective(x, y) / (4 * lam), 1.0) for candidate in self.candidates])
        for candidate in self.candidates:
            candidate.step(x, y, kappa)
        self.rows += 1
        self.logs = self.logs - 3 * losses
        self.logs = self.logs - np.logaddexp.reduce(self.logs)
        K = len(self.candidates)
        self.logs = np.logaddexp(np.log(0.999) + self.logs, np.log(0.001 / K))
        if self.rows == 8 * 2 ** (K - 1):
            tail, b = self.candidates[-1], self.logs[-1]
            self.candidates = [*self.candidates[:-1], Candidate(len(x), self.rows, *self.settings), tail]
            self.logs = np.array([*self.logs[:-1], b - np.log(K + 1), b + np.log(K / (K + 1))])


class Paper:
    """Algorithms 1 and 2 with the sign corrected and losses divided by C; T, C and V_T are known."""

    def __init__(self, d, T, C, V, lam=10.0, mu=0.1, theta=0.1):
        self.N = int(np.ceil(np.log2(2 * C * T / V) / 2)) + 1
        sizes = [max(1, int(np.ceil(2.0 ** (i - 1) * np.sqrt(1 / (2 * C))))) for i in range(1, self.N + 1)]
        self.candidates = [Candidate(d, size, lam, mu, theta, True) for size in sizes]
        self.rate, self.C, self.curvature = np.sqrt(8 * np.log(self.N) / T), C, 2 * lam * max(1, mu) / (1 - theta) ** 2
        self.totals, self.square = np.zeros(self.N), MeanSquare()

    def mixture(self):
        b = np.exp(-self.rate * (self.totals - self.totals.min()))
        b /= b.sum()
        return sum(share * candidate.w for share, candidate in zip(b, self.candidates, strict=True))

    def learn(self, x, y):
        q = self.square.absorb(x)
        x = self.square.near(x)
        kappa = self.curvature * max(q, x @ x)
        self.totals += [min(candidate.objective(x, y) / self.C, 1.0) for candidate in self.candidates]
        for candidate in self.candidates:
            candidate.step(x, y, kappa)
