"""GET /models/{name}/posterior, and the standard deviations of weights."""

import numpy as np
import pytest

from service.api.models import posterior
from tests.service.api_fixtures import RLS, columnar, problem

SPARSE = {"algorithm": "sparse_dfop", "task": "regression", "params": {"compressed_dim": 8}}


async def test_least_squares(api):
    """Weights and covariance are those of the rows; the deviations of weights follow from them."""
    path = await api.learnt(RLS, rows=9)
    found, weights = await api.get(f"{path}/posterior"), await api.get(f"{path}/weights")
    assert {"names", "weights", "covariance", "noise_variance", "norm", "version", "incarnation"} == set(found)
    assert ["a", "b", "bias"] == found["names"]
    assert [*weights["weights"]["value"].values(), weights["bias"]["value"]] == found["weights"]["value"]
    std = np.sqrt(found["noise_variance"] * np.diag(found["covariance"]))
    assert [*weights["std"]["value"].values()] == pytest.approx(std[:2].tolist())
    few = await api.get(f"{path}/posterior?features=b&diagonal=true")
    assert [["b", "bias"], np.diag(found["covariance"])[1:].tolist()] == [few["names"], few["covariance"]]
    assert ["b"] == [*(await api.get(f"{path}/weights?names=b"))["std"]["value"]]


async def test_columns_of_a_feature(api):
    """A categorical feature has several columns; std is missing where the learner knows none."""
    features = ["a", {"name": "day", "categories": ["mon", "tue"]}]
    path = await api.new({"algorithm": "odm", "task": "classification", "features": features, "labels": ["UP", "DOWN"]})
    await api.post(f"{path}/feedback", {"features": {"a": 1.0, "day": "mon"}, "label": "UP"})
    (candidate,) = (await api.get(f"{path}/posterior?features=day"))["candidates"]
    assert ["day=mon", "day=tue"] == [*candidate["weights"]["UP"]]
    assert "std" not in await api.get(f"{path}/weights")


async def test_compressed_columns(api):
    """Rows of any names have no features to choose."""
    path = await api.new(SPARSE)
    await api.post(f"{path}/feedback", {"features": {"cheap": 1, "pills": 2}, "label": 1.0})
    found = await api.get(f"{path}/posterior")
    assert [True, 9] == [found["compressed"], len(found["names"])]
    problem(await api.ask("GET", f"{path}/posterior?features=cheap"), 422)


async def test_what_cannot_be_shown(api, monkeypatch):
    """Unknown features, models without features, and more numbers than an answer may have."""
    path = await api.learnt(RLS, rows=3)
    refused = problem(await api.ask("GET", f"{path}/posterior?features=a,nobody"), 422)
    assert ["features[1]"] == [one["field"] for one in refused["errors"]]
    refused = problem(await api.ask("GET", f"{path}/posterior?diagonal=perhaps"), 422, "diagonal")
    assert "must be true or false" in refused["detail"]
    problem(await api.ask("GET", f"{await api.new({'task': 'regression'})}/posterior"), 409)
    monkeypatch.setattr(posterior, "NUMBERS_MAX", 8)
    large = problem(await api.ask("GET", f"{path}/posterior"), 413)
    assert ["features", "diagonal"] == [one["field"] for one in large["errors"]]
    assert 200 == (await api.ask("GET", f"{path}/posterior?diagonal=true")).status_code


@pytest.mark.parametrize("algorithm", ["dfop", "vigo", "ga2m", "auto", "fesl_c", "dynamic_odm"])
async def test_every_family(api, algorithm):
    """Is shown as JSON, under the names of the contract."""
    path = await api.learnt({"algorithm": algorithm, "task": "classification", "labels": ["UP", "DOWN"]}, rows=6)
    await api.post(f"{path}/evaluate", {**columnar(3), "labels": ["UP"] * 3})
    keys = {"dfop": "rates", "vigo": "classes", "ga2m": "curves", "dynamic_odm": "candidates"}
    assert keys.get(algorithm, "experts") in await api.get(f"{path}/posterior")
