"""What a model knows: its posterior, effects over a sample of the rows, and the experts of ``auto``."""

import asyncio
import threading
import time

import numpy as np
import pytest

from core.model import cost, read
from core.numerics.shapley import EVALUATIONS_MAX
from service.api.http.context import EFFECTS_AT_ONCE
from service.api.models import effects, posterior, weights
from service.api.rows import predict
from service.runtime import threads
from tests.service.api_fixtures import RLS, columnar, features, problem

SPARSE = {"algorithm": "sparse_dfop", "task": "regression", "params": {"compressed_dim": 8}}


async def test_least_squares(api):
    """Weights and covariance are those of the rows; the deviations of weights follow from them."""
    path = await api.learnt(RLS, rows=9)
    found, linear = await api.get(f"{path}/posterior"), await api.get(f"{path}/weights")
    assert {"names", "weights", "covariance", "noise_variance", "norm", "version", "incarnation"} == set(found)
    assert ["a", "b", "bias"] == found["names"]
    assert [*linear["weights"]["value"].values(), linear["bias"]["value"]] == found["weights"]["value"]
    std = np.sqrt(found["noise_variance"] * np.diag(found["covariance"]))
    assert [*linear["std"]["value"].values()] == pytest.approx(std[:2].tolist())
    few = await api.get(f"{path}/posterior?features=b&diagonal=true")
    assert [["b", "bias"], np.diag(found["covariance"])[1:].tolist()] == [few["names"], few["covariance"]]
    assert ["b"] == [*(await api.get(f"{path}/weights?names=b"))["std"]["value"]]


async def test_names_with_commas(api):
    """A list in a query is one line of CSV, so that such a name is quoted; what is not a line of CSV is refused."""
    path, sparse = await api.new(RLS, features=["a", "b, c"]), await api.new(SPARSE)
    params = {"features": 'a,"b, c"', "names": '"b, c"'}
    found = await api.get(f"{path}/posterior", params={"features": params["features"]})
    assert ["a", "b, c", "bias"] == found["names"]
    found = await api.get(f"{path}/weights", params={"names": params["names"]})
    assert ["b, c"] == [*found["weights"]["value"]]
    await api.post(f"{sparse}/feedback", {"features": {"b, c": 1}, "label": 1.0})
    found = await api.get(f"{sparse}/weights", params={"names": params["names"]})
    assert ["b, c"] == [*found["weights"]["value"]]
    for given in ('"a', 'a,"b', '"a"b', "a\n", "a\rb"):
        for route, field in (
            (f"{path}/posterior", "features"),
            (f"{path}/weights", "names"),
            (f"{sparse}/weights", "names"),
        ):
            refused = problem(await api.ask("GET", route, params={field: given}), 422, field)
            assert "is not a line of CSV" in refused["detail"]


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
    problem(await api.ask("GET", f"{path}/effects"), 409)


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


async def test_more_weights_than_an_answer_may_have(api, monkeypatch):
    """Deviations and the bias count, too; a wrong query is refused as such, and who has the version gets no answer."""
    path = await api.learnt(RLS, rows=3)
    monkeypatch.setattr(weights, "NUMBERS_MAX", 5)
    whole = await api.ask("GET", f"{path}/weights")  # two weights, two deviations, a bias
    assert 200 == whole.status_code
    monkeypatch.setattr(weights, "NUMBERS_MAX", 4)
    large = problem(await api.ask("GET", f"{path}/weights"), 413)
    assert ["names", "sparsity"] == [one["field"] for one in large["errors"]]
    for fewer in ("names=b", "sparsity=1"):
        assert 200 == (await api.ask("GET", f"{path}/weights?{fewer}")).status_code
    held = {"If-None-Match": whole.headers["ETag"]}
    assert 304 == (await api.ask("GET", f"{path}/weights", headers=held)).status_code
    problem(await api.ask("GET", f"{path}/weights?sparsity=3", headers=held), 422, "sparsity")


