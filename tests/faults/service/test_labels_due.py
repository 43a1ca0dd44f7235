"""Labels that never come, while services and store are killed: each row is learned once, with the configured label."""

import time

import pytest

from tests.faults.processes import eventually

DUE = {"task": "classification", "labels": ["silent", "loud"], "features": ["a"]}
MANY = 60


def track(service, name, count):
    """Track ``count`` predictions and return their ids."""
    body = {"columns": ["a"], "data": [[at] for at in range(count)], "track": True}
    answer = service.request("POST", f"/models/{name}/predict/batch", body)
    assert 200 == answer.status, answer.problem
    return answer.json["prediction_ids"]


def test_each_is_learned_once_by_two_services_and_through_kills(serve, store):
    """One service dies while labels become due, then the other while the first restarts; some labels come in time."""
    first, second = (serve(REDIS_URL=store.url, DURABILITY="everysec").start() for _ in range(2))
    first.create("m", **DUE, labels_due={"after_s": 3600, "then": {"label": "silent"}})
    for one in track(first, "m", 5):
        answer = second.request("POST", "/models/m/feedback", {"prediction_id": one, "label": "loud"})
        assert 200 == answer.status
    patched = first.request("PATCH", "/models/m", {"labels_due": {"after_s": 2, "then": {"label": "silent"}}})
    assert 200 == patched.status
    second.get("/models/m?consistency=strong")
    ids = [one for at in range(5) for one in track((first, second)[at % 2], "m", (MANY - 5) // 5)]
    time.sleep(1.8)
    first.kill()
    time.sleep(0.5)
    first.start()
    second.kill()
    assert MANY - 5 == eventually(MANY - 5, lambda: first.get("/models/m/metrics")["due_rows"])
    second.start()
    time.sleep(3)
    for service in (first, second):
        found = service.get("/models/m/metrics")
        assert (MANY, MANY - 5) == (found["rows"], found["due_rows"])
        assert {"silent": MANY - 5, "loud": 5} == {
            name: one["support"] for name, one in found["overall"]["per_class"].items()
        }
    assert first.state() == second.state()
    assert [409] * 3 == [
        first.request("POST", "/models/m/feedback", {"prediction_id": one, "label": "loud"}).status for one in ids[-3:]
    ]


@pytest.mark.slow
def test_labels_that_became_due_while_no_service_ran(serve, store):
    """A service that starts later finds them without any request for the model; the store was killed as well."""
    service = serve(REDIS_URL=store.url, DURABILITY="always").start()
    service.create("m", **DUE, labels_due={"after_s": 1, "then": {"label": "silent"}})
    track(service, "m", 10)
    service.kill()
    store.kill()
    time.sleep(1.5)
    store.start()
    service.start()
    assert 10 == eventually(10, lambda: int(store.client().hget("onepass:{m}:meta", "version") or 0) and 10)
    assert 10 == eventually(10, lambda: service.get("/models/m/metrics")["due_rows"])
