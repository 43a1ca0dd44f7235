"""What becomes of tracked predictions whose label does not come (labels_due)."""

import asyncio
from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock

import pytest

from service.errors import StoreDown
from service.runtime import labels_due
from service.runtime.labels_due import LabelsDueLearner
from service.store import due_labels
from service.store.due_labels import DueLabels
from service.store.keys import LABELS_DUE, LABELS_MARKED, ModelKeys
from tests.service import waiting
from tests.service.api_fixtures import DFOP, problem

ROW = {"features": {"a": 1, "b": 2}}
SILENCE = {"after_s": 1, "then": {"label": "DOWN"}}


async def until(api, path, due_rows, seconds=12.0):
    """The metrics once so many due rows were learned."""
    for _ in range(int(seconds / 0.1)):
        found = await api.get(f"{path}/metrics")
        if found["due_rows"] >= due_rows:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found['due_rows']} due rows, not {due_rows}")


async def tracked(api, path):
    return (await api.post(f"{path}/predict", {**ROW, "track": True}))["prediction_id"]


async def test_silence_is_learned_as_a_label(api):
    """One entry per look, exactly once; a label before that counts, one after it is a conflict, whatever it says."""
    path = await api.new(DFOP, labels_due={**SILENCE, "after_s": 3600})
    early = await tracked(api, path)
    (pending,) = (await api.get(f"{path}/pending"))["pending"]
    assert timedelta(hours=1) >= datetime.fromisoformat(pending["expires"]) - datetime.now(UTC)
    await api.post(f"{path}/feedback", {"prediction_id": early, "label": "UP"})
    assert 200 == (await api.client.patch(path, json={"labels_due": SILENCE})).status_code
    late = await tracked(api, path)
    many = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": [[1, 2]] * 3, "track": True})
    found = await until(api, path, 4)
    assert (5, 4) == (found["rows"], found["due_rows"])
    assert {"UP": 1, "DOWN": 4} == {name: one["support"] for name, one in found["overall"]["per_class"].items()}
    for one, label in ((late, "UP"), (many["prediction_ids"][0], "DOWN")):
        refused = await api.ask("POST", f"{path}/feedback", json={"prediction_id": one, "label": label})
        assert "it was overdue" in problem(refused, 409, "prediction_id")["detail"]
    assert 0 == (await api.get(f"{path}/pending"))["waiting"]
    await asyncio.sleep(2.5)
    assert 4 == (await api.get(f"{path}/metrics"))["due_rows"]


async def test_what_the_index_has_lost_is_announced_again(api):
    """A failover of its server takes only the announcement: the model's own has the predictions, if any."""
    path, connection = await api.new(DFOP, labels_due=SILENCE), api.engine.store.connection
    own = path.rpartition("/")[2], (await api.get(path))["incarnation"]
    await DueLabels(connection).mark_lost([own])
    assert [None] == await connection.ask(("ZSCORE", LABELS_DUE, " ".join(own)))
    await tracked(api, path)
    await connection.ask(("DEL", LABELS_DUE), ("DEL", LABELS_MARKED))
    await until(api, path, 1)


async def test_a_model_whose_labels_arrive_is_loaded_by_nobody_else(start, monkeypatch):
    """Every process looks when its label would have been due, and finds that none is: the model stays where it was."""
    monkeypatch.setattr(labels_due, "LOOK_S", 0.05)
    one, other = await start(), await start()
    path = await one.new(DFOP, labels_due=SILENCE)
    prediction = await tracked(one, path)
    await one.post(f"{path}/feedback", {"prediction_id": prediction, "label": "UP"})
    member = " ".join((path.rpartition("/")[2], (await one.get(path))["incarnation"]))

    async def score():
        return await _score(one.engine.store.connection, member)

    first = await score()
    await waiting.until(lambda: _differs(score, first))  # looked at while the mark is young: again after after_s
    second = await score()
    assert int(second) >= int(first) + 1000
    await waiting.until(lambda: _differs(score, second))
    assert [False, True] == [at.engine.models.peek(member.split()[0]) is not None for at in (other, one)]
    metrics = await one.get(f"{path}/metrics")
    assert (1, 0) == (metrics["rows"], metrics["due_rows"])


async def test_what_is_left_of_a_model_that_is_gone_is_not_looked_at_for_ever(start, store_url, monkeypatch):
    """The store has lost it in part, and its name belongs to another one: it leaves the index."""
    monkeypatch.setattr(due_labels, "MARK_LIFE_MS", 0)
    api = await start()
    path, store = await api.new(DFOP, labels_due={**SILENCE, "after_s": 3600}), api.engine.store.connection
    keys = ModelKeys(path.rpartition("/")[2], (await api.get(path))["incarnation"])
    await tracked(api, path)
    await store.ask(("UNLINK", keys.meta))
    await waiting.until(lambda: api.engine.models.lost)
    assert 204 == (await api.ask("DELETE", path)).status_code
    await store.ask(("ZADD", keys.labels_due, 1, "p"), ("ZADD", LABELS_DUE, 1, keys.member()))
    assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
    await waiting.until(lambda: _differs(lambda: _score(store, keys.member()), b"1"))
    assert await _score(store, keys.member()) is None


