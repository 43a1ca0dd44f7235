"""What a new user of a regression does, by curl: the demand of a building, which drifts and has a season."""

import math

import numpy as np

from tests.service.curl import curl, needs_curl

pytestmark = needs_curl
ROWS, PIECE = 3000, 500
HOURS = 24


def stream():
    """Rows by column with their labels: a line that bends in the middle, a daily season, noise that doubles."""
    rng = np.random.default_rng(0)
    hour = np.arange(ROWS)
    late = hour >= ROWS // 2
    line = np.where(late, 90.0 - 0.01 * hour, 60.0 + 0.01 * hour)
    season = 8.0 * np.sin(2 * math.pi * hour / HOURS)
    label = line + season + np.where(late, 2.0, 1.0) * rng.normal(size=ROWS)
    return np.column_stack([hour / ROWS, np.sin(2 * math.pi * hour / HOURS)]), label


def test_a_regression_from_nothing_to_intervals_that_hold(url):
    """Create, feed, predict with an interval, and see in the metrics how often it held, and how large errors were."""
    path = "/models/demand"
    assert 201 == curl(url, path, {"algorithm": "dfop", "task": "regression", "features": ["t", "season"]}, "PUT")[0]
    X, y = stream()
    row = {"features": {"t": 1.0, "season": 0.0}}
    status, first = curl(url, f"{path}/predict", {**row, "interval": 0.9})
    assert (200, None) == (status, first["interval"])
    for start in range(0, ROWS, PIECE):
        part = slice(start, start + PIECE)
        body = {"columns": ["t", "season"], "data": X[part].tolist(), "labels": y[part].tolist()}
        assert 200 == curl(url, f"{path}/feedback/batch", body)[0]
    status, told = curl(url, f"{path}/predict", {**row, "interval": 0.9})
    low, high = told["interval"]
    assert low < told["prediction"] < high
    assert low < 60.0 < high
    assert 4.0 < high - low < 12.0  # the noise has a deviation of 2 by now: 6.6
    status, metrics = curl(url, f"{path}/metrics", method="GET")
    assert ROWS == metrics["rows"]
    assert 0.88 < metrics["overall"]["coverage"]["0.9"] < 0.92
    assert 0.86 < metrics["window"]["coverage"]["0.9"] < 0.94
    assert metrics["overall"]["mse"] < metrics["baselines"]["last_value"]["mse"]
    assert abs(metrics["overall"]["bias"]) < 0.5
    assert 0.5 < metrics["overall"]["median_ae"] < 1.5  # of noise with deviations 1 and 2: 0.67 and 1.35
