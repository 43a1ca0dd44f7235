"""``onepass demo``: its streams drift where they should, and what it promises happens."""

import itertools
import json
import socket
from collections.abc import Callable
from random import Random
from typing import Any

import httpx
import pytest

from service.client.demo import command, feeding, streams
from service.client.demo.feeding import DemoModel, Fed, demo_models
from service.client.failures import Failed
from service.client.session import Session
from tests.service.client.fixtures import Shell

Stream = Callable[[Random, int], streams.Row]


def rows(stream: Stream, first: int, count: int = 400, seed: int = 0) -> list[streams.Row]:
    return [*itertools.islice(streams.rows(stream, seed), first, first + count)]


@pytest.mark.parametrize(
    ("stream", "label", "rule", "until_row"),
    [
        (streams.sea, "below", lambda row: row["x1"] + row["x2"] <= streams.SEA_THETAS[0], streams.SEA_STAGE_ROWS),
        (streams.hyperplane, "front", lambda row: row["x1"] > 0, streams.JUMP_ROWS),
        (streams.payments, "fraud", lambda row: row["amount"] > 100, streams.PATTERN_ROWS),
        (streams.parcels, "late", lambda row: row["carrier"] == "swift", streams.ROLES_ROWS),
    ],
)
def test_streams_are_seeded_and_drift(stream, label: str, rule, until_row: int) -> None:
    """What tells most rows of a label at first tells few after the change; another seed gives other rows."""
    for first, least, most in ((0, 0.6, 1.0), (until_row, 0.0, 0.45)):
        found = [rule(row.features) for row in rows(stream, first, seed=1) if row.label == label]
        assert least <= sum(found) / len(found) <= most
    assert rows(stream, 0, seed=3) == rows(stream, 0, seed=3) != rows(stream, 0, seed=4)


