"""``onepass replay``: real files through a real service."""

import csv
import gzip
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import psutil
import pytest

from service import settings_sources
from service.client import private
from service.client.failures import Failed, Interrupted
from service.client.replay import file_pass
from service.client.replay.table import Batch
from tests.service.client.fixtures import Shell, stream

ROWS = 230
HEADER = ["load", "plan", "open", "at", "y"]


def cells(at: int) -> list[str]:
    """A row of numbers, strings, booleans and times, with its label."""
    plan = ("basic", "gold", "3")[at % 3]
    when = f"2026-01-{1 + at % 28:02}T{at % 24:02}:30:00Z"
    return [str(at % 7 / 7), plan, "True" if at % 2 else "False", when, "yes" if plan == "gold" else "no"]


def text(rows: int = 60) -> str:
    """A file of such rows."""
    return "\n".join([",".join(HEADER), *(",".join(cells(at)) for at in range(rows))]) + "\n"


def test_a_replay_of_its_own(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --url a private service does the work, whatever the environment says, and leaves nothing behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for name, value in (("URL", "http://127.0.0.1:9"), ("API_KEYS", "me:s:admin"), ("WEBHOOKS_FILE", "no-such-file")):
        monkeypatch.setenv(f"ONEPASS_{name}", value)
    for name, value in (("redis_url", "redis://127.0.0.1:9"), ("data_dir", str(tmp_path / "operator"))):
        monkeypatch.setenv(f"onepass_{name}", value)  # settings are read in any case
    before = {*psutil.Process().children()}  # those of other tests' services
    file = stream(tmp_path / "my stream.csv.gz")
    status, said, complained = shell("replay", file, "--label", "y", "--algorithm", "dfop", "--drop", "day")
    assert (0, "", True) == (status, complained, f"{ROWS} rows in" in said)
    assert [] == [*(tmp_path / "temporary").iterdir()]
    assert not (tmp_path / "operator").exists()
    assert [] == [child for child in psutil.Process().children() if child not in before]


def test_the_table_says_what_the_service_says(tmp_path: Path, replay: Shell, url: str) -> None:
    """The figures are the service's, over all rows, whatever the batches were; charts are SVG and PNG."""
    file = stream(tmp_path / "told.csv")
    options = ["--algorithm", "dfop", "--param", "forgetting_rate=0.05", "--drop", "day", "--batch", 64]
    status, said, _ = replay(file, *options, "--plot", tmp_path / "chart.png")
    model = httpx.get(f"{url}/models/told").json()
    assert (0, ROWS, 0.05) == (status, model["metrics"]["rows"], model["config"]["params"]["forgetting_rate"])
    words = ["balanced accuracy", "kappa temporal", "log loss", "brier", "no change", "majority", "rows/s", "recall"]
    words += [f"{model['metrics']['overall']['accuracy']:.2%}"]
    words += [f"{model['metrics']['baselines']['no_change']['accuracy']:.2%}"]
    assert [] == [word for word in words if word not in said]
    assert model["metrics"]["overall"]["accuracy"] > 0.8
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_file_that_is_read_is_not_written(tmp_path: Path, replay: Shell) -> None:
    """Under whatever name; it is as it was."""
    file = stream(tmp_path / "own.csv")
    before = file.read_bytes()
    (tmp_path / "link.csv").symlink_to(file)
    for name in ("own.csv", "link.csv"):
        status, _, complained = replay(file, "--drop", "day", "--predictions", tmp_path / name)
        assert (2, True, before) == (status, "the file that is read" in complained, file.read_bytes())


def test_labels_that_are_numbers(tmp_path: Path, replay: Shell, url: str) -> None:
    """Any numbers are predicted as such, a few whole ones are classes; how, and how otherwise, is said."""
    whole = tmp_path / "whole.csv"
    whole.write_text("x,y\n" + "".join(f"{at},{at % 3}\n" for at in range(9)))
    for file, task, other, more in (
        (stream(tmp_path / "any.csv", regression=True), "regression", "classification", ["--plot", tmp_path / "c.svg"]),
        (whole, "classification", "regression", []),
    ):
        status, said, _ = replay(file, "--algorithm", "rls", *more)
        assert (0, True) == (status, f"y holds numbers: treated as a {task}; --task {other} treats them" in said)
        assert task == httpx.get(f"{url}/models/{file.stem}").json()["config"]["task"]
        assert (task == "regression") == ("median ae" in said)
    assert "{http://www.w3.org/2000/svg}svg" == ET.parse(tmp_path / "c.svg").getroot().tag
    for task in (["--task", "regression"], []):  # a model that is there says the task
        assert 0 == replay(whole, "--algorithm", "rls", *task, "--name", "counts")[0]
    counts = httpx.get(f"{url}/models/counts").json()
    assert (18, "regression") == (counts["rows"], counts["config"]["task"])


def test_a_model_is_taken_up_again(tmp_path: Path, replay: Shell, url: str) -> None:
    """The same configuration goes on where it was; another one is refused."""
    file = stream(tmp_path / "again.csv")
    assert 0 == replay(file, "--algorithm", "dfop", "--drop", "day", "--limit", 40)[0]
    status, said, _ = replay(file, "--algorithm", "dfop", "--drop", "day", "--limit", 40)
    assert (0, 80) == (status, httpx.get(f"{url}/models/again").json()["rows"])
    assert "again has learned 40 rows already" in said
    assert "of all 80 rows" in said
    status, said, complained = replay(file, "--algorithm", "rls", "--drop", "day")
    refused = "onepass replay: model again exists with another configuration"
    assert (1, True, False) == (status, complained.startswith(refused), "going on" in said)


def test_the_same_command_continues_a_model_that_was_changed(tmp_path: Path, replay: Shell, url: str) -> None:
    """With the options of its creation as well as without them; others are refused."""
    file = stream(tmp_path / "changed.csv", 20)
    assert 0 == replay(file, "--missing=mean", "--cost=UP=3")[0]
    httpx.patch(f"{url}/models/changed", json={"missing": "zero", "class_costs": None}).raise_for_status()
    codes = [replay(file, *options)[0] for options in (["--missing=mean", "--cost=UP=3"], [], ["--cost=UP=2"])]
    assert [0, 0, 1] == codes
    assert 60 == httpx.get(f"{url}/models/changed").json()["rows"]


def test_options_that_agree_with_a_model_go_on(tmp_path: Path, replay: Shell, url: str) -> None:
    """Each by itself, whatever else the model was made with; one that does not is refused, and nothing is learned."""
    file, path = stream(tmp_path / "agreed.csv", 20), f"{url}/models/agreed"
    params, costs = {"forgetting_rate": 0.05, "scaling": "standard"}, {"UP": 3}
    body = {"algorithm": "dfop", "task": "classification", "params": params, "class_costs": costs, "missing": "mean"}
    day = {"name": "day", "type": "categorical", "categories": ["mon", "tue, late", "3"]}
    body |= {"features": ["a", "b", day], "lags": 1, "description": "by hand", "labels": ["DOWN", "UP"]}
    assert 201 == httpx.put(path, json=body).status_code
    agree = ["--task=classification", "--missing=mean", "--lags=1", "--cost=UP=3", "--algorithm=dfop"]
    agree += ["--param=scaling=standard"]
    for done, options in enumerate([*([one] for one in agree), agree], 1):
        assert (0, "") == replay(file, *options)[::2]
        assert 20 * done == httpx.get(path).json()["rows"]
    refuse = ["--task=regression", "--missing=zero", "--lags=2", "--cost=DOWN=3", "--algorithm=rls"]
    refuse += ["--param=forgetting_rate=0.1"]
    for option in refuse:
        status, _, complained = replay(file, option)
        assert (1, True) == (status, complained.startswith("onepass replay: model agreed exists with another config"))
    assert 20 * done == httpx.get(path).json()["rows"]


def test_columns_are_declared_by_what_they_hold(tmp_path: Path, replay: Shell, url: str) -> None:
    """Numbers, strings, booleans and times in one file, which standard input, gzip and Parquet are alike."""
    pa = pytest.importorskip("pyarrow", reason="the extra onepass[parquet] is not installed: Parquet is NOT tested")
    from pyarrow import parquet

    (tmp_path / "kinds.csv").write_text(text())
    columns = dict(zip(HEADER, zip(*map(cells, range(60)), strict=True), strict=True))
    typed = {
        "load": [float(cell) for cell in columns["load"]],
        "plan": pa.array(columns["plan"]).dictionary_encode(),
        "open": [cell == "True" for cell in columns["open"]],
        "at": pa.array([cell[:-1] for cell in columns["at"]]).cast(pa.timestamp("ns")),
        "y": columns["y"],
    }
    parquet.write_table(pa.table(typed), tmp_path / "rows.parquet")
    options = ["--algorithm", "dfop"]
    assert (0, "") == replay(tmp_path / "kinds.csv", *options)[::2]
    assert (0, "") == replay(tmp_path / "rows.parquet", *options)[::2]
    assert (0, "") == replay("-", *options, "--name", "piped", stdin=text().encode())[::2]
    assert (0, "") == replay("-", *options, "--name", "packed", stdin=gzip.compress(text().encode()))[::2]
    shown = [httpx.get(f"{url}/models/{name}").json() for name in ("kinds", "rows", "piped", "packed")]
    features = shown[0]["config"]["features"]
    assert ["load", "categorical", "boolean", "time"] == [one if one == "load" else one["type"] for one in features]
    assert all(one["config"]["features"] == features for one in shown)
    assert all(one["metrics"]["overall"] == shown[0]["metrics"]["overall"] for one in shown)
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes()[:-20])
    assert "cannot be read" in replay(tmp_path / "broken.parquet", *options)[2]


