"""``onepass demo``: its streams drift where they should, and what it promises happens."""

import itertools
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from service.client.demo import command, feeding, streams
from service.client.demo.feeding import DemoModel, Fed, demo_models
from service.client.failures import Failed
from service.client.session import Session, default_port
from tests.service.client.fixtures import Shell


def rows(stream: Iterator[streams.Row], first: int, count: int = 400) -> list[streams.Row]:
    return [*itertools.islice(stream, first, first + count)]


@pytest.mark.parametrize("stream", [streams.sea, streams.hyperplane, streams.payments, streams.parcels])
def test_streams_are_seeded(stream) -> None:
    """The same seed gives the same rows, another one others."""
    assert rows(stream(3), 0) == rows(stream(3), 0)
    assert rows(stream(3), 0) != rows(stream(4), 0)


def test_sea_jumps() -> None:
    """Within a stage the labels are those of its theta, but for the noise; the next stage has another one."""
    for stage, theta in enumerate(streams.SEA_THETAS):
        stretch = rows(streams.sea(1), stage * streams.SEA_STAGE_ROWS)
        right = sum((row.features["x1"] + row.features["x2"] <= theta) == (row.label == "below") for row in stretch)
        assert right / len(stretch) > 0.93


def test_the_hyperplane_turns_and_jumps() -> None:
    """The first column decides at first; after the jump it decides no longer."""

    def agrees(stretch: list[streams.Row]) -> float:
        return sum((row.features["x1"] > 0) == (row.label == "front") for row in stretch) / len(stretch)

    before = agrees(rows(streams.hyperplane(0), 0, 200))
    after = agrees(rows(streams.hyperplane(0), streams.JUMP_ROWS, 200))
    assert before > 0.85
    assert after < 0.4


