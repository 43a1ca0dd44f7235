"""Crashes at the two worst moments: between append and apply, and between apply and answer."""

import numpy as np
import pytest

from core.entry import Outcome, Rows
from service.store.log import codec
from tests.faults.load import by_column, rows
from tests.faults.processes import BROKEN
from tests.faults.rebuild import bare


@pytest.mark.slow_but("rows-appended", "changes-applied", "switch-appended")
@pytest.mark.parametrize("point", ["appended", "applied"])
@pytest.mark.parametrize("story", ["rows", "changes", "switch"])
def test_every_request_survives_a_crash(serve, undisturbed, story, point):
    """A request that crashed the service is carried out once, however it is recognised, and gets the usual answer."""
    service = serve().start()

    def crash_first(send):
        service.restart(FAILPOINT=f"{point}:1")
        with pytest.raises(BROKEN):
            send(service)
        assert -9 == service.died()
        service.start()
        again = send(service)
        assert again.get("duplicate", story == "changes")
        assert again == send(service)
        return again

    tell = {"rows": _rows, "changes": _changes, "switch": _switch}[story]
    undisturbed.create(story)
    expected = [*tell(_asking(story), undisturbed, lambda send: send(undisturbed))]
    service.create(story)
    found = [*tell(_asking(story), service, crash_first)]
    assert [{k: a[k] for k in KEPT if k in a} for a in expected] == [{k: a[k] for k in KEPT if k in a} for a in found]
    assert bare(undisturbed.state(story)) == bare(service.state(story))
    standing = [{**at.get(f"/models/{story}/features"), "incarnation": ""} for at in (undisturbed, service)]
    assert standing[0] == standing[1]
    assert 204 == undisturbed.request("DELETE", f"/models/{story}").status


KEPT = ("prediction", "predictions", "loss", "losses", "rows", "version", "config", "phase", "overlap_rows", "ensemble")


def _asking(name):
    """Makes requests to a model; each can be sent to any service until it works."""

    def ask(method, path, body=None, **headers):
        def send(service):
            answer = service.request(method, f"/models/{name}{path}", body, **headers)
            assert 200 <= answer.status < 300, answer.body
            return answer.json

        return send

    return ask


def _rows(ask, service, learn):
    """Rows with ids, alone and in a batch, a batch and a row with a key, and the label of a tracked prediction."""
    first, *table = rows(21, 27)
    yield learn(ask("POST", "/feedback", first._asdict()))
    yield learn(ask("POST", "/feedback/batch", by_column(table[:10]) | {"ids": [row.id for row in table[:10]]}))
    yield learn(ask("POST", "/feedback/batch", by_column(table[10:18]), idempotency_key="batch"))
    row = {"features": table[18].features, "label": table[18].label}
    yield learn(ask("POST", "/feedback", row, idempotency_key="row"))
    tracked = ask("POST", "/predict", {"features": table[19].features, "track": True})(service)
    yield learn(ask("POST", "/feedback", {"prediction_id": tracked["prediction_id"], "label": table[19].label}))
    assert [] == ask("GET", "/pending")(service)["pending"]


def _feed(ask, service, seed, names):
    """Learn some rows with these features."""
    for row in rows(10, seed, f"{seed}-", columns=6):
        ask("POST", "/feedback", row._asdict() | {"features": {name: row.features[name] for name in names}})(service)


def _changes(ask, service, learn):
    """Settings and a promotion, each with a key, among rows."""
    _feed(ask, service, 61, ["x0", "x1", "x2"])
    settings = {"missing": "mean", "on_drift": "reset", "tags": {"team": "pricing"}}
    yield learn(ask("PATCH", "", settings, idempotency_key="settings"))
    ask("PUT", "/challengers/other", {"algorithm": "dfop", "params": {"forgetting_rate": 0.02}})(service)
    _feed(ask, service, 62, ["x0", "x1", "x2"])
    yield learn(ask("POST", "/challengers/other/promote", {"force": True}, idempotency_key="promotion"))
    _feed(ask, service, 63, ["x0", "x1", "x2"])
    assert ["previous"] == [one["name"] for one in ask("GET", "/challengers")(service)["challengers"]]
    assert ["configure", "promotion"] == [mark["kind"] for mark in ask("GET", "")(service)["metrics"]["marks"]]


def _switch(ask, service, learn):
    """Two changes of features with ids, one of them aborted, and a row of an overlap without a label."""
    _feed(ask, service, 64, ["x0", "x1", "x2"])
    yield learn(ask("POST", "/features/switch", {"action": "begin", "features": ["x2", "x3", "x4"], "id": "begin"}))
    _feed(ask, service, 65, ["x0", "x1", "x2", "x3", "x4"])
    row = {"features": rows(1, 66)[0].features, "id": "overlap"}
    yield learn(ask("POST", "/features/overlap", row))
    yield learn(ask("POST", "/features/switch", {"action": "complete", "id": "complete"}))
    _feed(ask, service, 67, ["x2", "x3", "x4"])
    ask("POST", "/features/switch", {"action": "begin", "features": ["x4", "x5"]})(service)
    _feed(ask, service, 68, ["x2", "x3", "x4", "x5"])
    yield learn(ask("POST", "/features/switch", {"action": "abort", "id": "abort"}))
    _feed(ask, service, 69, ["x2", "x3", "x4"])


def test_a_refusal_does_not_replace_answers_given_before():
    """If part of a refused batch was sent before, only its new rows remember the refusal."""
    batch = Rows("space", None, np.ones((3, 1)), np.ones(3), ids=("old", "new", "older"), skip=(0, 2))
    answers = codec.items_of(batch, Outcome(refusal="no", version=7))
    assert [("new", "no")] == [(identity, codec.decode_answer(blob).refusal) for identity, _, blob in answers]