def test_what_is_refused_is_told_by_lines(tmp_path: Path, replay: Shell, shell: Shell, url: str) -> None:
    """A text in a column of numbers, with what was learned before; an empty cell; labels that are none; in evaluate
    likewise.
    """
    file = tmp_path / "odd.csv"
    file.write_text("a,y\n" + "1,u\n2,v\n" * 10 + "\nthree,u\nfour,v\n5,v\n")
    status, _, complained = replay(file, "--algorithm", "dfop", "--batch", 20)
    assert (1, True) == (status, complained.startswith("onepass replay: rows 21 to 23: refused with HTTP 422\n"))
    assert "\n  column a, 'three' in line 23: is not a number" in complained
    assert "\n  column a, 'four' in line 24: is not a number" in complained
    assert "\n  20 rows before that: learned by model odd; continue with the rows after them\n" in complained
    assert 20 == httpx.get(f"{url}/models/odd").json()["rows"]
    status, _, complained = shell("evaluate", file, "--label", "y", "--model", "odd")
    assert (1, True) == (status, "\n  column a, 'three' in line 23: is not a number" in complained)
    file.write_text("a,b,y\n1,2,u\n,2,v\n1,,u\n")
    assert 0 == replay(file, "--algorithm", "dfop", "--name", "filled")[0]
    said = replay(file, "--algorithm", "dfop", "--name", "unfilled", "--missing", "error")[2]
    assert 'column a, \'\' in line 3: is missing; declare "missing": "mean" or "zero"' in said
    file.write_text("a,y\n1,u\n2,\n3,v\n")
    assert "--skip-unlabelled leaves them out" in replay(file, "--name", "unlabelled")[2]
    status, said, _ = replay(file, "--name", "labelled", "--skip-unlabelled", "--json")
    assert (0, 2, 1) == (status, json.loads(said)["rows"], json.loads(said)["skipped"])


