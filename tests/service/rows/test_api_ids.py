"""What is sent again is learned once, and answered as it was the first time."""

import threading
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from core.entry import Outcome
from service.errors import Unreplicated
from service.runtime.commit.answerer import Answerer, combined
from service.runtime.stats import Stats
from service.store.log import codec
from service.store.log.appends import SeenId
from service.store.redis.connection import Safety
from tests.service.api_fixtures import CSV, DFOP, JSON, RLS, ROW, columnar, features, forms, problem

LABELS = ["UP", "DOWN", "DOWN", "UP", "UP"]


def repeated(first):
    return {**first, "duplicate": True}


@pytest.mark.parametrize(("first", "again"), [(17, "17"), ("17", 17), (0, "0"), (-3, -3), (2**63 + 5, str(2**63 + 5))])
async def test_a_number_and_its_text_are_one_id(api, first, again):
    """In every place where an id is given."""
    path = await api.learnt()
    learned = await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": first})
    assert repeated(learned) == await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": again})
    assert 4 == (await api.get(path))["rows"]


@pytest.mark.parametrize("route", ["feedback", "feedback/batch", "reset"])
async def test_a_second_idempotency_key_is_refused(api, route):
    """As a second query parameter is: the first one alone would not identify the request."""
    path, body = (
        await api.learnt(),
        {"feedback": {**ROW, "label": "UP"}, "feedback/batch": {**columnar(5), "labels": LABELS}},
    )
    how = {"json": body[route]} if route in body else {}
    refused = await api.ask(
        "POST", f"{path}/{route}", headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")], **how
    )
    problem(refused, 422, "Idempotency-Key")
    assert 3 == (await api.get(path))["rows"]


async def test_ids_are_remembered_for_every_replica(start, api):
    """Another one, which did not commit it, answers the same; so does one that has to read it from the log first."""
    path = await api.learnt()
    other = await start()
    await other.get(path)
    first = await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "shared"})
    late = await start()
    for service in (other, late, api):
        assert repeated(first) == await service.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "shared"})
    assert 4 == (await api.get(path, params={"consistency": "strong"}))["rows"]


@pytest.mark.parametrize("late", [False, True])
async def test_many_first_answers_are_decoded_in_a_thread(api, monkeypatch, late):
    """A batch of ids that comes again does not hold the event loop, whether or not it would still validate."""
    path, decode, threads = await api.learnt(), codec.decode_answer, set()
    body = {**columnar(1000), "labels": ["UP", "DOWN"] * 500, "ids": [f"row-{row}" for row in range(1000)]}
    first = await api.post(f"{path}/feedback/batch", body)

    def decoded(blob):
        threads.add(threading.current_thread())
        return decode(blob)

    monkeypatch.setattr(codec, "decode_answer", decoded)
    again = {**body, "columns": ["a", "gone"]} if late else body
    answer = await api.post(f"{path}/feedback/batch", again)
    assert (first["predictions"], True) == (answer["predictions"], answer["duplicate"])
    assert [] == [found.name for found in threads if found is threading.main_thread()]
    assert threads


@pytest.mark.parametrize("other", ["DOWN", "nonsense", 0, None])
async def test_an_id_with_another_label_is_refused(api, other):
    """Even with a label that the model would refuse; a value that is no label is 422. Nothing is learned."""
    path = await api.learnt()
    await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "x"})
    await api.refuses(f"{path}/feedback", 422 if other is None else 409, json={**ROW, "label": other, "id": "x"})


async def test_a_regression_label_is_the_number(api):
    """2 and 2.0 are the same, 2.0000000000000004 is another."""
    path = await api.learnt(RLS)
    first = await api.post(f"{path}/feedback", {**ROW, "label": 2, "id": "x"})
    assert repeated(first) == await api.post(f"{path}/feedback", {**ROW, "label": 2.0, "id": "x"})
    problem(await api.ask("POST", f"{path}/feedback", json={**ROW, "label": 2.0000000000000004, "id": "x"}), 409)


async def test_a_known_id_is_recognised_after_the_features_have_changed(api):
    """A reset may let another first row fix other features and other classes."""
    path = await api.new(features=None, labels=None)
    single = await api.post(f"{path}/feedback", {**ROW, "label": 0, "id": "x"})
    body = {**columnar(3), "labels": [0, 1, 0], "ids": ["p", "q", "r"]}
    batch = await api.post(f"{path}/feedback/batch", body)
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    tracked = {"prediction_id": told["prediction_id"], "label": 0}
    scored = await api.post(f"{path}/feedback", tracked)
    await api.post(f"{path}/reset")
    await api.post(f"{path}/feedback", {"features": {"other": 1}, "label": "0"})
    problem(await api.ask("POST", f"{path}/feedback", json={"features": {"other": 1}, "label": 0}), 422, "label")
    assert repeated(single) == await api.post(f"{path}/feedback", {**ROW, "label": 0, "id": "x"})
    assert repeated(scored) == await api.post(f"{path}/feedback", tracked)
    again = await api.post(f"{path}/feedback/batch", body)
    assert (True, batch["predictions"]) == (again["duplicate"], again["predictions"])
    assert 1 == (await api.get(path))["rows"]


