"""The drift watch by its definition: it keeps every row and sums every window from scratch."""

import math

import numpy as np


class Oracle:
    """Alarms as (kind, row, class, columns, window rows, before, after), in the order of their rows.

    ``ranges`` is (2, D) with NaN where nothing is declared; ``delta`` and ``batch`` serve both tests.
    """

    def __init__(self, ranges, regression, delta, batch, classes):
        self.low, self.high = ranges[0].copy(), ranges[1].copy()
        self.regression, self.delta, self.batch = regression, delta, batch
        self.cells = min(8, batch)
        self.cell = batch // self.cells
        self.origin = None
        self.past = [[] for _ in range(classes)]
        self.recent = [[] for _ in range(classes)]
        self.last = [None] * classes
        self.past_steps = [[] for _ in range(classes)]
        self.recent_steps = [[] for _ in range(classes)]
        self.wrong = [[] for _ in range(classes)]
        self.collected, self.limit = [], None

    def absorb(self, x, k, loss, row):
        self.low, self.high = np.fmin(self.low, x), np.fmax(self.high, x)
        return self.means(x, k, row) + self.errors(k, loss, row)

    def means(self, x, k, row):
        self.origin = x if self.origin is None else self.origin
        self.recent_steps[k].append(x - (self.origin if self.last[k] is None else self.last[k]))
        self.recent[k].append(x)
        self.last[k] = x
        if len(self.recent[k]) < self.batch:
            return []
        past, recent = np.array(self.past[k]), np.array(self.recent[k])
        self.recent[k] = []
        found = self.differing(past, recent, np.array(self.past_steps[k])) if len(past) else []
        self.past[k] = list(recent) if len(found) else [*self.past[k], *recent]
        self.past_steps[k] = self.recent_steps[k] if len(found) else self.past_steps[k] + self.recent_steps[k]
        self.recent_steps[k] = []
        if not len(found):
            return []
        ends = past[:, found].mean(axis=0), recent[:, found].mean(axis=0)
        return [("class_mean", row, k, tuple(found), len(past), *map(tuple, ends))]

    def differing(self, past, recent, steps):
        D = past.shape[1]
        spread = self.high - self.low
        n = 1 / (1 / len(past) + 1 / len(recent))
        logarithm = math.log(4 * D / self.delta)
        variance = np.concatenate([past, recent]).var(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.minimum(1 - (steps**2).mean(axis=0) / (2 * past.var(axis=0)), 0.999)
        t = np.where(r * math.sqrt(len(past)) > 3, (1 + r) / (1 - r), 1.0)
        hoeffding = spread * math.sqrt(logarithm / (2 * n)) * np.sqrt(t)
        bernstein = np.sqrt(2 * t * variance * logarithm / n) + 2 * spread * logarithm / (3 * n)
        apart = np.abs(past.mean(axis=0) - recent.mean(axis=0))
        found = np.flatnonzero((spread > 0) & (apart >= np.minimum(hoeffding, bernstein)))
        return found[np.argsort(-apart[found] / spread[found], kind="stable")][:10].tolist()

    def guesses(self):
        shares = [np.mean(z) for z in self.wrong if len(z) // self.cell * self.cell >= self.cells * self.cell]
        return len(shares) > 1 and sum(shares) >= 0.9 * (len(shares) - 1)

    def runs(self, z):
        cells, p = np.reshape(z, (-1, self.cell)).sum(axis=1), np.mean(z)
        if len(cells) < 2 or p in (0, 1):
            return 1.0
        variance = self.cell * p * (1 - p)
        t = (np.diff(cells) ** 2).mean() / (2 * variance)
        excess = max(0, (1 - 6 * p * (1 - p)) / variance)
        return t if t > 1 + 3 * math.sqrt((3 + excess) / (len(cells) - 1)) else 1.0

    def errors(self, k, loss, row):
        if self.regression and self.limit is None:
            self.collected.append(loss)
            if len(self.collected) == 2 * self.batch:
                self.limit = sorted(self.collected[self.batch :])[int(0.9 * self.batch)]
            return []
        z = self.wrong[k]
        z.append(float(loss > self.limit) if self.regression else loss)
        if len(z) % self.cell:
            return []
        for window in sorted({self.cells * eighths // 8 * self.cell for eighths in (2, 4, 8, 16)} - {0}):
            if len(z) - window >= self.cells * self.cell:
                a, b = np.mean(z[:-window]), np.mean(z[-window:])
                n = 1 / (1 / (len(z) - window) + 1 / window)
                p, logarithm = np.mean(z), math.log(4 / self.delta)
                cut = math.sqrt(2 * self.runs(z) * p * (1 - p) * logarithm / n) + 2 * logarithm / (3 * n)
                if b - a >= cut:
                    if self.guesses():
                        return []
                    self.wrong[k] = [] if self.regression else z[-window:]
                    self.collected, self.limit = [], None
                    return [("error_rate", row, k, (), len(z) - window, (a,), (b,))]
        return []
