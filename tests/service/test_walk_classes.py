"""The walk of a new user with ten classes: what the metrics say of each, and of those that are mixed up."""

import numpy as np

ROWS, CLASSES, SIZE = 3000, 10, 250
MIXED = ("c3", "c7")
"""Two classes in one place: no model can tell them apart."""


def digits(seed: int = 3) -> tuple[list[list[float]], list[str]]:
    """Ten clouds in the plane, two of which coincide, and one of which is rare: rows and labels."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(-20, 20, (CLASSES, 4))
    places[7] = places[3]
    share = np.array([1.0] * 9 + [0.2])
    picked = rng.choice(CLASSES, ROWS, p=share / share.sum())
    X = places[picked] + rng.normal(0, 1.0, (ROWS, 4))
    return X.tolist(), [f"c{at}" for at in picked]


async def test_ten_classes_by_themselves(api):
    """Nothing is declared but the task's algorithm: classes appear, each is counted, and mixed ones show as such."""
    model = await api.new({"algorithm": "vigo", "task": "classification"})
    X, labels = digits()
    columns = ["w", "x", "y", "z"]
    assert 409 == (await api.ask("POST", f"{model}/predict", json={"features": {"w": 1.0}})).status_code
    for at in range(0, ROWS, SIZE):
        body = {"columns": columns, "data": X[at : at + SIZE], "labels": labels[at : at + SIZE]}
        await api.post(f"{model}/feedback/batch", body)
    found = await api.get(f"{model}/metrics")
    window = found["window"]
    assert set(labels) == set(window["per_class"]) == set(window["confusion"]["labels"])
    assert 1 == found["unscored"]  # the first row, of which nothing could be said
    last = labels[-window["rows"] :]
    assert {name: last.count(name) for name in set(labels)} == {
        name: each["support"] for name, each in window["per_class"].items()
    }
    for name, each in window["per_class"].items():
        assert (each["f1"] < 0.75) == (name in MIXED), (name, each)
    at = [window["confusion"]["labels"].index(name) for name in MIXED]
    counts = np.array(window["confusion"]["counts"])
    assert window["rows"] == counts.sum()
    assert counts[np.ix_(at, at)].sum() > 0.9 * counts[at].sum()
    assert 0.75 < window["accuracy"] < 0.95
    assert found["baselines"]["majority"]["accuracy"] < 0.2