async def _score(connection, member):
    return (await connection.ask(("ZSCORE", LABELS_DUE, member)))[0]


async def _differs(score, before):
    return before != await score()


async def test_what_could_not_be_learned_is_found_again(api, monkeypatch):
    """As after a crash: labels that are due stay where every process finds them until they have been learned."""
    path = await api.new(DFOP, labels_due=SILENCE)
    await tracked(api, path)
    monkeypatch.setattr("service.store.due_labels.MARK_LIFE_MS", 0)
    with monkeypatch.context() as patch:
        failing = AsyncMock(side_effect=StoreDown("away"))
        patch.setattr(labels_due.LabelsDueLearner, "_submit", failing)
        await waiting.until(lambda: failing.called)
    assert 1 == (await until(api, path, 1))["rows"]


async def test_a_label_that_looks_like_another_is_refused(api):
    """Each of its rows would be refused when it is due; other changes are taken."""
    path = await api.new({"algorithm": "rls", "task": "classification", "features": ["a", "b"]})
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": True})
    due = {"labels_due": {"after_s": 1, "then": {"label": "true"}}}
    refused = problem(await api.client.patch(path, json=due), 422)
    assert ["labels_due.then.label"] == [one["field"] for one in refused["errors"]]
    assert 200 == (await api.client.patch(path, json={"on_drift": "reset"})).status_code


async def test_silence_that_is_dropped_teaches_nothing(api):
    """It expires after after_s instead of the service's own time."""
    path = await api.new(DFOP, labels_due={"after_s": 1, "then": "drop"})
    one = await tracked(api, path)
    await asyncio.sleep(1.2)
    problem(await api.ask("POST", f"{path}/feedback", json={"prediction_id": one, "label": "UP"}), 404)
    found = await api.get(f"{path}/pending")
    assert (0, 1) == (found["waiting"], found["expired"])
    metrics = await api.get(f"{path}/metrics")
    assert (0, 0) == (metrics["rows"], metrics["due_rows"])


async def test_numbers_and_changes(api, monkeypatch):
    """A regression learns a number; PATCH turns it on and off for what is tracked from then on, and for what waits."""
    body = {"algorithm": "rls", "task": "regression", "features": ["a", "b"]}
    path = await api.new(body)
    assert "due_rows" not in await api.get(f"{path}/metrics")
    patched = await api.client.patch(path, json={"labels_due": {"after_s": 1, "then": {"label": 0}}})
    assert {"after_s": 1, "then": {"label": 0.0}} == patched.json()["config"]["labels_due"]
    await tracked(api, path)
    assert 1 == (await until(api, path, 1))["rows"]
    with monkeypatch.context() as patch:  # nothing is learned before the change, however long that takes
        patch.setattr(DueLabels, "models", AsyncMock(return_value=[]))
        one = await tracked(api, path)
        await api.client.patch(path, json={"labels_due": None})
    await asyncio.sleep(3.5)
    assert 1 == (await api.get(f"{path}/metrics"))["due_rows"]
    problem(await api.ask("POST", f"{path}/feedback", json={"prediction_id": one, "label": 1}), 404)
    assert 1 == await expired(api, path)


async def expired(api, path):
    """How many predictions have expired, once none is waiting and one has."""
    async with asyncio.timeout(10):
        while (found := await api.get(f"{path}/pending"))["waiting"] or not found["expired"]:
            await asyncio.sleep(0.1)
    return found["expired"]


async def test_a_due_label_that_the_model_refuses(api, caplog):
    """It is logged, the prediction has expired, and the label that comes later is told why nothing was learned."""
    path = await api.new(DFOP, labels=None, labels_due={"after_s": 1, "then": {"label": "0"}})
    await api.post(f"{path}/feedback", {**ROW, "label": 0})
    one = await tracked(api, path)
    while (await api.get(f"{path}/pending"))["pending"]:
        await asyncio.sleep(0.1)
    late = {"prediction_id": one, "label": 1}
    async with asyncio.timeout(10):
        while "same JSON key" not in (await api.ask("POST", f"{path}/feedback", json=late)).text:
            await asyncio.sleep(0.1)
    found = problem(await api.ask("POST", f"{path}/feedback", json=late), 409, "prediction_id")
    assert "the label of labels_due was not learned: a label has the same JSON key as another" in found["detail"]
    metrics = await api.get(f"{path}/metrics")
    assert (1, 0) == (metrics["rows"], metrics["due_rows"])
    assert 1 == await expired(api, path)
    assert any("due label" in record.message and "WARNING" == record.levelname for record in caplog.records)


