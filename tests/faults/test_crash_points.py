"""Crashes at the two worst moments: between append and apply, and between apply and answer."""

import http.client

import numpy as np
import pytest

from core.entry import Outcome, Rows
from service.store.log import codec
from tests.faults.load import Client, rows
from tests.faults.rebuild import bare, judge, learnt, whole_log

pytestmark = pytest.mark.faults
TABLE = rows(24, 5)


@pytest.mark.slow_but("1-applied", "13-appended")
@pytest.mark.parametrize("point", ["appended", "applied"])
@pytest.mark.parametrize("number", [1, 13])
def test_the_retry_of_a_row_that_crashed_the_service_is_told_what_it_was(serve, clean, point, number):
    """The row at which the service died is learned once, and its retry answered with what it would have been told."""
    service = serve().start(FAILPOINT=f"{point}:{number}")
    service.create()
    client, answers = Client(service), []
    for row in TABLE:
        try:
            answers.append(client.learn(row))
        except (OSError, http.client.HTTPException):
            assert (-9, number - 1) == (service.died(), len(answers))
            service.start()
            answers.append(client.learn(row))
            assert answers[-1]["duplicate"]
    assert [number - 1] == [at for at, answer in enumerate(answers) if answer["duplicate"]]
    assert clean(TABLE) == ([learnt(answer) for answer in answers], bare(service.state()))
    judge(service, whole_log(service.store_url), TABLE)


@pytest.mark.slow
def test_a_crash_at_every_row(serve, clean):
    """A service that dies before each of its answers learns all rows once, and knows the answers it never gave.

    They are found again by replay, written to the store before the snapshot that ends the replay, and read from there.
    """
    service, answers = serve(), []
    for number, row in enumerate(TABLE[:4]):
        service.start(FAILPOINT=f"{('appended', 'applied')[number % 2]}:1")
        service.create()
        with pytest.raises((OSError, http.client.HTTPException)):
            Client(service).send(row)
        assert -9 == service.died()
    service.start()
    assert 201 == service.request("POST", "/models/m/snapshots").status
    service.kill()
    service.start()
    client = Client(service)
    for row in TABLE[:4]:
        answers.append(client.learn(row))
    assert {True} == {answer["duplicate"] for answer in answers}
    answers += [client.learn(row) for row in TABLE[4:]]
    assert clean(TABLE) == ([learnt(answer) for answer in answers], bare(service.state()))


@pytest.mark.parametrize("point", ["appended", "applied"])
def test_batches_keys_and_tracked_predictions_survive_a_crash(serve, undisturbed, point):
    """A request that crashed the service is learned once, whatever it is recognised by."""
    service = serve()

    def crash_first(send):
        with pytest.raises((OSError, http.client.HTTPException)):
            send(service)
        assert -9 == service.died()
        service.start(FAILPOINT={"appended": "appended:2", "applied": "applied:1"}[point])  # the retry appends nothing
        again = send(service)
        assert again["duplicate"]
        return again

    undisturbed.create("story")
    expected = _story(undisturbed, "story", lambda send: send(undisturbed))
    service.start(FAILPOINT=f"{point}:1").create("story")
    found = _story(service, "story", crash_first)
    kept = ("prediction", "predictions", "loss", "losses", "rows", "version")
    assert [{k: a[k] for k in kept if k in a} for a in expected] == [{k: a[k] for k in kept if k in a} for a in found]
    assert bare(undisturbed.state("story")) == bare(service.state("story"))
    assert 204 == undisturbed.request("DELETE", "/models/story").status


def _story(service, name, learn):
    """A batch with ids, one under a key, a row under a key, and the label of a tracked prediction."""
    table = rows(20, 27)
    names = [*table[0].features]

    def post(what, body, **headers):
        def send(service):
            answer = service.request("POST", f"/models/{name}/{what}", body, **headers)
            assert 200 == answer.status, answer.body
            return answer.json

        return send

    def columns(part):
        data = [[row.features[feature] for feature in names] for row in part]
        return {"columns": names, "data": data, "labels": [row.label for row in part]}

    ids = {"ids": [row.id for row in table[:10]]}
    answers = [learn(post("feedback/batch", {**columns(table[:10]), **ids}))]
    answers.append(learn(post("feedback/batch", columns(table[10:18]), idempotency_key="batch")))
    row = {"features": table[18].features, "label": table[18].label}
    answers.append(learn(post("feedback", row, idempotency_key="row")))
    tracked = post("predict", {"features": table[19].features, "track": True})(service)
    label = {"prediction_id": tracked["prediction_id"], "label": table[19].label}
    answers.append(learn(post("feedback", label)))
    assert [] == service.get(f"/models/{name}/pending")["pending"]
    return answers


def test_a_refusal_does_not_speak_for_rows_that_were_answered_before():
    """Where part of a refused batch had been sent before, only the new rows remember the refusal."""
    batch = Rows("space", None, np.ones((3, 1)), np.ones(3), ids=("old", "new", "older"), skip=(0, 2))
    answers = codec.records(batch, Outcome(refusal="no", version=7))
    assert [("new", "no")] == [(identity, codec.decode_answer(blob).refusal) for identity, blob in answers]