async def test_an_idempotency_key_stands_for_the_whole_body(api):
    """The same body: the first answer; another one, if only by a space: 409."""
    path = await api.learnt()
    body, key = b'{"features": {"a": 1, "b": 2}, "label": "UP"}', {**JSON, "Idempotency-Key": "k-1"}
    first = await api.post(f"{path}/feedback", content=body, headers=key)
    assert repeated(first) == await api.post(f"{path}/feedback", content=body, headers=key)
    for other in (body + b" ", body.replace(b"UP", b"DOWN"), body.replace(b"1", b"3"), body.replace(b'"UP"', b"null")):
        problem(await api.ask("POST", f"{path}/feedback", content=other, headers=key), 409)
    assert 4 == (await api.get(path))["rows"]


async def test_an_id_counts_where_a_key_stands_beside_it(api):
    """Of a row, a tracked one and a batch: one key beside several ids, several keys beside one id; it has one label."""
    path = await api.learnt()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    rows = [
        {**ROW, "label": "UP", "id": "x"},
        {**ROW, "label": "UP", "id": "y"},
        {"prediction_id": told["prediction_id"], "label": "UP"},
    ]
    keys = [{"Idempotency-Key": key} for key in ("k-1", "k-2")]
    answers = [[await api.post(f"{path}/feedback", row, headers=key) for key in keys] for row in rows]
    assert [repeated(first) for first, _ in answers] == [again for _, again in answers]
    body = {**columnar(2), "labels": ["UP", "DOWN"], "ids": ["a", "b"]}
    batches = [await api.post(f"{path}/feedback/batch", body, headers=key) for key in keys]
    assert [False, True] == [answer["duplicate"] for answer in batches]
    bare = await api.post(f"{path}/feedback", {**ROW, "label": "UP"}, headers=keys[0])
    assert not bare["duplicate"]
    assert 9 == (await api.get(path))["rows"]
    for row in rows:
        problem(await api.ask("POST", f"{path}/feedback", json={**row, "label": "DOWN"}, headers=keys[0]), 409)


async def test_ids_keys_and_predictions_are_names_of_their_own(api):
    """The same text as an id, as a key and as a prediction id is not the same row."""
    path = await api.learnt()
    told = await api.post(f"{path}/predict", {**ROW, "track": True})
    name = told["prediction_id"]
    answers = [
        await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": name}),
        await api.post(f"{path}/feedback", {**ROW, "label": "UP"}, headers={"Idempotency-Key": name}),
        await api.post(f"{path}/feedback", {"prediction_id": name, "label": "UP"}),
    ]
    assert [False] * 3 == [answer["duplicate"] for answer in answers]
    assert 6 == (await api.get(path))["rows"]


@pytest.mark.parametrize("kind", [DFOP, RLS])
async def test_a_batch_with_ids_sent_again_is_learned_once(api, kind):
    """All of it known: the first answers, duplicate true, nothing learned; numbers and their texts are one id."""
    path = await api.learnt(kind)
    labels = LABELS if kind is DFOP else [1, 2, 3, 4, 5]
    body = {**columnar(5), "labels": labels, "ids": [0, "1", 2, "b3", -4]}
    first = await api.post(f"{path}/feedback/batch", body)
    before = await api.standing(path)
    again = await api.post(f"{path}/feedback/batch", {**body, "ids": ["0", 1, "2", "b3", "-4"]})
    assert {**first, "duplicate": True, "duplicates": 5} == again
    assert before == await api.standing(path)


