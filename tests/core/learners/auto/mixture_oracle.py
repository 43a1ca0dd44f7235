"""The equations of core.learners.auto.kernels in plain NumPy, row by row."""

import numpy as np


class Oracle:
    def __init__(self, experts, classes):
        E = experts + 4
        self.a, self.H, self.v, self.G = np.ones(E), np.ones(E), np.full(E, 3 / E), np.zeros(E)
        self.b, self.right, self.c, self.rows = np.full(E, 1 / E), np.zeros(E), 0.5, 0
        self.counts, self.last = [np.zeros((classes + 1, classes)) for _ in range(2)], None

    def learn(self, P, y, weight):
        """The mixture's probabilities for a row before it is learned, from the experts' probabilities P (E, K)."""
        K = P.shape[1]
        share = [(own[0] + 1 / K) / (own[0].sum() + 1) for own in self.counts]
        after = [own[0 if self.last is None else 1 + self.last] for own in self.counts]
        order = [(own + 1 / K) / (own.sum() + 1) for own in after]
        logs = np.log(np.maximum(np.vstack([P, order, share]), 1e-4))
        t = np.exp(self.a[:, None] * logs)
        t /= t.sum(axis=1, keepdims=True)
        f = np.maximum(np.log(t), np.log(1e-4))
        f -= f.mean(axis=1, keepdims=True)
        q = np.exp(self.v @ f - (self.v @ f).max())
        q /= q.sum()
        r = self.b @ t
        p = self.c * q + (1 - self.c) * r
        said = p / p.sum() * (1 - K * 1e-6) + 1e-6
        self._fit(y, weight, logs, t, f, q, r)
        return said

    def _fit(self, y, weight, logs, t, f, q, r):
        self.rows += 1
        mean = (t * logs).sum(axis=1)
        self.H = np.minimum(self.H + weight * np.maximum((t * logs**2).sum(axis=1) - mean**2, 0), 1000)
        self.a = np.clip(self.a + weight * (logs[:, y] - mean) / self.H, 0.02, 20)
        g = weight * (f[:, y] - f @ q)
        self.G = 0.9995 * self.G + g**2
        self.v += np.divide(0.15 * g, np.sqrt(self.G), out=np.zeros_like(g), where=self.G > 0)
        right = t.argmax(axis=1) == y
        self.right += (right - self.right) * max(1 / self.rows, 1e-3)
        rare = self.rows > 200 and self.counts[0][0].max() > 0.95 * self.counts[0][0].sum()
        logs_of = [-np.log(np.maximum(own, 1e-4)) for own in (t[:, y], q[y], r[y])]
        lost, eta = (logs_of, 1.0) if rare else ((~right, q.argmax() != y, r.argmax() != y), 0.2)
        self.b *= np.exp(-0.5 * weight * lost[0])
        self.b = 0.999 * self.b / self.b.sum() + 0.001 / len(self.b)
        c = self.c * np.exp(-eta * weight * lost[1])
        other = (1 - self.c) * np.exp(-eta * weight * lost[2])
        self.c = 0.999 * c / (c + other) + 0.0005
        self._count(y, weight)

    def _count(self, y, weight):
        for own, order, share in zip(self.counts, (0.999, 0.98), (1.0, 0.99), strict=True):
            own[0] *= share
            own[0, y] += weight
            if self.last is not None:
                own[1 + self.last] *= order
                own[1 + self.last, y] += weight
        self.last = y