def test_words_for_missing_values_are_named_and_a_refused_first_request_leaves_no_model(
    tmp_path: Path, replay: Shell, shell: Shell, url: str
) -> None:
    """The options that the refusal names make the same command succeed; a model that was there before stays."""
    file = tmp_path / "words.csv"
    file.write_text("a,b,y\n" + "1,2,u\n2,?,v\n3,n.a.,u\n" + "2,1,v\n3,1,u\n" * 20)
    status, _, complained = replay(file, "--algorithm", "dfop")
    assert (1, 404) == (status, httpx.get(f"{url}/models/words").status_code)
    assert "\n  if a missing value is meant: --na '?,n.a.'\n" in complained
    assert complained.endswith("\n  model words had learned nothing: it is deleted\n")
    assert 0 == replay(file, "--algorithm", "dfop", "--na", "?,n.a.")[0]
    assert "--na '?,n.a.'" in shell("evaluate", file, "--label", "y", "--model", "words")[2]
    body = {"task": "classification", "algorithm": "dfop", "features": ["a", "b"]}
    httpx.put(f"{url}/models/kept", json=body).raise_for_status()
    assert 1 == replay(file, "--name", "kept")[0]
    assert 0 == httpx.get(f"{url}/models/kept").json()["version"]
    status, _, complained = replay(file, "--algorithm", "dfop", "--name", "begun", "--batch", 1)
    assert (1, 1) == (status, httpx.get(f"{url}/models/begun").json()["rows"])


