"""Answers name the classes that a request has added to a model without declared labels."""

from core.entry import Outcome
from service.store.log import codec
from tests.service.api_fixtures import DFOP, problem

OPEN = {"algorithm": "dfop", "task": "classification"}
ROW = {"a": 0.25, "b": -0.5}


async def told(api, path, label, **more):
    """The new labels that the answer to one row names; None where it has no such field."""
    answer = await api.post(f"{path}/feedback", {"features": ROW, "label": label, **more})
    return answer.get("new_labels")


async def test_a_row_names_the_class_that_it_adds(api):
    """The first row of each class, whatever its type, and again where it is retried; declared ones are no news."""
    path, declared = await api.new(OPEN), await api.new(DFOP)
    assert [["UP"], None, ["DWON"], None] == [await told(api, path, label) for label in ("UP", "UP", "DWON", "DWON")]
    assert [[3], None] == [await told(api, path, label) for label in (3, 3)]
    assert [["new"], ["new"], None] == [await told(api, path, "new", id=name) for name in ("x", "x", "y")]
    assert [None, None] == [await told(api, declared, label) for label in ("UP", "DOWN")]


async def test_labels_that_answers_could_not_tell_apart(api):
    """The refusal says which label it looks like, and of which type that is."""
    path = await api.new(OPEN)
    await told(api, path, True)
    answer = await api.ask("POST", f"{path}/feedback", json={"features": ROW, "label": "true"})
    said = problem(answer, 422, "label")["errors"][0]
    assert "looks in answers like the boolean true, another label of the model" in said["problem"]
    assert [True] == said["allowed"]


async def test_a_batch_names_them_in_order(api):
    """Also where some of its rows were learned before, and where all were."""
    path = await api.new(OPEN)
    rows = {"columns": ["a", "b"], "data": [[1, 2]] * 4, "labels": ["x", "y", "x", "z"], "ids": ["1", "2", "3", "4"]}
    first = {name: rows[name][1:3] if name != "columns" else rows[name] for name in rows}
    assert ["y", "x"] == (await api.post(f"{path}/feedback/batch", first))["new_labels"]
    for _ in range(2):
        assert ["y", "x", "z"] == (await api.post(f"{path}/feedback/batch", rows))["new_labels"]
    later = {**rows, "ids": ["5", "6", "7", "8"]}
    assert "new_labels" not in await api.post(f"{path}/feedback/batch", later)


async def test_with_challengers_and_tracked_rows(api):
    """They change nothing of it."""
    path = await api.new(OPEN)
    assert ["UP"] == await told(api, path, "UP")
    assert 201 == (await api.ask("PUT", f"{path}/challengers/other", json={"algorithm": "rls"})).status_code
    assert ["DOWN"] == await told(api, path, "DOWN")
    tracked = (await api.post(f"{path}/predict", {"features": ROW, "track": True}))["prediction_id"]
    answer = await api.post(f"{path}/feedback", {"prediction_id": tracked, "label": "LEFT"})
    assert ["LEFT"] == answer["new_labels"]


async def test_answers_of_before_are_read():
    """A stored answer that lacks the last field has its default."""
    whole = codec.msgspec.msgpack.decode(codec.encode_answer(Outcome(4, ["UP"], [0.0], version=3)))
    older = codec.decode_answer(codec.msgspec.msgpack.encode([whole[0], whole[1][:-1]]))
    assert (3, b"") == (older.version, older.feature_state)