async def test_a_batch_that_is_known_in_part_learns_the_rest(api):
    """Known rows are answered as they were, the others are learned in their order."""
    path, plain = await api.learnt(), await api.learnt()
    table = columnar(5)
    ids = [f"b{row}" for row in range(5)]
    for row in (3, 1):
        one = {"features": features(row), "label": LABELS[row], "id": ids[row]}
        known = await api.post(f"{path}/feedback", one)
        await api.post(f"{plain}/feedback", {name: value for name, value in one.items() if name != "id"})
    answer = await api.post(f"{path}/feedback/batch", {**table, "labels": LABELS, "ids": ids})
    assert (False, 2, 8) == (answer["duplicate"], answer["duplicates"], answer["rows"])
    assert (known["prediction"], known["loss"]) == (answer["predictions"][1], answer["losses"][1])
    rest = [row for row in range(5) if row not in (1, 3)]
    expected = await api.post(
        f"{plain}/feedback/batch",
        {"columns": ["a", "b"], "data": [table["data"][row] for row in rest], "labels": [LABELS[row] for row in rest]},
    )
    assert expected["predictions"] == [answer["predictions"][row] for row in rest]
    assert 5 == answer["metrics"]["rows"]
    assert 1 - sum(answer["losses"]) / 5 == pytest.approx(answer["metrics"]["accuracy"])
    weights = [(await api.get(f"{p}/weights"))["weights"] for p in (path, plain)]
    assert weights[0] == weights[1]


async def test_an_id_twice_within_a_batch_is_learned_once(api):
    """The second row is the first one sent again, and answered so."""
    path = await api.learnt()
    body = {**columnar(3), "labels": ["UP", "DOWN", "UP"], "ids": [1, "y", "1"]}
    answer = await api.post(f"{path}/feedback/batch", body)
    assert (5, 1, False) == (answer["rows"], answer["duplicates"], answer["duplicate"])
    assert answer["predictions"][0] == answer["predictions"][2]
    assert answer["losses"][0] == answer["losses"][2]


@pytest.mark.parametrize("ids", [["x", "y", "x"], ["seen", "y", "z"], ["y", "z", "seen"]])
async def test_a_batch_that_gives_an_id_another_label_is_refused_whole(api, ids):
    """Against an earlier request or within itself: 409 names the id, and no row of it is learned."""
    path = await api.learnt()
    await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "seen"})
    body = {**columnar(3), "labels": ["DOWN", "UP", "UP"], "ids": ids}
    if ids[-1] == "seen":
        body["labels"][-1] = "DOWN"
    at = ids.index("seen") if "seen" in ids else 2
    found = await api.refuses(f"{path}/feedback/batch", 409, f"ids[{at}]", json=body)
    assert found["detail"].startswith(f"the id of row {at + 1} was sent before")
    fresh = {**ROW, "label": "UP", "id": "y"}
    assert not (await api.post(f"{path}/feedback", fresh))["duplicate"]


async def test_a_known_batch_is_recognised_where_it_would_not_validate(api):
    """JSON, CSV: wrong columns, the first answers; a new id among them, and it is refused."""
    path = await api.learnt()
    body = {**columnar(2), "labels": ["UP", "DOWN"], "ids": ["p", "q"]}
    first = await api.post(f"{path}/feedback/batch", body)
    odd = {**body, "columns": ["a", "zz"]}
    assert first["predictions"] == (await api.post(f"{path}/feedback/batch", odd))["predictions"]
    table = "id,zz,y\np,1,UP\nq,2,DOWN\n"
    again = await api.post(f"{path}/feedback/batch", content=table, headers=CSV, params={"label": "y", "id": "id"})
    assert (True, first["predictions"]) == (again["duplicate"], again["predictions"])
    for change in ({"ids": ["p", "new"]}, {"labels": ["UP", 10**400]}, {"labels": ["UP", None]}):
        problem(await api.ask("POST", f"{path}/feedback/batch", json={**odd, **change}), 422)
    problem(await api.ask("POST", f"{path}/feedback/batch", json={**odd, "labels": ["UP", "UP"]}), 409)


async def test_a_batch_with_numbers_for_labels_is_recognised_as_csv(api):
    """The text 1 of a cell is the label 1 of the first request."""
    path = await api.new(labels=None)
    body = {**columnar(2), "labels": [0, 1], "ids": ["p", 7]}
    await api.post(f"{path}/feedback/batch", body)
    for table in ("id,a,b,y\np,1,2,0\n7,1,2,1.0\n", "id,zz,y\np,1,0\n7,1,1\n"):
        answer = await api.post(f"{path}/feedback/batch", content=table, headers=CSV, params={"label": "y", "id": "id"})
        assert answer["duplicate"]


