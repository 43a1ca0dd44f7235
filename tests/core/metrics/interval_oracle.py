"""Intervals computed in the plainest way, with lists sorted again for every row."""

import math
from fractions import Fraction

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
STEPS = (0.002, 0.008, 0.032, 0.128)
ETA, SIGMA, SHIFT_STEP, RING = 2.72, 0.001, 0.002, 250


class Level:
    """The share that one level leaves outside: DtACI over four steps, and a shift of the result.

    Args:
        level: the share it should cover.
    """

    def __init__(self, level):
        self.first = math.ceil(2 / (1 - Fraction(str(level)))) - 1
        self.target, self.shift = 1.0 - level, 0.0
        self.alphas, self.weights = [self.target] * len(STEPS), [1 / len(STEPS)] * len(STEPS)

    @property
    def told(self):
        found = self.shift
        for weight, alpha in zip(self.weights, self.alphas, strict=True):
            found += weight * alpha
        return min(max(found, 0.0), 1.0)

    def learn(self, beta, outside):
        """Learn a row: shares below beta would have covered it; ``outside`` says whether the interval missed it."""
        losses = [self.target * (beta - alpha) - min(beta - alpha, 0.0) for alpha in self.alphas]
        weights = [weight * math.exp(-ETA * loss) for weight, loss in zip(self.weights, losses, strict=True)]
        self.weights = [(1 - SIGMA) * weight / sum(weights) + SIGMA / len(STEPS) for weight in weights]
        moved = [alpha + step * (self.target - (alpha >= beta)) for alpha, step in zip(self.alphas, STEPS, strict=True)]
        self.alphas = [min(max(alpha, 0.0), 1.0) for alpha in moved]
        self.shift = min(max(self.shift + SHIFT_STEP * (self.target - outside), -0.5), 0.5)


class PlainIntervals:
    """The intervals of a regression, row by row."""

    def __init__(self):
        self.residuals = []
        self.levels = [Level(level) for level in LEVELS]

    @property
    def latest(self):
        return sorted(self.residuals[-RING:])

    def shares(self):
        """The share of every level, none larger than that of a lower level."""
        found = [1.0]
        for level in self.levels:
            found.append(min(level.told, found[-1]))
        return found[1:]

    def offsets(self):
        """Low and high of every level; None if it has no interval yet."""
        latest, found = self.latest, []
        n = len(latest)
        for level, share in zip(self.levels, self.shares(), strict=True):
            place = min(max(math.floor((n + 1) * 0.5 * share), 1), max(n, 1))
            known = n >= level.first
            found.append((min(latest[place - 1], 0.0), max(latest[n - place], 0.0)) if known else None)
        return found

    def learn(self, residual):
        """Learn the residual of one row."""
        latest, offsets = self.latest, self.offsets()
        n = len(latest)
        beyond = [sum(other < residual for other in latest), sum(other > residual for other in latest)]
        own = beyond[:1] if residual > 0 else beyond[1:] if residual < 0 else [min(beyond)]
        for level, pair in zip(self.levels, offsets, strict=True):
            if pair is not None:
                level.learn(2.0 - 2.0 * own[0] / (n + 1), not pair[0] <= residual <= pair[1])
        self.residuals.append(residual)
