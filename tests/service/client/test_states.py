"""``onepass export`` and ``import``: states by file, and what is asked before one is lost."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.client.fixtures import Shell


def test_states_by_file(shell: Shell, url: str, tmp_path: Path) -> None:
    """A model's state makes another model of the same rows; what is no state changes nothing."""
    shell("create", "from", "--task", "regression")
    for at in range(5):
        shell("feedback", "from", f"x={at}", "--label", at)
    file = tmp_path / "state"
    file.write_text("older")
    assert (2, "", f"onepass export: {file} is there already; --force replaces it\n") == shell("export", "from", file)
    assert "older" == file.read_text()
    status, said, _ = shell("export", "from", file, "--force")
    assert (0, f"from: {file.stat().st_size:,} bytes in {file}\n") == (status, said)
    assert [file] == [*tmp_path.iterdir()]
    assert (0, "to made: 5 rows, version 1\n", "") == shell("import", "to", file)
    assert 0 == shell("create", "too", "--task", "regression")[0]
    assert 0 == shell("import", "too", "-", stdin=file.read_bytes())[0], "nothing is lost of a model without rows"
    assert [5, 5] == [httpx.get(f"{url}/models/{name}").json()["rows"] for name in ("to", "too")]
    (tmp_path / "none").write_bytes(b"no state")
    assert (1, 1) == tuple(shell("import", name, tmp_path / "none", "--yes")[0] for name in ("to", "new"))
    assert 1 == shell("import", "to", tmp_path / "absent")[0]
    assert 1 == shell("export", "from", tmp_path / "absent" / "state")[0]


@pytest.fixture
def broken_off() -> Iterator[str]:
    """A service whose states break off in the middle, and which answers all else with a proxy's page."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path.endswith("/state") else 502)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"<html>" if self.path.endswith("/state") else b"x" * 1000)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_is_whole_or_as_it_was(shell: Shell, broken_off: str, tmp_path: Path) -> None:
    """An export that breaks off leaves the older file, and nothing beside it."""
    file = tmp_path / "state"
    file.write_text("older")
    assert 1 == shell("export", "m", file, "--force", "--url", broken_off)[0]
    assert [("state", "older")] == [(one.name, one.read_text()) for one in tmp_path.iterdir()]
    assert "not like Onepass" in shell("show", "m", "--url", broken_off)[2]


def test_a_model_that_has_learned_is_not_replaced_unasked(
    shell: Shell, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal --yes says it; in one there is a question, which "no" and nothing answer alike."""
    file = tmp_path / "state"
    for name, rows in (("source", 2), ("target", 3)):
        shell("create", name, "--task", "regression", "--algorithm", "rls")
        for at in range(rows):
            shell("feedback", name, f"x={at}", "--label", at)
    assert 0 == shell("export", "source", file)[0]
    said = "onepass import: replace target: it has learned 3 rows; --yes does it\n"
    assert (2, "", said) == shell("import", "target", file, stdin=b"")
    monkeypatch.setattr("sys.stdin", Terminal())
    asked = []
    for answer, status, rows in (("", 1, 3), ("n", 1, 3), ("Y", 0, 2)):
        monkeypatch.setattr("builtins.input", lambda text, answer=answer: asked.append(text) or answer)
        assert status == shell("import", "target", file)[0]
        assert rows == httpx.get(f"{url}/models/target").json()["rows"]
    assert ["Replace target and the 3 rows that it has learned? [y/N] "] * 3 == asked
    assert 0 == shell("import", "target", file, "--yes")[0]


class Terminal:
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_an_export_to_a_device_leaves_the_device(shell: Shell, tmp_path: Path) -> None:
    """What is no file is written to, not replaced by one."""
    shell("create", "dev", "--task", "regression", "--features", "x")
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert 0 == shell("export", "dev", link)[0]
    assert link.is_char_device()
