"""Scaling sits between encoder and learner, for every algorithm that has the parameter."""

import numpy as np
import pytest

from core.config import Config
from core.features import Schema, parse_features
from core.learners.catalogue import ALGORITHMS
from core.switching import space_model
from core.switching.space_model import SpaceModel

D = 3
SCALED = [
    algorithm.id for algorithm in ALGORITHMS.values() if any(param.name == "scaling" for param in algorithm.params)
]


def model_of(algorithm, task, scaling):
    """A model with three numbers, two of them with a scale far from one."""
    features = parse_features(["a", "b", "c"])
    config = Config.parse({"algorithm": algorithm, "task": task, "params": {"scaling": scaling}})
    return SpaceModel(config, Schema(features))


def rows(count=120):
    rng = np.random.default_rng(3)
    X = np.ascontiguousarray(rng.normal(size=(count, D)) * [1e-6, 1.0, 1e6] + [0.0, 5.0, -1e6])
    return X, (X[:, 2] > -1e6).astype(np.int64)


def test_weights_of_wild_scales_are_numbers():
    """Spreads of 1e-300 and means of 1e307 make weights large but never infinite."""
    model = model_of("dfop", "regression", "standard")
    X = np.array([[1e-300, 1e307, 1.0], [2e-300, -1e307, 1.0], [1e-300, 1e300, 1.0]])
    y = np.array([1e5, -1e5, 0.0])
    model.learn(model.encode(X, y), y, None)
    assert all(np.isfinite(part).all() for part in model.weights())


@pytest.mark.parametrize("count", [1, 2, 3, 39, 40])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_many_rows_are_predicted_some_at_a_time(monkeypatch, task, count):
    """As all at once; never more of them are encoded than fit."""
    model, (X, y) = model_of("dfop", task, "standard"), rows(60)
    if task == "classification":
        model.add_class()
        model.add_class()
    y = y if task == "classification" else y.astype(np.float64)
    model.learn(model.encode(X, y), y, None)
    whole, encode, sizes = model.predict(X[:count]), model.encode, []
    monkeypatch.setattr(space_model, "CELLS_AT_ONCE", 2 * D + 1)
    monkeypatch.setattr(SpaceModel, "encode", lambda _, raw: sizes.append(len(raw)) or encode(raw))
    some = model.predict(X[:count])
    np.testing.assert_allclose(whole.value, some.value, rtol=1e-12)
    if whole.probabilities is not None:
        np.testing.assert_allclose(whole.probabilities, some.probabilities, rtol=1e-12)
    assert (count, min(2, count)) == (sum(sizes), max(sizes))


def test_a_state_of_another_scaling_is_refused():
    """Additional or missing parts do not make a state."""
    scaled, plain = model_of("dfop", "regression", "robust"), model_of("dfop", "regression", "none")
    with pytest.raises(ValueError, match="parts"):
        plain.load_arrays(*scaled.to_arrays())
