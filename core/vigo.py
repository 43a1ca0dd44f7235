r"""VIGO, VIGOd and VIGOw: a Gaussian per class, learned by variational Bayes, with drift seen or forgotten.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.model import Alarm, Floats, Header, Ints, Prediction, Spec, Weights
from core.vig import (
    BETA, VIGO, VIGOD, VIGOW, HIGH, KNOWN, LOW, NU, ROWS, SEEN, State, begin, forget, learn_rows, predict_rows,
    CUT_ERROR, CUT_MEAN, ERROR_ALARM, MEAN_ALARM, PAST, RATE_AFTER, RATE_BEFORE, RECENT,
)

KINDS = {"vigo": VIGO, "vigod": VIGOD, "vigow": VIGOW}
PRIOR_SIZE = 0.1
FLOOR = 0.01
ERROR_DELTA = 0.05
COLUMNS_TOLD = 10


class Vigo:
    def __init__(self, kind: str, spec: Spec) -> None:
        D, p = spec.dimension, spec.params
        batch = float(p["batch_size"])
        paper = p["variant"] == "paper"
        prior = PRIOR_SIZE if not paper else (1.0 if kind == "vigod" else 0.0)
        nu_cap = max(2 * batch, D + batch)
        settings = np.array([
            KINDS[kind], batch, float(paper), prior, 0.0 if paper else FLOOR,
            float(paper or p.get("reset") == "mean"),
            math.log(4 * D / p.get("delta", 0.3)),
            math.log(2 / ERROR_DELTA) if p.get("reset_on") == "both" else 0.0,
            nu_cap if kind == "vigow" and not paper else 0.0,
        ])
        features = np.zeros((5, D))
        for j, r in enumerate(spec.ranges):
            if r is not None:
                features[LOW, j], features[HIGH, j] = r
                features[KNOWN, j] = r[1] - r[0]
        self.nu_cap = nu_cap
        self.state = State(np.zeros((0, D, D)), np.zeros((0, D, D)), np.zeros((0, D, D)), np.zeros((0, 2, D)), np.zeros((0, 14)), features, np.zeros(3), settings)
        self._report = np.zeros((4, max(D, 6)))
        self._alarms: list[Alarm] = []

    def add_class(self) -> None:
        s = self.state
        grown = [np.concatenate([a, np.zeros((1, *a.shape[1:]))]) for a in s[:5]]
        self.state = s._replace(A=grown[0], L=grown[1], S=grown[2], means=grown[3], stats=grown[4])
        begin(self.state, len(s.stats))

    def predict(self, X: Floats) -> Prediction:
        n, K = X.shape[0], self.state.stats.shape[0]
        value, p = np.empty(n, np.int64), np.empty((n, K))
        if K == 0:
            value.fill(-1)
        else:
            predict_rows(X, self.state, value, p)
        return Prediction(value, p)

    def learn(self, X: Floats, y: NDArray[Any], discounts: Floats | None = None) -> Prediction:
        n, K = X.shape[0], self.state.stats.shape[0]
        value, p = np.empty(n, np.int64), np.empty((n, K))
        y = np.ascontiguousarray(y)
        self._alarms = []
        row = 0
        while row < n:
            row, fired = learn_rows(X, y, self.state, value, p, self._report, row)
            if fired:
                self._alarms.append((row - 1, int(y[row - 1]), fired))
        return Prediction(value, p)