def test_what_ends_a_replay_says_how_to_go_on(
    tmp_path: Path, replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a malformed line or a signal: how many rows were learned, and what comes next."""
    file, send = tmp_path / "torn.csv", Batch.send
    file.write_text("id,a,y\n" + "".join(f"{at},{at % 7},{'uv'[at % 2]}\n" for at in range(1100)) + "1,2\n")
    begun = "\n  1,000 rows before that: learned by model torn"
    for more, how in (([], "continue with the rows after them"), (["--id", "id"], "the same command continues")):
        status, _, complained = replay(file, *more, "--algorithm", "rls", "--batch", 500)
        said = f"onepass replay: torn.csv, line 1102: not 3 cells, as the header has{begun}; {how}\n"
        assert (1, said) == (status, complained)
        httpx.delete(f"{url}/models/torn").raise_for_status()

    def interrupted(batch: Batch, *arguments: Any) -> Any:
        if batch.first > 1000:
            raise Interrupted(signal.SIGINT)
        return send(batch, *arguments)

    monkeypatch.setattr(Batch, "send", interrupted)
    status, _, complained = replay(file, "--algorithm", "rls", "--batch", 50)
    assert (130, True) == (status, complained.startswith(f"onepass replay: interrupted{begun}; continue"))


def test_ids_are_learned_once(tmp_path: Path, replay: Shell, url: str) -> None:
    """With a column of ids the same file again teaches nothing."""
    file = tmp_path / "ids.csv"
    file.write_text("id,a,y\n" + "".join(f"r{at},{at % 7},{at % 2}\n" for at in range(60)))
    for known in ("", "60 rows of them had been learned already"):
        status, said, _ = replay(file, "--algorithm", "dfop", "--id", "id", "--batch", 25)
        assert (0, True) == (status, known in said)
    model = httpx.get(f"{url}/models/ids").json()
    assert (60, ["a"]) == (model["rows"], model["config"]["features"])


def test_the_result_as_json(tmp_path: Path, replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object on standard output and nothing else; progress goes to the other one."""
    monkeypatch.setattr(file_pass, "LINE_EVERY_S", 0.0)
    file = tmp_path / "json.csv"
    file.write_text(text())
    status, said, complained = replay(file, "--algorithm", "dfop", "--json")
    found = json.loads(said)
    assert (0, 1) == (status, said.count("\n"))
    names = ("rows", "known", "model", "task", "skipped", "score")
    assert (60, 0, "json", "classification", 0, "accuracy") == tuple(found[name] for name in names)
    assert httpx.get(f"{url}/models/json/metrics").json()["overall"] == found["metrics"]["overall"]
    assert "60 rows in" in complained
    assert "rows/s  accuracy" in complained


def test_an_endless_input_is_read_no_further_than_asked(
    replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows tell the kinds; what is held does not grow with what comes."""
    ours, theirs = os.pipe()

    def write() -> None:
        try:
            with os.fdopen(theirs, "wb", buffering=0) as file:
                file.write((",".join(HEADER) + "\n").encode())
                for at in range(10**9):
                    file.write((",".join(cells(at)) + "\n").encode())
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=write)
    thread.start()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=os.fdopen(ours, "rb")))
    status, _, complained = replay("-", "--algorithm", "dfop", "--name", "endless", "--limit", 2000)
    thread.join()
    assert (0, "") == (status, complained)
    assert 2000 == httpx.get(f"{url}/models/endless").json()["rows"]


def test_what_is_not_there(tmp_path: Path, shell: Shell, url: str) -> None:
    """No file, no column, no encoding, no service, no algorithm: status 1 and a reason, before a model is made."""
    some = stream(tmp_path / "some.csv")
    for arguments, reason in (
        ([tmp_path / "none.csv"], "No such file"),
        ([some, "--drop", "day", "--id", "day"], "some.csv has no column 'day'; its columns are 'a', 'b', 'y'"),
        ([some, "--encoding", "nonsense"], "unknown encoding: nonsense"),
        ([some, "--url", "http://127.0.0.1:9"], "cannot reach http://127.0.0.1:9"),
        ([some, "--algorithm", "no", "--url", url], "algorithm: is not known (auto, "),
        ([some, "--algorithm", "dfop", "--param", "forgetting_rate=7", "--url", url], "params.forgetting_rate"),
    ):
        status, _, complained = shell("replay", *arguments, "--label", "y", "--name", "never")
        assert (1, True) == (status, reason in complained), complained
    assert 404 == httpx.get(f"{url}/models/never").status_code


@pytest.mark.parametrize("command", ["replay", "compare"])
def test_a_chart_without_the_extra(command: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what it draws with is not installed one line says how to get it, before anything starts."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, complained = shell(command, "some.csv", "--label", "y", "--plot", "chart.svg")
    assert (1, 1) == (status, len(complained.splitlines()))
    assert "pip install '.[replay]' in a checkout" in complained


def test_why_a_private_service_does_not_start(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence that onepass serve gives, in one line."""
    monkeypatch.setenv("ONEPASS_WORKERS", "2")
    status, _, complained = shell("replay", stream(tmp_path / "some.csv"), "--label", "y")
    assert (1, True, 1) == (status, settings_sources.WORKERS in complained, len(complained.splitlines()))


def test_what_a_private_service_does_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets, addresses, and what would refuse its start, its rows or its end; limits it shares."""
    seen: dict[str, str] = {}

    def start(*_: object, env: dict[str, str], **__: object) -> None:
        seen.update(env)
        raise Failed("not started")

    monkeypatch.setattr(private.subprocess, "Popen", start)
    own = ("api_keys", "redis_url", "webhooks", "host", "tls_cert", "cors_origins", "min_replicas", "drain_s")
    for name in (*own, "body_limit_mb"):
        monkeypatch.setenv(f"ONEPASS_{name.upper()}", "theirs")
    with pytest.raises(Failed), private.session():
        pass
    assert {"ONEPASS_BODY_LIMIT_MB"} == {name for name, value in seen.items() if value == "theirs"}


@pytest.mark.slow_but("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replay_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends the replay, its service and its directory, with the status that says which signal."""
    places = tmp_path / "temporary"
    places.mkdir()
    command = [sys.executable, "-m", "service.client", "replay", str(stream(tmp_path / "long.csv", 20_000))]
    command += ["--label", "y", "--algorithm", "dfop", "--drop", "day", "--batch", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(places)}
    ) as child:
        deadline = time.monotonic() + 60
        while not [*places.glob("onepass-*/data")]:
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        family = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(number)
        _, complained = child.communicate(timeout=60)
    assert (128 + number, b"onepass replay: interrupted\n") == (child.returncode, complained)
    assert [] == [*places.iterdir()]
    assert [] == [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("regression", [False, True])
def test_predictions_are_written(replay: Shell, tmp_path: Path, regression: bool) -> None:
    """One line for each row, in the order of the file, with what was predicted before its label was known."""
    file, out = stream(tmp_path / "some.csv", 30, regression), tmp_path / "out.csv"
    name = f"written-{regression}".lower()
    status, printed, _ = replay(file, "--name", name, "--predictions", out, "--batch", 7, "--json")
    lines = [*csv.DictReader(out.read_text().splitlines())]
    labels = [row["y"] for row in csv.DictReader(file.read_text().splitlines())]
    assert (0, 30) == (status, len(lines))
    assert [(str(at), label) for at, label in enumerate(labels, 1)] == [(one["row"], one["label"]) for one in lines]
    losses = [float(one["loss"]) for one in lines if one["loss"]]
    overall = json.loads(printed)["metrics"]["overall"]
    assert sum(losses) / len(losses) == pytest.approx(overall["mse"] if regression else 1 - overall["accuracy"])
    given = [(one["label"], json.loads(one["probabilities"])) for one in lines if one["probabilities"]]
    assert len(given) == (0 if regression else len(losses))
    if given:  # from before each row was learned: the log loss is that of the metrics
        mean = -sum(math.log(shares.get(label, 1 - sum(shares.values()))) for label, shares in given) / len(given)
        assert mean == pytest.approx(overall["log_loss"])
    assert 1 == replay(file, "--name", f"{name}-not", "--predictions", tmp_path / "nowhere" / "out.csv")[0]
    assert 404 == httpx.get(f"{os.environ['ONEPASS_URL']}/models/{name}-not").status_code


def test_repeated_rows_have_no_probabilities(replay: Shell, tmp_path: Path) -> None:
    """A model that has learned a row would be asked too late; prediction and loss are those of the first time."""
    file, outs = stream(tmp_path / "twice.csv", 20), [tmp_path / "first.csv", tmp_path / "second.csv"]
    for out in outs:
        assert 0 == replay(file, "--name", "twice-told", "--id", "a", "--predictions", out)[0]
    first, second = ([*csv.DictReader(out.read_text().splitlines())] for out in outs)
    assert any(one["probabilities"] for one in first)
    assert [one | {"probabilities": ""} for one in first] == second
