"""``onepass replay --stream``: the same as by batches, also where streams break."""

import csv
import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from service.replay import Failed
from service.replay import stream as replay_stream

ROWS = 1500


def table(path: Path, regression: bool = False, rows: int = ROWS) -> Path:
    """Write numbers, a category, an id, and a label that follows from them."""
    rng = random.Random(3)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "day", "key", "y"])
        for number in range(rows):
            a, b = rng.random(), rng.random()
            day, label = rng.choice(["mon", "tue, late", "3"]), round(3 * a - b, 6) if regression else int(a > b)
            writer.writerow([round(a, 4), "" if number % 50 == 7 else round(b, 4), day, f"k{number}", label])
    return path


def metrics(url: str, name: str) -> dict:
    """The model's, without what tells one model from another."""
    found = httpx.get(f"{url}/models/{name}/metrics").json()
    return {name: value for name, value in found.items() if name not in ("version", "incarnation", "marks")}


class Cutting:
    """Between client and service: cuts the first connections after so many bytes of an answer."""

    def __init__(self, url: str, cuts: int, after: int) -> None:
        parts = urlsplit(url)
        self._to, self._cuts, self._after = (parts.hostname, parts.port), cuts, after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                service = socket.create_connection(self._to)
                threading.Thread(target=self._pass, args=(client, service, 0), daemon=True).start()
                threading.Thread(target=self._pass, args=(service, client, self._after), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, after: int) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
                passed += len(data)
                if after and passed > after and self.cut < self._cuts:
                    self.cut += 1
                    break
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_stream_is_what_batches_are(kind: str, tmp_path: Path, run: Callable, url: str) -> None:
    """The same rows, categories, missing values and labels, in the same order."""
    file = table(tmp_path / f"{kind}.csv", kind == "regression")
    options = ["--algorithm", "dfop", "--task", kind, "--categorical", "day", "--drop", "key", "--missing", "mean"]
    for name, more in (("by-batch", []), ("by-stream", ["--stream"])):
        status, said, complained = run(file, *options, "--url", url, "--name", f"{kind}-{name}", *more)
        assert (0, "") == (status, complained)
        assert f"{ROWS:,} rows in" in said
    assert metrics(url, f"{kind}-by-batch") == metrics(url, f"{kind}-by-stream")


def test_a_stream_that_breaks_goes_on(tmp_path: Path, run: Callable, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not answered is sent again by its id: every row is learned once, and none is said to have been known."""
    monkeypatch.setattr(replay_stream, "PAUSE_S", 0.05)
    file = table(tmp_path / "broken.csv")
    options = ["--algorithm", "dfop", "--drop", "day,key", "--missing", "zero"]
    assert 0 == run(file, *options, "--url", url, "--name", "whole")[0]
    between = Cutting(url, cuts=3, after=30_000)
    try:
        status, said, _ = run(file, *options, "--url", between.url, "--name", "broken", "--stream")
    finally:
        between.close()
    assert (0, 3) == (status, between.cut)
    assert "had been learned before" not in said
    assert metrics(url, "whole") == metrics(url, "broken")


def test_ids_of_a_column_are_known_again(tmp_path: Path, run: Callable, url: str) -> None:
    """A file that is streamed twice is learned once."""
    file = table(tmp_path / "twice.csv", rows=300)
    options = ["--algorithm", "dfop", "--drop", "day", "--missing", "zero", "--id", "key", "--url", url, "--stream"]
    assert "300 of them" not in run(file, *options)[1]
    assert "300 of them had been learned before" in run(file, *options)[1]
    assert 300 == metrics(url, "twice")["rows"]


def test_a_refused_row_is_named_by_its_line(tmp_path: Path, run: Callable, url: str) -> None:
    """With what was learned before it."""
    file = table(tmp_path / "refused.csv", rows=20)
    with file.open("a") as more:
        more.write("red,0.5,mon,k20,1\n")
    status, _, complained = run(
        file, "--algorithm", "dfop", "--drop", "day,key", "--missing", "zero", "--url", url, "--stream"
    )
    assert 1 == status
    assert "line 22: refused with HTTP 422: features.a" in complained
    assert "20 rows before that: learned by model refused" in complained


def test_a_service_that_is_gone_ends_it(
    tmp_path: Path, run: Callable, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as long as the replay is patient, with the reason."""
    monkeypatch.setattr("service.replay.client.Service.__init__.__kwdefaults__", {"private": False, "patience_s": 0.3})
    between = Cutting(url, cuts=1, after=100_000)  # behind GET /algorithms

    def close_when_cut(*_: object) -> None:
        between.close()

    monkeypatch.setattr(replay_stream.time, "sleep", close_when_cut)
    file = table(tmp_path / "gone.csv", rows=3000)
    options = ["--algorithm", "dfop", "--drop", "day,key", "--missing", "zero", "--url", between.url, "--stream"]
    status, _, complained = run(file, *options)
    assert 1 == status
    assert "the stream broke" in complained
    assert "gave up" in complained


def test_a_model_out_of_service_is_not_waited_for() -> None:
    """Its refusal ends the replay at once, where any other 503 has the rows sent again."""
    stream = replay_stream.RowStream("http://127.0.0.1:9", None, "models/m/feedback/stream", 60.0)
    stream._waiting.append(replay_stream.Sent(b"{}\n", 7))
    error = {"type": "/problems/model-down", "status": 503, "detail": "model m is out of service", "errors": []}
    with pytest.raises(Failed, match="line 7: .*out of service"):
        stream._taken({"error": error})
    with pytest.raises(replay_stream._Broken):
        stream._taken({"error": error | {"type": "/problems/queue-full"}})
