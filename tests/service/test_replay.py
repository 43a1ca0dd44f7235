"""``onepass replay``: real files through a real service."""

import csv
import gzip
import http.server
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import psutil
import pytest

from core.problems import unknown_feature
from service.client import sources
from service.replay import chart, client, refusals, report, wording
from service.replay.source import Source

ROWS = 230


def stream(path: Path, rows: int = ROWS, regression: bool = False) -> Path:
    """Write a learnable stream: two numbers, a text, the label."""
    rng = random.Random(7)
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "day", "y"])
        for _ in range(rows):
            a, b = rng.random(), rng.random()
            label = round(3 * a - b, 6) if regression else "UP" if a > b else "DOWN"
            writer.writerow([round(a, 4), round(b, 4), rng.choice(["mon", "tue, late", "3"]), label])
    return path


def test_a_replay_of_its_own(tmp_path: Path, run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a URL a private service does the work, and leaves nothing behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("ONEPASS_API_KEYS", "me:secret:admin")
    monkeypatch.setenv("ONEPASS_WEBHOOKS_FILE", "no-such-file")
    file, plot = stream(tmp_path / "my stream.csv.gz"), tmp_path / "chart.svg"
    before = {*psutil.Process().children()}  # those of other tests' services
    status, said, complained = run(file, "--algorithm", "dfop", "--drop", "day", "--plot", plot, "--batch", 50)
    assert (0, "") == (status, complained)
    assert f"{ROWS} rows in" in said
    words = ("balanced accuracy", "kappa temporal", "log loss", "brier", "no change", "majority", "rows/s")
    assert all(word in said for word in words)
    assert "{http://www.w3.org/2000/svg}svg" == ET.parse(plot).getroot().tag
    assert [] == [*(tmp_path / "temporary").iterdir()]
    assert [] == [child for child in psutil.Process().children() if child not in before]


def test_the_table_says_what_the_service_says(tmp_path: Path, run: Callable, url: str) -> None:
    """The figures are the service's, over all rows, whatever the batches were."""
    file, plot = stream(tmp_path / "told.csv"), tmp_path / "chart.png"
    options = ["--algorithm", "dfop", "--param", "forgetting_rate=0.05", "--drop", "day", "--url", url]
    status, said, _ = run(file, *options, "--plot", plot, "--batch", 64)
    metrics = httpx.get(f"{url}/models/told/metrics").json()
    assert (0, ROWS) == (status, metrics["rows"])
    assert f"{metrics['overall']['accuracy']:.2%}" in said
    assert f"{metrics['baselines']['no_change']['accuracy']:.2%}" in said
    assert metrics["overall"]["accuracy"] > 0.8
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert 0.05 == httpx.get(f"{url}/models/told").json()["config"]["params"]["forgetting_rate"]


def test_regression(tmp_path: Path, run: Callable, url: str) -> None:
    """Squared errors, beside the last value."""
    file, plot = stream(tmp_path / "numbers.csv", regression=True), tmp_path / "chart.svg"
    options = ["--algorithm", "rls", "--task", "regression", "--drop", "day", "--url", url]
    status, said, _ = run(file, *options, "--plot", plot)
    assert 0 == status
    assert all(word in said for word in ("mse", "mae", "median ae", "bias", "r2", "last value"))
    metrics = httpx.get(f"{url}/models/numbers/metrics").json()
    assert metrics["baselines"]["last_value"]["mse"] > metrics["overall"]["mse"]
    assert plot.is_file()


def test_a_model_is_taken_up_again(tmp_path: Path, run: Callable, url: str) -> None:
    """The same configuration goes on where it was; another one is refused."""
    file = stream(tmp_path / "again.csv")
    options = ["--drop", "day", "--url", url, "--limit", 40]
    assert 0 == run(file, "--algorithm", "dfop", *options)[0]
    status, said, _ = run(file, "--algorithm", "dfop", *options, "--plot", tmp_path / "chart.png")
    assert (0, 80) == (status, httpx.get(f"{url}/models/again").json()["rows"])
    assert "learned 40 rows already" in said
    assert "all 80 rows" in said
    status, _, complained = run(file, "--algorithm", "rls", *options)
    assert 1 == status
    assert "409" in complained
    assert "another configuration" in complained


def test_categories_are_collected(tmp_path: Path, run: Callable, url: str) -> None:
    """A column of texts is declared with what the file holds."""
    status, _, complained = run(
        stream(tmp_path / "days.csv"), "--algorithm", "dfop", "--categorical", "day", "--url", url
    )
    assert (0, "") == (status, complained)
    declared = httpx.get(f"{url}/models/days").json()["config"]["features"]
    assert {"name": "day", "type": "categorical", "categories": [3, "mon", "tue, late"]} == declared[2]


def test_a_text_in_a_column_of_numbers(tmp_path: Path, run: Callable, url: str) -> None:
    """The service's refusal is told by the lines of the file, and what was learned before it."""
    file = tmp_path / "odd.csv"
    file.write_text("a,y\n" + "1,0\n2,1\n" * 10 + "\nthree,0\nfour,1\n5,1\n")
    status, _, complained = run(file, "--algorithm", "dfop", "--url", url, "--batch", 20)
    assert 1 == status
    lines = complained.splitlines()
    cells = "column a: 'three' in line 23, 'four' in line 24: is not a number"
    assert lines[0].startswith(f"onepass replay: rows 21 to 23: refused with HTTP 422: {cells}")
    assert "  20 rows before that: learned by model odd" == lines[1]
    assert 20 == httpx.get(f"{url}/models/odd").json()["rows"]


def test_missing_cells(tmp_path: Path, run: Callable, url: str) -> None:
    """An empty cell is refused, or becomes what --missing says."""
    file = tmp_path / "holes.csv"
    file.write_text("a,b,y\n1,2,0\n,2,1\n1,,0\n")
    assert "422" in run(file, "--algorithm", "dfop", "--url", url, "--name", "strict")[2]
    assert 0 == run(file, "--algorithm", "dfop", "--url", url, "--missing", "mean")[0]


def test_a_terminal_sees_a_bar(tmp_path: Path, run: Callable, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal progress is a bar, else a line from time to time."""
    options = ["--algorithm", "dfop", "--drop", "day", "--url", url]
    monkeypatch.setattr(report, "LINE_EVERY_S", 0.0)
    assert f"100%  {ROWS} rows" in run(stream(tmp_path / "lines.csv"), *options)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = run(stream(tmp_path / "bar.csv"), *options)[1]
    assert all(word in said for word in ("\x1b[", "━", "100%"))


def test_ids_are_learned_once(tmp_path: Path, run: Callable, url: str) -> None:
    """With a column of ids the same file again teaches nothing."""
    file = tmp_path / "ids.csv"
    file.write_text("id,a,y\n" + "".join(f"r{at},{at % 7},{at % 2}\n" for at in range(60)))
    for known in ("", "60 of them had been learned before"):
        status, said, _ = run(file, "--algorithm", "dfop", "--id", "id", "--url", url, "--batch", 25)
        assert 0 == status
        assert known in said
    assert 60 == httpx.get(f"{url}/models/ids").json()["rows"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no rows"),
        (b"a,y\n", "has no rows"),
        (b"a,b,c\n1,2,3\n", "has no column 'y'; its columns are a, b, c"),
        (b"y,y\n1,2\n", "has several columns 'y'"),
        (b"a,y\n1,0\n1,0,7\n", "line 3: 3 cells; the header has 2"),
        (b"a,y\n\xff\xfe,0\n", "cannot be read"),
        (gzip.compress(b"a,y\n1,0\n", mtime=0)[:-9], "cannot be read"),
        (b'a,y\n"1,0\n', "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_replayed(content: bytes, reason: str, tmp_path: Path, run: Callable, url: str) -> None:
    """One line says what is wrong with the file; no model is made where that is seen at the beginning."""
    file = tmp_path / "broken.csv"
    file.write_bytes(content)
    status, _, complained = run(file, "--algorithm", "dfop", "--url", url, "--name", "broken")
    assert 1 == status
    assert reason in complained
    assert 1 == len(complained.splitlines())


def test_what_is_not_there(tmp_path: Path, run: Callable) -> None:
    """No file, nothing in it, no service: status 1 and a reason."""
    assert "No such file" in run(tmp_path / "none.csv", "--algorithm", "dfop")[2]
    assert "null has no rows" in run("/dev/null", "--algorithm", "dfop")[2]
    status, _, complained = run(stream(tmp_path / "some.csv"), "--algorithm", "dfop", "--url", "http://127.0.0.1:9")
    assert 1 == status
    assert "cannot reach the service at http://127.0.0.1:9" in complained


@pytest.mark.parametrize("option", ["--categorical", "--id"])
def test_a_dropped_column_is_of_no_further_use(option: str, tmp_path: Path, run: Callable, url: str) -> None:
    """A column that is dropped and named by another option is refused in one line, before a model is made."""
    options = ["--algorithm", "dfop", "--drop", "day", option, "day", "--url", url, "--name", "dropped"]
    status, said, complained = run(stream(tmp_path / "some.csv"), *options)
    assert (1, "") == (status, said)
    assert "onepass replay: some.csv has no column 'day'; its columns are a, b, y\n" == complained
    assert 404 == httpx.get(f"{url}/models/dropped").status_code


def test_a_private_service_refuses_workers(tmp_path: Path, run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONEPASS_WORKERS in the environment gives the sentence that onepass serve gives, in one line."""
    monkeypatch.setenv("ONEPASS_WORKERS", "2")
    status, _, complained = run(stream(tmp_path / "some.csv"), "--algorithm", "dfop", "--drop", "day")
    assert 1 == status
    assert f"onepass replay: the private service did not start: onepass serve: {sources.WORKERS}\n" == complained


def test_refusals_of_the_model_are_readable(tmp_path: Path, run: Callable, url: str) -> None:
    """What the service says of an algorithm or a parameter, in one line, with what would be allowed."""
    file = stream(tmp_path / "some.csv")
    unknown = run(file, "--algorithm", "no", "--url", url)[2]
    known = ", ".join(entry["id"] for entry in httpx.get(f"{url}/algorithms").json()["algorithms"])
    assert f"onepass replay: refused with HTTP 422: algorithm: is not known ({known})\n" == unknown
    odd = run(file, "--algorithm", "dfop", "--param", "forgetting_rate=7", "--url", url)[2]
    assert "params.forgetting_rate" in odd
    assert "<= 0.5" in odd
    numbers = stream(tmp_path / "odd-task.csv", regression=True)
    assert "--task regression" in run(numbers, "--algorithm", "vigo", "--drop", "day", "--url", url)[2]


def test_a_long_list_of_what_is_allowed_ends_with_a_count() -> None:
    """Whole names, as many as a person reads; how many more there are is told."""
    names = [f"f{at}" for at in range(refusals.ALLOWED_SHOWN + 2)]
    problem = unknown_feature("features.x", names)
    said = client.reason_of(httpx.Response(422, json={"errors": [problem._asdict()]}), None)
    shown = f"({', '.join(names[:-2])}, and 2 more)"
    assert f"refused with HTTP 422: features.x: {wording.in_flags(problem.problem)} {shown}" == said


@pytest.mark.slow_but("0-*", "300-c*")
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("points", [0, 1, 300])
def test_charts_of_any_length(task: str, points: int, tmp_path: Path) -> None:
    """One row or many, with marks of every kind, without a baseline, with names that look like formulas.

    The first points are of rows for which nothing could be said.
    """
    name, score = ("no_change", "accuracy") if task == "classification" else ("last_value", "mse")
    scores, none = {score: 0.4}, {score: None if points == 0 else 0.3}
    metrics = {
        "rows": 10 * points + 1,
        "overall": scores,
        "window": {"size": 1000, **scores, "baselines": {name: none}},
        "baselines": {name: none, "majority": {score: 0.5}},
        "history": [
            {"row": 10 * at, score: at / 300 if at > 2 else None, "overall": 0.5, name: 0.4 if at > 5 else None}
            for at in range(1, points + 1)
        ],
        "marks": [{"row": at, "kind": kind} for kind in ("drift", "switch", "import") for at in range(points // 10)],
    }
    for suffix in (".svg", ".png"):
        chart.write(tmp_path / f"chart{suffix}", "$x_1^2$ & <b>: " + "long " * 40, metrics, task, 10 * points)
        assert 10_000 < (tmp_path / f"chart{suffix}").stat().st_size


def test_a_file_is_read_a_batch_at_a_time(tmp_path: Path) -> None:
    """Nothing beyond the batches that were asked for is read, compressed or not."""
    for name in ("long.csv", "long.csv.gz"):
        source = Source(stream(tmp_path / name, rows=40_000))
        batches = source.batches(100)
        batch = next(batches)
        assert (100, 1) == (batch.rows, batch.first)
        assert 0.5 > batch.read
        batches.close()


def test_quoted_cells_survive(tmp_path: Path) -> None:
    """Commas, quotes and line ends in a cell arrive as they are; lines are counted as an editor does."""
    file = tmp_path / "quoted.csv"
    file.write_bytes(b'\xef\xbb\xbfa,b,y\r\n"1,5","x ""y""\r\nz",0\r\n"",2,1\r\n')
    (batch,) = Source(file).batches(10)
    rows = [*csv.reader(batch.body.decode().splitlines(keepends=True))]
    assert [["a", "b", "y"], ["1,5", 'x "y"\r\nz', "0"], ["", "2", "1"]] == rows
    assert [3, 4] == list(batch.lines)


# ------------------------------------------------------------------------------------------------ a bad network


class Between(http.server.BaseHTTPRequestHandler):
    """Stands between client and service: passes on, answers 503, or loses the answer, as ``plan`` says."""

    plan: list[str]
    seen: list[tuple[str, bytes]]
    keys: set[str | None]
    upstream: str

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = ""
        if self.command == "POST":
            self.seen.append((self.headers["Idempotency-Key"], body))
            self.keys.add(self.headers["Authorization"])
            fault = self.plan.pop(0) if self.plan else ""
        if fault in ("busy", "down"):
            self._answer(503, f'{{"type": "/problems/{"model-down" if fault == "down" else "x"}"}}'.encode())
            return
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        answer = httpx.request(self.command, self.upstream + self.path, content=body, headers=headers)
        if fault == "lose":
            self.close_connection = True
        else:
            self._answer(answer.status_code, answer.content)

    do_GET = do_PUT = do_POST = _pass  # noqa: N815  http.server asks for these names

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def between(url: str) -> Iterator[tuple[str, type[Between]]]:
    """Its URL, and the class that holds plan and record."""
    handler = type("Handler", (Between,), {"plan": [], "seen": [], "keys": set(), "upstream": url})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def test_nothing_is_learned_twice(tmp_path: Path, run: Callable, url: str, between: tuple) -> None:
    """A batch that met 503, or whose answer was lost, is sent again under the same key."""
    there, handler = between
    handler.plan[:] = ["busy", "busy", "", "lose", ""]
    file = stream(tmp_path / "shaky.csv")
    status, said, _ = run(file, "--algorithm", "dfop", "--drop", "day", "--url", there, "--batch", 100)
    assert 0 == status
    assert f"{ROWS} rows in" in said
    assert "learned before" not in said
    assert ROWS == httpx.get(f"{url}/models/shaky").json()["rows"]
    first, second, third = handler.seen[:3], handler.seen[3:5], handler.seen[5:]
    assert [1, 1, 1] == [len(set(tries)) for tries in (first, second, third)]
    assert 3 == len({key for key, _ in handler.seen})


def test_patience_ends(tmp_path: Path, run: Callable, between: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that stays busy is given up; a model that is out of service at once."""
    there, handler = between
    monkeypatch.setattr(client.Service.__init__, "__kwdefaults__", {"private": False, "patience_s": 0.1})
    file = stream(tmp_path / "stuck.csv")
    options = ["--algorithm", "dfop", "--drop", "day", "--url", there]
    handler.plan[:] = ["busy"] * 100_000
    status, _, complained = run(file, *options)
    assert 1 == status
    assert "503" in complained
    assert "gave up" in complained
    handler.plan[:], handler.seen[:] = ["down"] * 9, []
    assert 1 == run(file, *options)[0]
    assert 1 == len(handler.seen)


@pytest.mark.parametrize("told", ["option", "environment"])
def test_a_key_is_shown(
    told: str, tmp_path: Path, run: Callable, between: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API key goes with every request, wherever it was given."""
    there, handler = between
    monkeypatch.setenv("ONEPASS_API_KEY", "of-the-environment")
    given = ["--key", "of-the-option"] if told == "option" else []
    file = stream(tmp_path / "keyed.csv", 10)
    assert 0 == run(file, "--algorithm", "dfop", "--drop", "day", "--url", there, *given)[0]
    assert {f"Bearer of-the-{told}"} == handler.keys


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replay_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends the replay, its service and its directory, with the status that says which signal."""
    places = tmp_path / "temporary"
    places.mkdir()
    command = [sys.executable, "-m", "service.cli", "replay", str(stream(tmp_path / "long.csv", 20_000))]
    command += ["--label", "y", "--algorithm", "dfop", "--drop", "day", "--batch", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(places)}
    ) as replay:
        deadline = time.monotonic() + 60
        while not [*places.glob("onepass-replay-*/data")]:
            assert replay.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        family = psutil.Process(replay.pid).children(recursive=True)
        replay.send_signal(number)
        _, complained = replay.communicate(timeout=60)
    assert (128 + number, b"onepass replay: interrupted\n") == (replay.returncode, complained)
    assert [] == [*places.iterdir()]
    assert [] == [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
