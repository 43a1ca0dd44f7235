"""``onepass export`` and ``import``: states by file, and what is asked before one is lost."""

from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from tests.service.client.fixtures import Shell, answering


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


def test_a_file_is_whole_or_as_it_was(shell: Shell, tmp_path: Path) -> None:
    """An export that breaks off leaves the older file, and nothing beside it; a proxy's page is no answer."""
    file = tmp_path / "state"
    file.write_text("older")
    with answering(lambda path: (200, b"breaks off") if path.endswith("/state") else (502, b"<html>")) as there:
        assert 1 == shell("export", "m", file, "--force", "--url", there)[0]
        assert "not like Onepass" in shell("show", "m", "--url", there)[2]
    assert [("state", "older")] == [(one.name, one.read_text()) for one in tmp_path.iterdir()]


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
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    asked = []
    for answer, status, rows in (("", 1, 3), ("n", 1, 3), ("Y", 0, 2)):
        monkeypatch.setattr("builtins.input", lambda text, answer=answer: asked.append(text) or answer)
        assert status == shell("import", "target", file)[0]
        assert rows == httpx.get(f"{url}/models/target").json()["rows"]
    assert ["Replace target and the 3 rows that it has learned? [y/N] "] * 3 == asked
    assert 0 == shell("import", "target", file, "--yes")[0]


def test_an_export_to_a_device_leaves_the_device(shell: Shell, tmp_path: Path) -> None:
    """What is no file is written to, not replaced by one."""
    shell("create", "dev", "--task", "regression", "--features", "x")
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert 0 == shell("export", "dev", link)[0]
    assert link.is_char_device()
