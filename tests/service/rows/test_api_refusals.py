"""What comes before a refusal, on every route that learns rows: the rows, the log's head, the rows again, the ids."""

import pytest

from core.problems import Conflict, Invalid
from service.runtime.rows.row_validation import RowValidator
from tests.service.api_fixtures import ROW, problem
from tests.service.switches import overlapping, row

WRONG = {"features": {"nobody": 1}, "id": "x"}
LEARNING = {
    "feedback": {**WRONG, "label": "UP"},
    "feedback/batch": {"columns": ["nobody"], "data": [[1]], "labels": ["UP"], "ids": ["x"]},
    "features/overlap": WRONG,
}
TABLE = {"columns": [*row(1)], "data": [[*row(1).values()]]}
RIGHT = {
    "feedback": {"features": row(1), "id": "x", "label": "UP", "weight": 1},  # the quick way reads no weight
    "feedback/batch": {**TABLE, "labels": ["UP"], "ids": ["x"]},
    "features/overlap": {"features": row(1), "id": "x"},
    "predict": {"features": row(1)},
    "predict/batch": TABLE,
}


class Steps(list):
    """The steps taken, in order; whether the replica is found to be behind the log, and why rows are refused."""

    behind, refusal = False, None


@pytest.fixture
def steps(api, monkeypatch):
    """The steps of requests from now on."""
    engine, found = api.engine, Steps()
    caught_up, lookup = engine.caught_up, engine.store.log.lookup

    async def head(replica):
        found.append("head")
        return await caught_up(replica) or found.behind

    async def ids(*of):
        found.append("ids")
        return await lookup(*of)

    def noted(read):
        def reading(*given):
            found.append("rows")
            if found.refusal is not None:
                raise found.refusal
            return read(*given)

        return reading

    monkeypatch.setattr(engine, "caught_up", head)
    monkeypatch.setattr(engine.store.log, "lookup", ids)
    for read in ("feedback", "overlap", "prediction"):
        monkeypatch.setattr(RowValidator, read, noted(getattr(RowValidator, read)))
    return found


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("route", LEARNING)
async def test_rows_to_learn_are_refused_last(api, steps, route, behind):
    """The head is read before the ids are looked up, and the rows once more only where the replica was behind."""
    path = await overlapping(api)
    steps.clear()
    steps.behind = behind
    problem(await api.ask("POST", f"{path}/{route}", json=LEARNING[route]), 422)
    assert ["rows", "head", *(["rows"] if behind else []), "ids"] == steps


@pytest.mark.parametrize("route", RIGHT)
async def test_rows_that_are_right_take_one_step(api, steps, route):
    """Neither the head nor the ids cost a round trip; seen ids are found whatever for the rows are refused."""
    path = await overlapping(api)
    steps.clear()
    await api.post(f"{path}/{route}", RIGHT[route])
    assert ["rows"] == steps
    if route in LEARNING:
        for steps.refusal in (Invalid.of("features", "wrong"), Conflict("not now")):
            for steps.behind in (False, True):
                steps.clear()
                assert (await api.post(f"{path}/{route}", RIGHT[route]))["duplicate"]
                assert ["rows", "head", *(["rows"] if steps.behind else []), "ids"] == steps


@pytest.fixture(scope="module")
async def pair(start):
    """Two services on one store; the second one does not read on by itself."""
    ahead, behind = await start(), await start()
    behind.engine.follower._note = lambda *_: None  # notices and the sweep would find what others append
    return ahead, behind


CHANGES = {
    "labels": ("PATCH", "", {"add_labels": ["LEFT"]}),
    "learner": ("POST", "/challengers/other/promote", {"force": True}),
}


async def _changed_elsewhere(pair, change):
    """A model that the first service has changed since it tracked a row; its path, and the id of that row."""
    ahead, behind = pair
    path = await ahead.learnt()
    await ahead.ask("PUT", f"{path}/challengers/other", json={"algorithm": "gdfop"})
    tracked = (await ahead.post(f"{path}/predict", {**ROW, "track": True}))["prediction_id"]
    await behind.get(path)
    method, route, body = CHANGES[change]
    assert 200 == (await ahead.ask(method, f"{path}{route}", json=body)).status_code
    return path, tracked


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(
    ("change", "label"), [("labels", {"label": "LEFT"}), ("learner", {"label": "UP", "discount": 0.9})]
)
async def test_what_another_service_has_allowed_is_learned(pair, change, label, tracked):
    """A new label, or a discount for a new learner; with the row, or with the id of its tracked prediction."""
    path, prediction_id = await _changed_elsewhere(pair, change)
    row = {"prediction_id": prediction_id} if tracked else ROW
    assert 4 == (await pair[1].post(f"{path}/feedback", {**row, **label}))["rows"]


async def test_a_tracked_label_is_refused_at_the_head(api, steps):
    """Like the label of a row; the prediction goes on waiting for a right one."""
    path = await overlapping(api)
    tracked = {
        "prediction_id": (await api.post(f"{path}/predict", {"features": row(1), "track": True}))["prediction_id"]
    }
    steps.clear()
    problem(await api.ask("POST", f"{path}/feedback", json={**tracked, "label": "LEFT"}), 422, "label")
    assert ["head"] == steps
    await api.post(f"{path}/feedback", {**tracked, "label": "UP"})
    assert ["head"] == steps


async def test_a_state_of_the_learner_that_another_service_has_promoted_is_imported(pair):
    """The configurations are compared at the head of the log before an import is refused."""
    path, _ = await _changed_elsewhere(pair, "learner")
    await pair[1].imports(path, await pair[0].state(path), 200)