class Asked(Session):
    """A session that keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__("http://nobody.invalid")
        self.calls: list[tuple[str, Any]] = []

    def ask(self, method, path, **request):
        self.calls.append((path.rsplit("/", 1)[1], request.get("json", {})))
        return {"prediction_id": f"p{len(self.calls)}", "marks": []}


def model(name: str, stream: Stream, late: bool = False) -> DemoModel:
    return DemoModel(name, {}, streams.rows(stream, 0), 1, "", "", (), late=late)


@pytest.mark.parametrize("step", [7, 1000])
def test_sensors_are_replaced_at_their_rows(step: int) -> None:
    """One set, both, the next one, each in requests of its own, and the steps of the change between the same rows."""
    session = Asked()
    fed = Fed(session, model("m", streams.sensors), speed=1.0)
    for _ in range(-(-1000 // step)):
        fed._learn(itertools.islice(fed.model.stream, step))
    learned, steps, sets = 0, [], {}
    for path, body in session.calls:
        if path == "switch":
            steps.append((learned, body))
        else:
            learned += len(body)
            sets |= dict.fromkeys(tuple(row["features"]) for row in body)
    first, second = streams.sensor_names(0), streams.sensor_names(1)
    assert [(*first,), (*first, *second), (*second,)] == [*sets]
    begun = (streams.BEGIN_ROW, {"action": "begin", "features": second})
    assert [begun, (streams.BEGIN_ROW + streams.OVERLAP_ROWS, {"action": "complete"})] == steps


def test_labels_come_late_and_some_never() -> None:
    """Each after DELAY_ROWS further predictions, by the id of its own; one of LOST_EVERY is lost."""
    session = Asked()
    Fed(session, model("m", streams.parcels, late=True), 1.0)._label_later(rows(streams.parcels, 0, 200))
    labels = [body["prediction_id"] for path, body in session.calls if path == "feedback"]
    predicted = [f"p{at}" for at, (path, _) in enumerate(session.calls, 1) if path == "predict"]
    kept = [name for number, name in enumerate(predicted, 1) if number % feeding.LOST_EVERY]
    assert kept[: len(labels)] == labels
    assert 195 - feeding.DELAY_ROWS == len(labels)


def test_what_is_due_comes_evenly() -> None:
    """By the time that has passed; after a pause no more than the rows of five seconds."""
    fed = Fed(Asked(), model("m", streams.sea), speed=10.0)
    for now_s, sent in ((0.0, 1), (0.05, 1), (1.0, 11), (100.0, 62)):
        fed.step(now_s, look=False)
        assert sent == fed._sent


def test_the_port_of_the_page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONEPASS_PORT; where it is taken, one that is free."""
    ports = []

    def failing(port: int) -> None:
        ports.append(port)
        raise Failed("not started")

    monkeypatch.setattr(command.private, "session", failing)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setenv("ONEPASS_PORT", str(taken))
        assert 1 == shell("demo")[0]
    assert 1 == shell("demo")[0]
    assert [False, True] == [port == taken for port in ports]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_happens(url: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fed fast, a running service has drifts, switches and a promotion; at the end the demo's models are gone."""
    told: list[str] = []
    wanted = ("drift found", "switch begun", "switch completed", "challenger auto promoted")
    step = Fed.step

    def stepped(self: Fed, now_s: float, look: bool) -> list[str]:
        told.extend(lines := step(self, now_s, look=True))
        if all(any(want in line for line in told) for want in wanted):
            raise command.Interrupted(2)
        return lines

    monkeypatch.setattr(Fed, "step", stepped)
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    httpx.put(f"{url}/models/own", json={"task": "regression"}, timeout=60).raise_for_status()
    status, said, complained = shell("demo", "--url", url, "--speed", "100", "--for", "200")
    assert (0, "") == (status, complained), complained
    assert all(any(want in line for line in told) for want in wanted), told
    drifts = [one.at_rows[0] for one in demo_models() if "drift {}" in one.look and not one.late]
    assert drifts
    assert all(any(f"drift found at row {row:,}:" in line for line in told) for row in drifts), told
    names = [one["name"] for one in httpx.get(f"{url}/models?limit=1000").json()["models"]]
    assert "own" in names
    assert [] == [name for name in names if name.startswith("demo-")]
    assert all(one.name in said for one in demo_models())
    assert f"{url}/" in said


def test_a_name_that_is_taken_is_left_alone(url: str, shell: Shell) -> None:
    """The demo says so and ends, and deletes nothing that it has not made."""
    httpx.put(f"{url}/models/demo-fraud", json={"task": "regression"}).raise_for_status()
    status, _, complained = shell("demo", "--url", url, "--for", "1")
    assert (1, True) == (status, f"onepass delete demo-fraud --yes --url {url}" in complained)
    assert 204 == httpx.delete(f"{url}/models/demo-fraud").status_code


def test_models_that_cannot_be_made_or_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """A refusal ends the demo, which deletes what it has made; where the service is gone, the first model tells, and
    those that are left are named.
    """
    deleted = []

    class Third(Asked):
        def found(self, name):
            return None

        def ask(self, method, path, **request):
            if path == "models/demo-sensors":
                raise Failed("refused")

        def request(self, method, path, **request):
            deleted.append(path)
            raise Failed("gone")

    with pytest.raises(Failed, match="refused"), command._models(Third(), demo_models(), delete=True):
        pass
    assert ["models/demo-sea"] == deleted
    assert "not deleted: demo-sea, demo-hyperplane\n" == capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_what_happens_is_told(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models take turns; each event is a line, or with --json an object."""
    names, turns = [one.name for one in demo_models()], []

    def step(self: Fed, now_s: float, look: bool) -> list[str]:
        if len(turns) == len(names):
            raise command.Interrupted(2)
        turns.append(look)
        return [f"drift found by {self.model.name}"]

    monkeypatch.setattr(Fed, "step", step)
    with pytest.raises(command.Interrupted):
        command._feed([Fed(Asked(), one, 1.0) for one in demo_models()], 1000.0, float("inf"), as_json)
    told = capsys.readouterr().out.splitlines()
    if as_json:
        events = [json.loads(line) for line in told]
        assert [(name, f"drift found by {name}") for name in names] == [(one["model"], one["event"]) for one in events]
        assert all({"seconds", "model", "event"} == one.keys() for one in events)
    else:
        assert [["0:00", name, *f"drift found by {name}".split()] for name in names] == [line.split() for line in told]
