"""onepass backup and onepass restore."""

import io
import json
from types import SimpleNamespace

import httpx
import pytest

from service import cli
from service.cli import backup_file
from tests.service.backup_fixtures import parts_of


@pytest.fixture(scope="module")
def models(url):
    """Some models, each with a row under an id."""
    for name in ("b-1", "b-2", "b-3", "other"):
        body = {"task": "regression", "algorithm": "rls", "features": ["x"]}
        httpx.put(f"{url}/models/{name}", json=body).raise_for_status()
        row = {"features": {"x": 1.5}, "label": 2.0, "id": "one"}
        httpx.post(f"{url}/models/{name}/feedback", json=row).raise_for_status()
    return url


@pytest.fixture
def shell(models, capsys, monkeypatch):
    """Run a command on that service; its status, what it printed, what it complained of."""
    monkeypatch.setenv("ONEPASS_URL", models)
    monkeypatch.delenv("ONEPASS_KEY", raising=False)

    def run(*arguments):
        capsys.readouterr()
        return cli.main([*map(str, arguments)]), *capsys.readouterr()

    return run


def test_there_and_back(shell, models, tmp_path):
    """Deleted models come back with their ids; those that are there are skipped."""
    file = tmp_path / "all.backup"
    status, said, complained = shell("backup", file, "--models", "b-*")
    assert (0, "") == (status, complained)
    assert f"3 models, {file.stat().st_size:,} bytes" in said
    assert [file] == [*tmp_path.iterdir()]
    assert 0 == shell("delete", "b-1", "b-3", "--yes")[0]
    assert (0, "2 models restored, 1 model there already\n", "") == shell("restore", file)
    again = httpx.post(f"{models}/models/b-3/feedback", json={"features": {"x": 1.5}, "label": 2.0, "id": "one"})
    assert again.json()["duplicate"]
    told = json.loads(shell("restore", file, "--json", "--models", "b-2")[1])
    assert {"restored": [], "skipped": ["b-2"], "left_out": []} == told


@pytest.mark.parametrize("torn", [b"", b"M\0", b"nonsense"])
def test_an_interrupted_backup_goes_on(shell, models, tmp_path, torn):
    """Behind the last whole model, whatever stands behind that; the whole of it is a backup like any other."""
    file, part = tmp_path / "x", tmp_path / "x.part"
    assert 0 == shell("backup", file)[0]
    whole = file.read_bytes()
    ends = [end for kind, _, end in parts_of(whole) if kind == b"E"]
    file.unlink()
    part.write_bytes(whole[: ends[1]] + torn)
    status, said, complained = shell("backup", file, "--json")
    assert (0, f"{file} goes on behind b-2: 2 models are whole\n") == (status, complained)
    assert {"file": str(file), "models": 4, "bytes": file.stat().st_size, "left_out": []} == json.loads(said)
    found = parts_of(file.read_bytes())
    assert ["b-1", "b-2", "b-3", "other"] == [one.name for kind, one, _ in found if kind == b"M"]
    assert [file] == [*tmp_path.iterdir()]
    assert "0 models restored, 4 models" in shell("restore", file)[1]


def test_a_backup_is_not_written_over_unasked(shell, tmp_path):
    """With --force it is, once the new one is whole; that one is continued like any other."""
    file, part = tmp_path / "x", tmp_path / "x.part"
    assert 0 == shell("backup", file, "--models", "b-1")[0]
    older = file.read_bytes()
    assert (2, "", f"onepass backup: {file} is there already; --force replaces it\n") == shell("backup", file)
    assert 1 == shell("backup", file, "--force", "--url", "http://127.0.0.1:1")[0]
    assert (older, [file]) == (file.read_bytes(), [*tmp_path.iterdir()])
    assert 0 == shell("backup", tmp_path / "y")[0]
    whole = (tmp_path / "y").read_bytes()
    part.write_bytes(whole[: [end for kind, _, end in parts_of(whole) if kind == b"E"][1]])
    status, _, complained = shell("backup", file, "--force")
    assert (0, f"{file} goes on behind b-2: 2 models are whole\n") == (status, complained)
    assert 4 == [kind for kind, _, _ in parts_of(file.read_bytes())].count(b"M")


@pytest.mark.parametrize("other", ["age", "models"])
def test_an_old_part_is_not_continued(shell, tmp_path, monkeypatch, other):
    """Nor one of other models: the backup begins anew."""
    file, part = tmp_path / "x", tmp_path / "x.part"
    assert 0 == shell("backup", part)[0]
    part.write_bytes(part.read_bytes()[:-30])
    if other == "age":
        monkeypatch.setattr(backup_file, "time", SimpleNamespace(time=lambda: 4e9))
    asked = ("--models", "[bo]*") if other == "models" else ()
    assert (0, "") == shell("backup", file, *asked)[::2]
    assert 1 == [kind for kind, _, _ in parts_of(file.read_bytes())].count(b"H")


def test_what_is_not_whole_is_refused(shell, models, tmp_path):
    """The status is 1, and the message says what is there; a backup that fails leaves no file."""
    file = tmp_path / "x"
    assert 0 == shell("backup", file)[0]
    file.write_bytes(file.read_bytes()[:-10])
    status, said, complained = shell("restore", file)
    assert (1, "") == (status, said)
    assert "behind model other the backup cannot be read: it is cut off" in complained
    assert 1 == shell("restore", tmp_path / "none")[0]
    status, _, complained = shell("backup", tmp_path / "y", "--url", "http://127.0.0.1:1")
    assert (1, True) == (status, "cannot reach" in complained)
    assert [file] == [*tmp_path.iterdir()]
    assert 2 == shell("backup", "-", "--json")[0]


def test_a_conflict_is_named(shell, models, tmp_path):
    """The model that has gone on stays, and the status is 1."""
    file = tmp_path / "x"
    assert 0 == shell("backup", file, "--models", "other")[0]
    httpx.post(f"{models}/models/other/feedback", json={"features": {"x": 1.0}, "label": 2.0}).raise_for_status()
    status, _, complained = shell("restore", file)
    assert (1, True) == (status, "models.other: is at version 2 here" in complained)


def test_through_a_pipe(shell, models, monkeypatch):
    """From standard output into standard input."""
    out = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert 0 == cli.main(["backup", "-", "--models", "b-1"])
        body = out.buffer.getvalue()
    assert b"T" == parts_of(body)[-1][0]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert "0 models restored, 1 model" in shell("restore", "-")[1]