@pytest.mark.parametrize("kind", ["json", "csv", "npy"])
async def test_an_idempotency_key_covers_a_batch(api, kind):
    """The same body gets the first answer whole, metrics included; another one is 409."""
    path, key = await api.new(labels=[0, 1]), {"Idempotency-Key": "once"}
    how = forms({**columnar(2), "labels": [0, 1]})[kind]
    how["headers"] = {**how.get("headers", {}), **key}
    first = await api.post(f"{path}/feedback/batch", **how)
    assert {**first, "duplicate": True, "duplicates": 2} == await api.post(f"{path}/feedback/batch", **how)
    other = {**columnar(2), "labels": [1, 1]}
    problem(await api.ask("POST", f"{path}/feedback/batch", json=other, headers=key), 409)
    assert 2 == (await api.get(path))["rows"]


async def test_what_replicas_lack_is_not_acknowledged_by_a_repeat_either(start, api):
    """Not a label that has been learned, not a row that would be refused now, not a change that is made already."""
    strict = await start(min_replicas=1, store_timeout_s=1.0)
    path = await api.learnt()
    tracked = (await api.post(f"{path}/predict", {**ROW, "track": True}))["prediction_id"]
    requests = [
        ("POST", f"{path}/feedback", {"prediction_id": tracked, "label": "UP"}),
        ("POST", f"{path}/feedback", {**ROW, "label": "UP", "id": "once"}),
        ("PATCH", path, {"tags": {"at": "one"}}),
    ]
    for method, where, body in requests:
        for _ in range(2):
            answer = await strict.ask(method, where, json=body)
            assert "/problems/unreplicated" == problem(answer, 503)["type"]
        assert 200 == (await api.ask(method, where, json=body)).status_code
    begun = {"action": "begin", "features": [{"name": "other"}]}
    await api.post(f"{path}/features/switch", begun)
    await api.post(f"{path}/features/switch", {"action": "complete", "force": True})
    refused = await strict.ask("POST", f"{path}/feedback", json={**ROW, "label": "UP", "id": "once"})
    assert "/problems/unreplicated" == problem(refused, 503)["type"]
    assert (await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "once"}))["duplicate"]


@pytest.mark.parametrize("now", [None, SeenId(2, 0, 0, "d", None), SeenId(1, 0, 0, "other", None)])
async def test_an_id_that_a_failover_has_just_lost_is_not_acknowledged(now):
    """Lost between the lookup that found it and the one that waits for the replicas, or learned again since."""
    log, stats = AsyncMock(), Stats()
    replica, found = SimpleNamespace(name="m", incarnation="i"), [("i:a", SeenId(1, 0, 0, "d", None))]
    answerer = Answerer(log, AsyncMock(), stats, safety=Safety(1, 10))
    log.lookup.return_value = [found[0][1]]
    assert found == await answerer.confirmed(replica, found)
    log.lookup.return_value = [now]
    with pytest.raises(Unreplicated):
        await answerer.confirmed(replica, found)
    assert 1 == stats.unreplicated


def test_a_batch_is_learned_if_each_of_its_rows_is():
    """Whether the answers come together for the first time or once more: a row that was only scored still is."""
    scored = Outcome(5, ["UP"], [0.0], False, [0.75], version=5)
    learned = Outcome(6, ["DOWN"], [1.0], True, [0.5], version=6)
    first, again = combined(2, learned, [(0, scored)]), combined(2, None, [(0, scored), (1, learned)])
    assert (["UP", "DOWN"], [0.0, 1.0]) == (first.answer.predictions, first.answer.losses)
    assert not first.answer.learned
    assert first.answer == again.answer
    assert (1, 2) == (first.duplicates, again.duplicates)


async def test_ids_are_capped_and_say_so(start):
    """Past the cap 503 that names it and the wait; known ids are recognised, and rows without an id learned."""
    small = await start(ids_max=3)
    path = await small.new()
    firsts = [await small.post(f"{path}/feedback", {**ROW, "label": "UP", "id": f"i{n}"}) for n in range(3)]
    before = await small.standing(path)
    answer = await small.ask("POST", f"{path}/feedback", json={**ROW, "label": "UP", "id": "one too many"})
    problem(answer, 503)
    assert "3600" == answer.headers["retry-after"]
    detail = "3 ids; ONEPASS_IDS_MAX allows 3, and this request's do not fit: the oldest expires in 86"
    assert detail in answer.json()["detail"]
    tracked = await small.ask("POST", f"{path}/predict", json={**ROW, "track": True})
    assert detail in problem(tracked, 503)["detail"]
    assert "3600" == tracked.headers["retry-after"]
    many = {**columnar(2), "labels": ["UP", "UP"], "ids": ["i0", "another"]}
    problem(await small.ask("POST", f"{path}/feedback/batch", json=many), 503)
    assert before == await small.standing(path)
    again = await small.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "i1"})
    assert repeated(firsts[1]) == again
    await small.post(f"{path}/feedback", {**ROW, "label": "UP"})