async def test_the_weights_of_a_large_model_are_read_in_a_thread(api, monkeypatch):
    """All that takes time in proportion to them: other requests do not wait for it."""
    path, used = await api.learnt(RLS, rows=3), set()
    monkeypatch.setattr(threads, "THREAD_BYTES", 0)

    def noted(work):
        def noting(*args):
            used.add((work.__name__, threading.current_thread() is threading.main_thread()))
            return work(*args)

        return noting

    for name in ("weights", "weight_deviations"):
        monkeypatch.setattr(read, name, noted(getattr(read, name)))
    monkeypatch.setattr(weights, "encode", noted(weights.encode))
    await api.get(f"{path}/weights")
    assert {("weights", False), ("weight_deviations", False), ("encode", False)} == used


async def test_what_matters_comes_first(api):
    """Largest first; at most 256 rows, whatever was learned; the same answer from another replica's state."""
    path = await api.new(RLS, features=["noise", "load"])
    data = [[at * 7 % 5, at % 11] for at in range(400)]
    await api.post(
        f"{path}/feedback/batch", {"columns": ["noise", "load"], "data": data, "labels": [3 * b for _, b in data]}
    )
    found = await api.get(f"{path}/effects")
    assert ["load", "noise"] == [one["name"] for one in found["features"]]
    large, small = [one["mean_abs"] for one in found["features"]]
    assert 0 <= 50 * small < 5 < large
    assert (256, 1) == (found["rows"], found["version"])
    assert "curves" not in found


async def test_effects_of_a_wide_model(api, monkeypatch):
    """What its own sample costs decides, which has few rows; beyond the limit the answer does not speak of data."""
    path = await api.learnt(RLS, rows=3)
    name = path.removeprefix("/models/")
    model = (await api.engine.models.get(name)).model
    model.own.space_model.sample.room = 4  # as with 4096 columns
    monkeypatch.setattr(threads, "WORK_FLOPS_MAX", cost.flops_to_predict(model.own, 4 * EVALUATIONS_MAX))
    assert 3 == (await api.get(f"{path}/effects"))["rows"]
    monkeypatch.setattr(threads, "WORK_FLOPS_MAX", threads.WORK_FLOPS_MAX - 1)
    refused = problem(await api.ask("GET", f"{path}/effects"), 409, "name")
    assert "effects of a model of this width" in refused["detail"]


async def test_curves_of_an_additive_model(api):
    """Those of its posterior."""
    path = await api.new({"algorithm": "ga2m", "task": "classification", "features": ["x"], "labels": ["lo", "hi"]})
    data = [[at % 10] for at in range(100)]
    labels = ["hi" if x > 4 else "lo" for (x,) in data]
    await api.post(f"{path}/feedback/batch", {"columns": ["x"], "data": data, "labels": labels})
    found, posterior = await api.get(f"{path}/effects"), await api.get(f"{path}/posterior")
    assert posterior["curves"] == found["curves"]


async def test_before_rows_and_features(api):
    """Declared features have no effect yet; without a declaration there are none to show."""
    path = await api.new(RLS, features=["a"])
    found = await api.get(f"{path}/effects")
    assert ([{"name": "a", "mean_abs": 0.0}], 0) == (found["features"], found["rows"])
    problem(await api.ask("GET", f"{await api.new({'task': 'regression'})}/effects"), 409)


@pytest.mark.parametrize("algorithm", ["ga2m", "rls", "vigo"])
async def test_a_wide_row_is_explained_in_a_thread(api, monkeypatch, algorithm):
    """It takes milliseconds, however cheap a prediction of the model is: other rows do not wait for it."""
    names = [f"x{at}" for at in range(60)]
    row = {"features": dict.fromkeys(names, 1.0)}
    path = await api.new(
        {"algorithm": algorithm, "task": "classification", "features": names, "labels": ["UP", "DOWN"]}
    )
    await api.post(f"{path}/feedback", {**row, "label": "UP"})
    threads, explained = [], predict.explained

    def noted(*args):
        threads.append(threading.current_thread())
        return explained(*args)

    monkeypatch.setattr(predict, "explained", noted)
    found = await api.post(f"{path}/predict", {**row, "explain": True})
    assert 60 == len(found["explanation"]["features"])
    assert [False] == [one is threading.main_thread() for one in threads]


