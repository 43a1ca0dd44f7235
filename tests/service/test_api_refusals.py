"""What comes before a refusal, on every route that reads rows: the rows, the log's head, the rows again, the ids."""

import pytest

from core.problems import Conflict, Invalid
from service.runtime.rows.row_validation import RowValidator
from tests.service.api_fixtures import problem
from tests.service.switches import BEGIN, overlapping, row, steady

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG = {"nobody": 1}
TABLE = {"columns": ["nobody"], "data": [[1]]}
LEARNING = {
    "feedback": {"features": WRONG, "label": "UP", "id": "x"},
    "feedback/batch": {**TABLE, "labels": ["UP"], "ids": ["x"]},
    "features/overlap": {"features": WRONG, "id": "x"},
}
PREDICTING = {"predict": {"features": WRONG}, "predict/batch": TABLE}
READ = {
    "feedback": RowValidator.feedback,
    "feedback/batch": RowValidator.feedback,
    "features/overlap": RowValidator.overlap,
    "predict": RowValidator.prediction,
    "predict/batch": RowValidator.prediction,
}


@pytest.fixture
def steps(api, monkeypatch):
    """The steps taken, in order; ``behind`` and ``refusal`` may be set."""
    engine = api.engine
    found = Steps()
    caught_up, lookup = engine.caught_up, engine.store.log.lookup

    async def head(replica):
        found.append("head")
        return await caught_up(replica) or found.behind

    async def ids(*of):
        found.append("ids")
        return await lookup(*of)

    monkeypatch.setattr(engine, "caught_up", head)
    monkeypatch.setattr(engine.store.log, "lookup", ids)
    for read in {*READ.values()}:
        monkeypatch.setattr(RowValidator, read.__name__, found.noted(read))
    return found


class Steps(list):
    behind = False
    refusal = None

    def noted(self, read):
        def reading(*given):
            self.append("rows")
            if self.refusal is not None:
                raise self.refusal
            return read(*given)

        return reading


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("route", LEARNING)
async def test_rows_to_learn_are_refused_last(api, steps, route, behind):
    """The head is read before the ids are looked up, and the rows once more only where the replica was behind."""
    path = await overlapping(api)
    steps.clear()
    steps.behind = behind
    problem(await api.ask("POST", f"{path}/{route}", json=LEARNING[route]), 422)
    assert ["rows", "head", *(["rows"] if behind else []), "ids"] == steps


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("route", PREDICTING)
async def test_rows_to_predict_have_no_ids(api, steps, route, behind):
    """The first two steps are the same."""
    path = await steady(api)
    steps.clear()
    steps.behind = behind
    problem(await api.ask("POST", f"{path}/{route}", json=PREDICTING[route]), 422)
    assert ["rows", "head", *(["rows"] if behind else [])] == steps


@pytest.mark.parametrize("route", LEARNING)
async def test_rows_without_an_id_are_not_looked_up(api, steps, route):
    """There is nothing to look for."""
    path = await overlapping(api)
    steps.clear()
    body = {name: value for name, value in LEARNING[route].items() if name not in ("id", "ids")}
    problem(await api.ask("POST", f"{path}/{route}", json=body), 422)
    assert ["rows", "head"] == steps


@pytest.mark.parametrize("route", READ)
async def test_rows_that_are_right_take_one_step(api, steps, route):
    """Neither the head nor the ids cost a round trip."""
    path = await overlapping(api)
    steps.clear()
    table = {"columns": ["a", "b", "c", "d"], "data": [[1, 2, 3, 4]]}
    if route.endswith("batch"):
        body = {**table, **({"labels": ["UP"], "ids": ["x"]} if "feedback" in route else {})}
    else:
        body = {"features": row(1), **({"label": "UP", "id": "x", "weight": 1} if route == "feedback" else {})}
    await api.post(f"{path}/{route}", body)
    assert ["rows"] == steps


@pytest.mark.parametrize("route", LEARNING)
async def test_a_seen_id_is_found_after_the_rows_are_refused_for_any_reason(api, steps, route):
    """The rows' own or the model's state; also where they are refused for another reason when they are read again."""
    path = await overlapping(api)
    good = {"features": row(1), "id": "x", "label": "UP", "weight": 1}  # a weight: the quick way reads no such row
    if route == "feedback/batch":
        good = {"columns": [*row(1)], "data": [[*row(1).values()]], "labels": ["UP"], "ids": ["x"]}
    elif route == "features/overlap":
        del good["label"], good["weight"]
    assert not (await api.post(f"{path}/{route}", good))["duplicate"]
    for refusal in (Invalid.of("features", "wrong"), Conflict("not now")):
        for behind in (False, True):
            steps.clear()
            steps.behind, steps.refusal = behind, refusal
            assert (await api.post(f"{path}/{route}", good))["duplicate"]
            assert ["rows", "head", *(["rows"] if behind else []), "ids"] == steps


async def test_a_switch_reads_the_head_first(api, monkeypatch):
    """Which phase the model is in the log alone says; then the ids."""
    path = await overlapping(api)
    engine, found = api.engine, []
    to_head, lookup = engine.reader.to_head, engine.store.log.lookup

    async def head(replica):
        found.append("head")
        return await to_head(replica)

    async def ids(*of):
        found.append("ids")
        return await lookup(*of)

    monkeypatch.setattr(engine.reader, "to_head", head)
    monkeypatch.setattr(engine.store.log, "lookup", ids)
    problem(await api.ask("POST", f"{path}/features/switch", json={**BEGIN, "id": "x"}), 409)
    assert ["head", "ids"] == found
