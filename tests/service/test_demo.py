"""``onepass demo``: its streams drift where they should, and what it promises happens."""

import itertools
import socket
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from service import cli
from service.replay import Failed
from service.replay.client import Service
from service.replay.demo import command, feeding, streams
from service.replay.demo.cast import cast
from service.replay.demo.happenings import Teller


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


def test_sensors_show_the_same_in_another_way() -> None:
    """The names of both sets in an overlap; the demand goes on as it was."""
    sensors = streams.Sensors(0)
    both = sensors.row(0, 1)
    assert [*sensors.names(0), *sensors.names(1)] == [*both.features]
    assert not {*sensors.names(0)} & {*sensors.names(1)}
    assert streams.Sensors(5).row(0).label == streams.Sensors(5).row(0, 1).label


class Asked(Service):
    """A service that keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__("http://nobody.invalid")
        self.calls: list[tuple[str, dict]] = []

    def ask(self, method, path, batch=None, **request):
        self.calls.append((path.rsplit("/", 1)[1], request["json"]))
        return {"prediction_id": f"p{len(self.calls)}", "rows": 1, "ensemble": [{"expert": "new", "weight": 1.0}]}


def test_sensors_are_replaced_at_their_rows() -> None:
    """However many rows a request has, the steps of the change come between the same rows."""
    told, sent = [], []
    for step in (7, 1000):
        service = Asked()
        feeder = feeding.Replaced(service, "m", streams.Sensors(0))
        told.append([line for _ in range(-(-1000 // step)) for line in feeder.feed(min(step, 1000))][:2])
        sent.append([(path, body.get("action", len(body.get("columns", ())))) for path, body in service.calls])
        learned = 0
        for path, body in service.calls:
            if path == "switch":
                assert learned == (
                    feeding.BEGIN_ROW if body["action"] == "begin" else feeding.BEGIN_ROW + feeding.OVERLAP_ROWS
                )
            else:
                learned += len(body["data"])
    assert told[0] == told[1]
    assert (
        {("batch", 4), ("switch", "begin"), ("batch", 9), ("switch", "complete"), ("batch", 5)}
        == {*sent[0]}
        == {*sent[1]}
    )


def test_labels_come_late_and_some_never() -> None:
    """Each after DELAY_ROWS further predictions, by the id of its own; one of LOST_EVERY is lost."""
    service = Asked()
    feeding.Late(service, "m", streams.parcels(0)).feed(200)
    labels = [body["prediction_id"] for path, body in service.calls if path == "feedback"]
    predicted = [f"p{at}" for at, (path, _) in enumerate(service.calls, 1) if path == "predict"]
    kept = [name for number, name in enumerate(predicted, 1) if number % feeding.LOST_EVERY]
    assert kept[: len(labels)] == labels
    assert 195 - feeding.DELAY_ROWS == len(labels)


def test_a_taken_port_names_a_free_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was asked for is refused; in place of the usual one another is used, and said."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert 1 == cli.main(["demo", "--port", str(taken), "--for", "1"])
        said = capsys.readouterr().err
        assert f"port {taken} is taken" in said
        assert "--port " in said
        monkeypatch.setattr(command, "PORT", taken)
        with command._listener(None, Console()) as listener:
            assert taken != listener.getsockname()[1]
        assert f"Port {taken} is taken" in capsys.readouterr().out
        monkeypatch.setattr(command, "PORT", 1)
        monkeypatch.setenv("ONEPASS_PORT", str(taken))
        with command._listener(None, Console()) as listener:
            assert taken < listener.getsockname()[1]
    assert f"Port {taken} is taken" in capsys.readouterr().out
    monkeypatch.setenv("ONEPASS_PORT", "many")
    with pytest.raises(Failed, match="ONEPASS_PORT"):
        command._listener(None, Console())


@pytest.mark.parametrize("options", [["--speed", "0"], ["--for", "x"], ["--port", "70000"], ["--url", "x"]])
def test_usage(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option that cannot be is status 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", *options])
    assert 2 == ended.value.code
    assert f"argument {options[0]}" in capsys.readouterr().err


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The data of another service are not mixed with those of the demo."""
    (tmp_path / "dump.rdb").touch()
    with pytest.raises(SystemExit):
        cli.main(["demo", "--data-dir", str(tmp_path)])
    assert "neither new nor an empty directory" in capsys.readouterr().err