def test_frauds_change_their_pattern() -> None:
    """Large sums at first, then small ones from abroad; they stay rare."""
    early, late = rows(streams.payments(0), 0, 1500), rows(streams.payments(0), streams.PATTERN_ROWS, 1500)
    frauds = [[row.features for row in stretch if row.label == "fraud"] for stretch in (early, late)]
    amounts = [sorted(one["amount"] for one in found)[len(found) // 2] for found in frauds]
    assert amounts[0] > 100
    assert amounts[1] < 20
    assert all(0.02 < len(found) / 1500 < 0.07 for found in frauds)


def test_the_slow_carrier_becomes_another_one() -> None:
    """Of the parcels of a carrier far more are late in one stretch than in the next."""

    def late(first: int) -> float:
        own = [row for row in rows(streams.parcels(0), first, streams.ROLES_ROWS) if row.features["carrier"] == "swift"]
        return sum(row.label == "late" for row in own) / len(own)

    assert late(0) - late(streams.ROLES_ROWS) > 0.3


def test_sensors_are_replaced_at_their_rows() -> None:
    """One set, both, the next one, with a step between; the demand goes on as it was."""
    found = [*itertools.islice(streams.sensors(0), streams.BEGIN_ROW + streams.OVERLAP_ROWS + 3)]
    steps = {at: item for at, item in enumerate(found) if isinstance(item, streams.Switch)}
    assert ["begin", "complete"] == [step.action for step in steps.values()]
    assert [streams.BEGIN_ROW, streams.BEGIN_ROW + streams.OVERLAP_ROWS + 1] == [*steps]
    first, second = streams.sensor_names(0), streams.sensor_names(1)
    assert second == steps[streams.BEGIN_ROW].features
    assert not {*first} & {*second}
    before, during, after = (found[at].features for at in (0, streams.BEGIN_ROW + 1, -1))
    assert ([*first], [*first, *second], [*second]) == ([*before], [*during], [*after])


class Asked(Session):
    """A session that keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__("http://nobody.invalid")
        self.calls: list[tuple[str, dict]] = []

    def ask(self, method, path, **request):
        self.calls.append((path.rsplit("/", 1)[1], request["json"]))
        return {"prediction_id": f"p{len(self.calls)}", "rows": 1, "ensemble": [{"expert": "new", "weight": 1.0}]}


def model(name: str, stream: Iterator, late: bool = False) -> DemoModel:
    return DemoModel(name, {}, stream, 1, "", "", (), late=late)


def test_requests_have_rows_of_the_same_features() -> None:
    """However many rows are due, the steps of a change come between the same rows."""
    for step in (7, 1000):
        session = Asked()
        fed = Fed(session, model("m", streams.sensors(0)), speed=1.0)
        told = [line for _ in range(-(-1000 // step)) for line in fed._batches(step)]
        assert ["switch begun", "switch completed"] == [" ".join(line.split()[:2]) for line in told]
        learned, steps = 0, []
        for path, body in session.calls:
            if path == "switch":
                steps.append(learned)
            else:
                learned += len(body["data"])
                assert len(body["data"]) <= feeding.BATCH_MAX
        assert [streams.BEGIN_ROW, streams.BEGIN_ROW + streams.OVERLAP_ROWS] == steps
        assert {4, 9, 5} == {len(body["columns"]) for path, body in session.calls if path == "batch"}


def test_labels_come_late_and_some_never() -> None:
    """Each after DELAY_ROWS further predictions, by the id of its own; one of LOST_EVERY is lost."""
    session = Asked()
    Fed(session, model("m", streams.parcels(0), late=True), 1.0)._late(200)
    labels = [body["prediction_id"] for path, body in session.calls if path == "feedback"]
    predicted = [f"p{at}" for at, (path, _) in enumerate(session.calls, 1) if path == "predict"]
    kept = [name for number, name in enumerate(predicted, 1) if number % feeding.LOST_EVERY]
    assert kept[: len(labels)] == labels
    assert 195 - feeding.DELAY_ROWS == len(labels)


def test_what_is_due_comes_evenly() -> None:
    """By the time that has passed; after a pause no more than the rows of five seconds."""
    fed = Fed(Asked(), model("m", streams.sea(0)), speed=10.0)
    for now, sent in ((100.0, 1), (100.05, 1), (101.0, 11), (200.0, 62)):
        fed.step(now, look=False)
        assert sent == fed._sent


def test_the_port_of_the_page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONEPASS_PORT, else 8000; where it is taken, the next one that is free, and that is said."""
    for given, port in (("8123", 8123), ("", 8000), ("tcp://10.0.0.1:8000", 8000), ("many", 8000)):
        monkeypatch.setenv("ONEPASS_PORT", given)
        assert port == default_port()

    def failing(listener: socket.socket) -> None:
        listener.close()
        raise Failed("not started")

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setenv("ONEPASS_PORT", str(taken))
        monkeypatch.setattr(command.private, "service", failing)
        status, said, _ = shell("demo")
    assert (1, True) == (status, f"Port {taken} is taken, so the demo is on port " in said)


@pytest.mark.parametrize("options", [["--speed", "0"], ["--for", "x"], ["--port", "70000"], ["--url", "x"]])
def test_usage(options: list[str], shell: Shell) -> None:
    """An option that cannot be is status 2."""
    status, said, complained = shell("demo", *options)
    assert (2, "") == (status, said)
    assert options[0] in complained


@pytest.mark.timeout(300)
def test_all_happens(url: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fed fast, a running service has drifts, switches and a promotion; at the end the demo's models are gone."""
    told: list[str] = []
    wanted = ("drift found", "switch begun", "switch completed", "challenger auto promoted")
    step = Fed.step

    def stepped(self: Fed, now: float, look: bool) -> list[str]:
        told.extend(lines := step(self, now, look=True))
        if all(any(want in line for line in told) for want in wanted):
            raise command.Interrupted(2)
        return lines

    monkeypatch.setattr(Fed, "step", stepped)
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    httpx.put(f"{url}/models/own", json={"task": "regression"}, timeout=60).raise_for_status()
    status, said, complained = shell("demo", "--url", url, "--speed", "100", "--for", "200")
    assert (0, "") == (status, complained), complained
    assert all(any(want in line for line in told) for want in wanted), told
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


def test_a_service_that_is_not_there(shell: Shell) -> None:
    """One line, at once."""
    assert "onepass demo: cannot reach http://127.0.0.1:9" in shell("demo", "--url", "http://127.0.0.1:9")[2]


def test_models_that_cannot_be_deleted_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the service is gone at the end; the first one tells, and no other is waited for."""
    asked = []

    class Gone(Asked):
        def send(self, method, path, **request):
            asked.append(path)
            raise Failed("gone")

    command._delete(Gone(), ["demo-sea", "demo-fraud"])
    assert "not deleted: demo-sea, demo-fraud\n" == capsys.readouterr().err
    assert ["models/demo-sea"] == asked


def test_a_model_that_cannot_be_made_is_not_deleted() -> None:
    """A refusal ends the demo, which deletes what it has made and nothing else."""
    deleted = []

    class Second(Asked):
        def found(self, name):
            return None

        def ask(self, method, path, **request):
            if path == "models/demo-hyperplane":
                raise Failed("refused")

        def send(self, method, path, **request):
            deleted.append(path)

    with pytest.raises(Failed, match="refused"), command._models(Second(), demo_models(), delete=True):
        pass
    assert ["models/demo-sea"] == deleted


def test_a_model_that_somebody_deletes_is_fed_no_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others go on; where none is left the demo ends."""

    class Without(Asked):
        def found(self, name):
            return None

        def ask(self, method, path, **request):
            raise Failed("refused with HTTP 404")

    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    session = Without()
    command._feed([Fed(session, one, 1.0) for one in demo_models()], session, 1.0, float("inf"))
    lines = capsys.readouterr().out.splitlines()
    assert 5 == sum("was deleted by somebody else" in line for line in lines)
    command._feed([Fed(session, one, 1.0) for one in demo_models()], session, 1.0, float("inf"), as_json=True)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one.name for one in demo_models()} == {one["model"] for one in events}
    assert all({"seconds", "model", "event"} == one.keys() for one in events)