async def test_a_due_label_of_features_that_a_reset_has_left(start, monkeypatch):
    """Nothing is learned, and the prediction has expired, for every service once."""
    monkeypatch.setattr(labels_due, "LOOK_S", 0.05)
    one, other = await start(), await start()
    path = await one.new(DFOP, features=None, labels=None, labels_due=SILENCE)
    await one.post(f"{path}/feedback", {**ROW, "label": "UP"})
    await other.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": [[1, 2]] * 3, "track": True})
    await one.post(f"{path}/reset")
    async with asyncio.timeout(10):
        while (await expired(other, path)) < 3:
            await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    assert (3, 3) == (await expired(one, path), await expired(other, path))
    metrics = await one.get(f"{path}/metrics")
    assert (0, 0) == (metrics["rows"], metrics["due_rows"])


async def test_a_reset_forgets_and_a_copy_keeps(api):
    """The number of due rows is part of the state."""
    path = await api.new(DFOP, labels_due=SILENCE)
    await tracked(api, path)
    await until(api, path, 1)
    copy = await api.post(f"{path}/copy", {"name": "due-copy"}, 201)
    assert SILENCE == copy["config"]["labels_due"]
    assert 1 == (await api.get("/models/due-copy/metrics"))["due_rows"]
    await api.post(f"{path}/reset")
    assert 0 == (await api.get(f"{path}/metrics"))["due_rows"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (5, "labels_due"),
        ({"then": "drop"}, "labels_due.after_s"),
        *(({"after_s": seconds, "then": "drop"}, "labels_due.after_s") for seconds in (0, 31_536_001, 1.5, True)),
        ({"after_s": 1}, "labels_due.then"),
        *(({"after_s": 1, "then": then}, "labels_due.then") for then in ("forget", {"label": "DOWN", "more": 1})),
        *(({"after_s": 1, "then": {"label": odd}}, "labels_due.then.label") for odd in ("SIDEWAYS", None)),
        ({"after_s": 1, "then": "drop", "sooner": 1}, "labels_due.sooner"),
    ],
)
async def test_what_cannot_be_is_named(api, given, field):
    """At creation and in a change, which leaves the model as it is."""
    body = {**DFOP, "labels": ["UP", "DOWN"], "labels_due": given}
    problem(await api.ask("PUT", "/models/due-bad", json=body), 422, field)
    path = await api.new(DFOP, labels=["UP", "DOWN"])
    problem(await api.ask("PATCH", path, json={"labels_due": given}), 422, field)
    assert "labels_due" not in (await api.get(path))["config"]


async def test_two_services_learn_each_once(start, monkeypatch):
    """Both look at the same time; a model that neither has loaded is found as well."""
    monkeypatch.setattr(labels_due, "LOOK_S", 0.05)
    one, other = await start(), await start()
    path = await one.new(DFOP, labels_due=SILENCE)
    for _ in range(40):
        await tracked(one, path)
    found = await until(other, path, 40)
    await asyncio.sleep(3)
    assert (40, 40) == (found["rows"], (await other.get(f"{path}/metrics"))["rows"])
    assert await one.state(path) == await other.state(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, {"label": "DOWN"}), ({"label": "UP"}, {"label": "DOWN"}), ({"label": "UP"}, "drop")],
)
async def test_a_service_that_is_behind_a_patch_learns_what_it_says(start, monkeypatch, before, after):
    """It reads on before it learns what it has found: the predictions were tracked after the PATCH."""
    monkeypatch.setattr(DueLabels, "models", AsyncMock(return_value=[]))  # only the visit below learns
    one, other = await start(), await start()
    path = await one.new(DFOP, **{} if before is None else {"labels_due": {**SILENCE, "then": before}})
    name, incarnation = path.rpartition("/")[2], (await other.get(path))["incarnation"]
    other.engine.follower._note = lambda *_: None  # notices and the sweep would find the PATCH
    if before is not None:
        await tracked(one, path)
    assert 200 == (await one.client.patch(path, json={"labels_due": {**SILENCE, "then": after}})).status_code
    if after != "drop":
        await tracked(one, path)
    await asyncio.sleep(1.1)
    assert 0 == (await other.engine.models.get(name)).version
    await LabelsDueLearner(other.engine)._visit(name, incarnation)
    support = (await one.get(f"{path}/metrics", params={"consistency": "strong"}))["overall"].get("per_class", {})
    learnt = {label: own["support"] for label, own in support.items() if own["support"]}
    assert learnt == ({} if after == "drop" else {"DOWN": 1 if before is None else 2})
    assert 0 == (await one.get(f"{path}/pending"))["waiting"]


async def test_a_model_that_is_deleted_during_a_visit_needs_none_any_more(start, monkeypatch):
    """Between finding its due labels and reading on: nothing of it is due any more, and nothing is logged."""
    monkeypatch.setattr(DueLabels, "models", AsyncMock(return_value=[]))
    api = await start()
    path = await api.new(DFOP, labels_due=SILENCE)
    name, incarnation = path.rpartition("/")[2], (await api.get(path))["incarnation"]
    await tracked(api, path)
    learner, take = LabelsDueLearner(api.engine), DueLabels.take
    await asyncio.sleep(1.1)

    async def then_deleted(*asked):
        found = await take(*asked)
        await api.ask("DELETE", path)
        return found

    monkeypatch.setattr(DueLabels, "take", then_deleted)
    assert 0 == await learner._visit(name, incarnation)