@pytest.mark.timeout(300)
def test_all_happens(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fed fast, a running service has drifts, switches and a promotion; at the end it has its own model only."""
    told: list[tuple[str, str]] = []
    wanted = ("drift found", "switch begun", "switch completed", "challenger auto promoted")

    def tell(self, name: str, text: str) -> None:
        told.append((name, text))
        if all(any(want in line for _, line in told) for want in wanted):
            done.set()

    done = threading.Event()
    monkeypatch.setattr(Teller, "tell", tell)
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(command, "_over", lambda now, end_at: done.is_set() or now > end_at)
    httpx.put(f"{url}/models/own", json={"task": "regression"}, timeout=60).raise_for_status()
    assert 0 == cli.main(["demo", "--url", url, "--speed", "100", "--for", "200"])
    assert done.is_set(), told
    assert {"demo-sensors", "demo-sea"} <= {name for name, _ in told}
    assert ["own"] == [one["name"] for one in httpx.get(f"{url}/models").json()["models"]]
    said = capsys.readouterr().out
    assert all(role.name in said for role in cast())
    assert f"{url}/" in said


def test_a_name_that_is_taken_is_left_alone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo says so and ends, and deletes nothing that it has not made."""
    httpx.put(f"{url}/models/demo-fraud", json={"task": "regression"}).raise_for_status()
    assert 1 == cli.main(["demo", "--url", url, "--for", "1"])
    assert f"onepass delete demo-fraud --yes --url {url}" in capsys.readouterr().err
    assert (
        {"own", "demo-fraud"} >= {one["name"] for one in httpx.get(f"{url}/models").json()["models"]} >= {"demo-fraud"}
    )


def test_a_service_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, at once."""
    assert 1 == cli.main(["demo", "--url", "http://127.0.0.1:9", "--for", "1"])
    assert "onepass demo: cannot reach the service at http://127.0.0.1:9" in capsys.readouterr().err


def test_models_that_cannot_be_deleted_are_named() -> None:
    """Where the service is gone at the end; the first one tells, and no other is waited for."""
    asked = []

    class Gone(Asked):
        def delete(self, name):
            asked.append(name)
            raise Failed("gone")

    console = Console(record=True, width=200)
    command._delete(Gone(), ["demo-sea", "demo-fraud"], console)
    assert "not deleted: demo-sea, demo-fraud" in console.export_text()
    assert ["demo-sea"] == asked


def test_a_model_that_cannot_be_made_is_not_deleted() -> None:
    """A refusal ends the demo, which deletes what it has made and nothing else."""
    deleted = []

    class Second(Asked):
        def has(self, name):
            return False

        def create(self, name, body):
            if name == "demo-hyperplane":
                raise Failed("refused")

        def challenge(self, name, challenger, body):
            pass

        def delete(self, name):
            deleted.append(name)

    with pytest.raises(Failed, match="refused"), command._models(Second(), cast(), Console(), delete=True):
        pass
    assert ["demo-sea"] == deleted


def test_a_model_that_somebody_deletes_is_fed_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on; where none is left the demo ends."""
    told = []

    class Without(Asked):
        def has(self, name):
            return False

        def ask(self, method, path, batch=None, **request):
            raise Failed("refused with HTTP 404")

    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Teller, "tell", lambda self, name, text: told.append((name, text.split(" by ")[0])))
    command._feed(Without(), cast(), Teller(Console()), Namespace(speed=1.0, seconds=None))
    assert {(role.name, "was deleted") for role in cast()} == {*told}
