"""Runs of ``odm`` and ``dynamic_odm`` as a model makes them, scaling in front; the streams of their benchmark."""

from typing import Any

import numpy as np

from core.contract import Floats, Ints, Learner, Prediction, Spec
from core.features.scaling import Scaler
from core.learners.catalogue import find
from tests.benchmarks.streams import CLASSIFICATION, classification

SYNTHETIC = ("SEA", "hyperplane", "1CDT", "2CDT", "1CHT", "UG_2C_2D", "GEARS_2C_2D")
STREAMS = ("hyperplane", *CLASSIFICATION)
HYPERPLANE_STAGES, HYPERPLANE_STAGE_ROWS, HYPERPLANE_NOISE = 9, 10_000, 0.1


def hyperplane(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """90 000 uniform rows in ten dimensions; nine stages, each with a plane of its own; 10 % of the labels flipped."""
    X = rng.uniform(size=(HYPERPLANE_STAGES * HYPERPLANE_STAGE_ROWS, 10))
    planes = np.repeat(rng.uniform(size=(HYPERPLANE_STAGES, 10)), HYPERPLANE_STAGE_ROWS, axis=0)
    above = (X * planes).sum(axis=1) > planes.sum(axis=1) / 2
    return X, (above ^ (rng.random(len(X)) < HYPERPLANE_NOISE)).astype(np.int64)


def stream(name: str) -> tuple[Floats, Ints]:
    """Rows (n, d), contiguous, and labels (n,) in 0, 1."""
    X, y = hyperplane(np.random.default_rng(0)) if name == "hyperplane" else classification(name)
    return np.ascontiguousarray(X), y


class Model:
    """A learner with its scaling in front; all classes are known."""

    def __init__(self, algorithm: str, d: int, seed: int = 0, classes: int = 2, **given: Any) -> None:
        entry = find(algorithm)
        params = entry.complete(given)
        self.scaler = None if params["scaling"] == "none" else Scaler(params["scaling"], d)
        self.learner: Learner = entry.build(Spec("classification", d, params, seed))
        for _ in range(classes):
            self.learner.add_class()

    def learn(self, X: Floats, y: Ints) -> Prediction:
        """Test then train."""
        return self.learner.learn(X if self.scaler is None else self.scaler.absorb(X), y)


def accuracy(X: Floats, y: Ints, algorithm: str = "dynamic_odm", seed: int = 0, **given: Any) -> float:
    """Per cent right, a-priori."""
    told = Model(algorithm, X.shape[1], seed, **given).learn(np.ascontiguousarray(X), y)
    return float(100 * (told.value == y).mean())
