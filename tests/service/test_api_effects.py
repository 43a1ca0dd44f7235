"""GET /models/{name}/effects: what matters, over a sample of the rows."""

from tests.service.api_fixtures import RLS, problem


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
