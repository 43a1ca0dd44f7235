"""Models for the pages to show, made through the API: seeded rows, with changes that are drift."""

import httpx
import numpy as np

ROWS = 250
"""The number of rows in a batch."""
HOSTILE = '<img src=x onerror="window.hit=1">'
QUOTED = "</script><b>\"k'"


def taught(api: httpx.Client, name: str, config: dict[str, object], rows: dict[str, object]) -> None:
    """Create a model and teach it a batch."""
    api.put(f"/models/{name}", json=config).raise_for_status()
    api.post(f"/models/{name}/feedback/batch", json=rows).raise_for_status()


def classes(api: httpx.Client, name: str) -> None:
    """Two classes and two numeric features, with a challenger; the labels flip once, which is a drift."""
    body = {"algorithm": "dfop", "task": "classification", "features": ["load", "price"], "labels": ["UP", "DOWN"]}
    api.put(f"/models/{name}", json=body).raise_for_status()
    api.put(f"/models/{name}/challengers/candidate", json={"algorithm": "vigo"}).raise_for_status()
    for seed, turned in enumerate([False] * 4 + [True] * 3):
        teach(api, name, seed, turned=turned)


def teach(api: httpx.Client, name: str, seed: int, *, turned: bool) -> None:
    """Teach the model of ``classes`` a batch."""
    values = np.random.default_rng(seed).normal(size=(ROWS, 2))
    up = (values @ [2.0, -1.0] > 0) != turned
    labels = np.where(up, "UP", "DOWN").tolist()
    body = {"columns": ["load", "price"], "data": values.tolist(), "labels": labels}
    api.post(f"/models/{name}/feedback/batch", json=body).raise_for_status()


def teach_until_drift(api: httpx.Client, name: str) -> int:
    """Teach rows with the original labels until the model reports another drift; return the row at which it does."""
    known = drifts(api, name)
    for seed in range(100, 120):
        teach(api, name, seed, turned=False)
        found = drifts(api, name)
        if len(found) > len(known):
            return found[-1]
    raise AssertionError("no drift in 5000 rows with flipped labels")


def drifts(api: httpx.Client, name: str) -> list[int]:
    """The rows of the model's own drifts."""
    marks = api.get(f"/models/{name}/metrics").raise_for_status().json()["marks"]
    return [mark["row"] for mark in marks if mark["kind"] == "drift"]


def numbers(api: httpx.Client, name: str) -> None:
    """A regression on a number, a category and a time of day."""
    features = ["size", {"name": "day", "categories": ["mon", "tue"]}, {"name": "open", "type": "boolean"}]
    rng = np.random.default_rng(0)
    size, noise = rng.normal(size=ROWS), rng.normal(size=ROWS) / 10
    data = [[float(value), "mon" if value > 0 else "tue", bool(value > 1)] for value in size]
    rows = {"columns": ["size", "day", "open"], "data": data, "labels": (3 * size + noise).tolist()}
    taught(api, name, {"algorithm": "dfop", "task": "regression", "features": features}, rows)


def hostile(api: httpx.Client, name: str) -> None:
    """Names and labels that would act as markup or a formula if they were not treated as plain text."""
    features = [HOSTILE, {"name": QUOTED, "categories": [HOSTILE, "plain"]}]
    body = {"algorithm": "dfop", "task": "classification", "features": features, "labels": [HOSTILE, "=1+1"]}
    body |= {"description": HOSTILE, "tags": {HOSTILE: HOSTILE}}
    values = np.random.default_rng(0).normal(size=ROWS)
    data = [[float(value), HOSTILE if value > 0 else "plain"] for value in values]
    labels = [HOSTILE if value > 0 else "=1+1" for value in values]
    taught(api, name, body, {"columns": [HOSTILE, QUOTED], "data": data, "labels": labels})