async def test_effects_of_few_models_are_computed_at_a_time(start, monkeypatch):
    """Each takes seconds of the interpreter, also for a client that has left; others wait as long as a request may."""
    api = await start(wait_timeout_s=60)
    paths, begun, most, compute = [await api.learnt() for _ in range(6)], 0, 0, effects.explain.effects

    def computed(model):
        nonlocal begun, most
        begun, most = begun + 1, max(most, begun + 1)
        time.sleep(0.05)
        begun -= 1
        return compute(model)

    monkeypatch.setattr(effects.explain, "effects", computed)
    found = await asyncio.gather(*[api.get(f"{path}/effects") for path in paths])
    assert [3] * 6 == [one["rows"] for one in found]
    assert most <= EFFECTS_AT_ONCE
    hurried = await start(wait_timeout_s=0.05)
    async with hurried.app.context.explaining, hurried.app.context.explaining:
        answer = problem(await hurried.ask("GET", f"{paths[0]}/effects"), 503)
    assert "/problems/busy" == answer["type"]
    await hurried.get(f"{paths[0]}/effects")


async def test_effects_are_bounded_by_what_states_may_hold(api, monkeypatch):
    """They are computed on a copy of the model: while others hold many states, one that needs it is answered 503."""
    path = await api.learnt()
    tag = (await api.ask("GET", f"{path}/effects")).headers["etag"]
    budget = api.engine.state_budget
    monkeypatch.setattr(budget, "used", budget.most)
    problem(await api.ask("GET", f"{path}/effects"), 503)
    assert 304 == (await api.ask("GET", f"{path}/effects", headers={"If-None-Match": tag})).status_code
    problem(await api.ask("GET", f"{await api.new({'task': 'regression'})}/effects"), 409)
    monkeypatch.setattr(budget, "used", 0)
    await api.get(f"{path}/effects")
    assert 0 == budget.used


ROWS = 24


@pytest.mark.parametrize(
    ("task", "labels", "measure", "said"),
    [
        ("classification", [("UP", "DOWN")[row % 3 == 0] for row in range(ROWS)], "accuracy", "probabilities"),
        ("regression", [float(row) for row in range(ROWS)], "mse", "prediction"),
    ],
)
async def test_a_task_alone_makes_a_model_that_tells_of_its_experts(api, task, labels, measure, said):
    """Weights that add up to 1, how well each does, who rests; an explanation says what each says of a row."""
    path = await api.new({"task": task})
    config = (await api.get(path))["config"]
    assert ("auto", {"size": "medium"}) == (config["algorithm"], config["params"])
    await api.post(f"{path}/feedback/batch", {**columnar(ROWS), "labels": labels})
    experts = (await api.get(path))["info"]["experts"]
    assert {frozenset(("expert", "weight", measure, "resting"))} == {frozenset(one) for one in experts}
    assert 1.0 == pytest.approx(sum(one["weight"] for one in experts))
    assert {False} == {one["resting"] for one in experts}
    told = (await api.post(f"{path}/predict", {"features": features(0), "explain": True}))["explanation"]
    names = [one["expert"] for one in experts]
    assert [one["expert"] for one in told["experts"]] == names[: len(told["experts"])]
    assert {frozenset(("expert", "weight", said))} == {frozenset(one) for one in told["experts"]}
    said = {frozenset(one.get("probabilities", ())) for one in told["experts"]}
    assert said == {frozenset({"DOWN", "UP"} if task == "classification" else ())}
