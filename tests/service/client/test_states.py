"""``onepass export`` and ``import``: states by file, and all models in a tar from one service to another."""

import io
import json
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from service.client import private, states
from service.client.failures import Interrupted
from service.client.session import Refused, Session
from service.client.states import state_digest, state_of
from tests.service.client.fixtures import Shell, answering


def test_states_by_file(shell: Shell, url: str, tmp_path: Path) -> None:
    """A model's state makes another model of the same rows; what is no state changes nothing."""
    shell("create", "from", "--task", "regression")
    for at in range(5):
        shell("feedback", "from", f"x={at}", "--label", at)
    file = tmp_path / "state"
    file.write_text("older")
    assert (2, "", f"onepass export: {file} exists already; --force replaces it\n") == shell("export", "from", file)
    assert "older" == file.read_text()
    status, said, _ = shell("export", "from", file, "--force")
    assert (0, f"from: {file.stat().st_size:,} bytes in {file}\n") == (status, said)
    assert [file] == [*tmp_path.iterdir()]
    assert (0, "to made: 5 rows, version 0\n", "") == shell("import", "to", file)
    assert 0 == shell("create", "too", "--task", "regression")[0]
    assert 0 == shell("import", "too", "-", stdin=file.read_bytes())[0], "nothing is lost of a model without rows"
    assert [5, 5] == [httpx.get(f"{url}/models/{name}").json()["rows"] for name in ("to", "too")]
    (tmp_path / "none").write_bytes(b"no state")
    assert (1, 1) == tuple(shell("import", name, tmp_path / "none", "--yes")[0] for name in ("to", "new"))
    assert 1 == shell("import", "to", tmp_path / "absent")[0]
    assert 1 == shell("export", "from", tmp_path / "absent" / "state")[0]


def test_a_model_that_has_learned_is_not_replaced_unasked(
    shell: Shell, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal --yes says it; in one there is a question, which "no" and nothing answer alike."""
    file = tmp_path / "state"
    for name, rows in (("source", 2), ("TargetB", 3)):
        shell("create", name, "--task", "regression", "--algorithm", "rls")
        for at in range(rows):
            shell("feedback", name, f"x={at}", "--label", at)
    assert 0 == shell("export", "source", file)[0]
    said = "onepass import: replace TargetB: it has learned 3 rows; --yes confirms it\n"
    assert (2, "", said) == shell("import", "TargetB", file, stdin=b"")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    asked = []
    for answer, status, rows in (("", 1, 3), ("n", 1, 3), ("Y", 0, 2)):
        monkeypatch.setattr("builtins.input", lambda text, answer=answer: asked.append(text) or answer)
        assert status == shell("import", "TargetB", file)[0]
        assert rows == httpx.get(f"{url}/models/TargetB").json()["rows"]
    assert ["Replace TargetB and the 3 rows that it has learned? [y/N] "] * 3 == asked
    monkeypatch.setattr("builtins.input", Mock(side_effect=EOFError))  # Ctrl-D
    assert (1, "\n", "onepass import: replace TargetB: not done\n") == shell("import", "TargetB", file)
    assert 0 == shell("import", "TargetB", file, "--yes")[0]


def test_an_export_to_a_device_leaves_the_device(shell: Shell, tmp_path: Path) -> None:
    """What is no file is written to, not replaced by one."""
    shell("create", "dev", "--task", "regression", "--features", "x")
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert 0 == shell("export", "dev", link)[0]
    assert link.is_char_device()


NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def filled(empty: str) -> str:
    """A service with only three models: a regression, a classification with a challenger, one without rows."""
    for name, task in zip(NAMES, ("regression", "classification", "regression"), strict=True):
        httpx.put(f"{empty}/models/{name}", json={"task": task, "algorithm": "dfop"}).raise_for_status()
    httpx.put(f"{empty}/models/b/challengers/vigo", json={"algorithm": "vigo"}).raise_for_status()
    for at in range(5):
        for name, label in (("a", at), ("b", f"{at % 2}")):
            teach(empty, name, at, label)
    return empty


@pytest.fixture(scope="module")
def second() -> Iterator[str]:
    """Another service, on a store of its own; its errors name no page, as it ends with the command."""
    with private.session() as running:
        with pytest.raises(Refused, match="422") as refused:
            running.ask("GET", "/models?limit=0")
        assert "/problems/" not in str(refused.value)
        yield running.url


@pytest.fixture
def other(second: str) -> str:
    """The other service, without models."""
    for name in listed(second):
        httpx.delete(f"{second}/models/{name}").raise_for_status()
    return second


@pytest.fixture
def tar(shell: Shell, filled: str, tmp_path: Path) -> Path:
    """All models of the first service."""
    file = tmp_path / "all.tar"
    status, said, complained = shell("export", "--all", file)
    assert (0, "", NAMES) == (status, complained, listed(filled))
    assert said.startswith("3 models: ")
    assert [file] == [*tmp_path.iterdir()]
    return file


def teach(url: str, name: str, x: float, label: object) -> None:
    row = {"features": {"x": x}, "label": label}
    httpx.post(f"{url}/models/{name}/feedback", json=row).raise_for_status()


def listed(url: str) -> list[str]:
    return [one["name"] for one in httpx.get(f"{url}/models").json()["models"]]


def digest(url: str, name: str) -> str | None:
    return state_digest(httpx.get(f"{url}/models/{name}/state?consistency=strong").content)


def brought(shell: Shell, file: Path, url: str, *flags: str) -> tuple[int, dict[str, Any], str]:
    status, said, complained = shell("import", file, "--url", url, "--json", *flags)
    return status, json.loads(said) if said else {}, complained


def told(imported: list[str] = [], replaced: list[str] = [], skipped: list[str] = []) -> dict[str, Any]:  # noqa: B006
    return {"imported": imported, "replaced": replaced, "skipped": skipped, "refused": []}


def packed(file: Path, *members: tuple[str, bytes, bytes]) -> Path:
    """A tar of members: name, type, content."""
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as out:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(content)
            out.addfile(member, io.BytesIO(content))
    return file


def content(file: Path, name: str) -> bytes:
    with tarfile.open(file) as found:
        return found.extractfile(f"{name}.safetensors").read()  # type: ignore[union-attr]


def test_models_move_between_services(shell: Shell, filled: str, other: str, tar: Path) -> None:
    """Each has the same state there, also one that a killed import has only created; sent again they are skipped."""
    config = httpx.get(f"{filled}/models/a").json()["config"]
    httpx.put(f"{other}/models/a", json=config).raise_for_status()
    assert (0, "3 models imported, 0 replaced, 0 there already\n", "") == shell("import", tar, "--url", other)
    assert [digest(filled, name) for name in NAMES] == [digest(other, name) for name in NAMES]
    assert (0, told(skipped=NAMES), "") == brought(shell, tar, other)
    assert (0, told(skipped=NAMES), "") == brought(shell, tar, filled)
    assert ["vigo"] == [one["name"] for one in httpx.get(f"{other}/models/b/challengers").json()["challengers"]]


def test_a_model_of_another_state_is_refused(shell: Shell, filled: str, other: str, tar: Path) -> None:
    """The others go on; --overwrite replaces it; one of another configuration stays in any case."""
    assert 0 == brought(shell, tar, other)[0]
    teach(other, "a", 7, 7)
    httpx.delete(f"{other}/models/b").raise_for_status()
    learned = digest(other, "a")
    status, done, complained = brought(shell, tar, other)
    assert (1, ["b"], ["c"], ["a"]) == (status, done["imported"], done["skipped"], [r["name"] for r in done["refused"]])
    assert "1 model refused\n  a: has another state here; --overwrite replaces it" in complained
    assert learned == digest(other, "a") != digest(filled, "a")
    for step in ({"action": "begin", "features": ["y"]}, {"action": "complete", "force": True}):
        httpx.post(f"{other}/models/a/features/switch", json=step).raise_for_status()
    assert (0, told(replaced=["a"], skipped=["b", "c"]), "") == brought(shell, tar, other, "--overwrite")
    assert digest(filled, "a") == digest(other, "a")
    httpx.delete(f"{other}/models/a").raise_for_status()
    httpx.put(f"{other}/models/a", json={"task": "regression", "algorithm": "rls"}).raise_for_status()
    teach(other, "a", 7, 7)
    kept = digest(other, "a")
    status, done, complained = brought(shell, tar, other, "--overwrite")
    assert (1, ["b", "c"], "algorithm" in complained, kept) == (status, done["skipped"], True, digest(other, "a"))
    assert "import it under another name" in complained


def test_an_interrupted_import_says_what_is_there(
    shell: Shell, filled: str, other: str, tar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command goes on from there."""
    put = states._put

    def interrupted(session: Any, name: str, state: Any) -> Any:
        if name == "b":
            raise Interrupted(signal.SIGTERM)
        return put(session, name, state)

    monkeypatch.setattr(states, "_put", interrupted)
    status, done, complained = brought(shell, tar, other)
    assert (128 + signal.SIGTERM, told(imported=["a"])) == (status, done)
    assert "onepass import: interrupted\n" == complained
    monkeypatch.undo()
    assert (0, told(imported=["b", "c"], skipped=["a"]), "") == brought(shell, tar, other)
    assert [digest(filled, name) for name in NAMES] == [digest(other, name) for name in NAMES]


def test_a_member_that_is_no_state_ends_the_import(shell: Shell, other: str, tar: Path, tmp_path: Path) -> None:
    """It is named, and nothing of it or after it is imported; one that the file cannot hold is cut off."""
    own, plain = ("a.safetensors", tarfile.REGTYPE, content(tar, "a")), tarfile.REGTYPE
    names = ("../x.safetensors", "/x.safetensors", ".safetensors", f"{'x' * 65}.safetensors", "x")
    kinds = (tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
    for name, kind in [*((name, plain) for name in names), *(("x.safetensors", kind) for kind in kinds)]:
        status, done, complained = brought(shell, packed(tmp_path / "bad.tar", (name, kind, b""), own), other)
        assert (1, told()) == (status, done)
        assert f"member {name!a} of {tmp_path / 'bad.tar'} is not a plain file NAME.safetensors" in complained
    for size in (2**60, 2**33):
        member = tarfile.TarInfo("x.safetensors")
        member.size = size
        (tmp_path / "bad.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
        status, _, complained = brought(shell, tmp_path / "bad.tar", other)
        assert (1, True) == (status, "cut off" in complained), complained
    assert [] == listed(other)


@pytest.mark.parametrize("where", ["data", "header", "boundary", "damaged"])
def test_a_tar_that_is_cut_off(shell: Shell, other: str, tar: Path, where: str) -> None:
    """What is whole is imported and named, and the status is 1."""
    with tarfile.open(tar) as found:
        start = found.getmember("c.safetensors").offset
    whole = tar.read_bytes()
    ends = {"data": start + 612, "header": start + 100, "boundary": start}
    changed = whole[:start] + b"#" + whole[start + 1 :] if where == "damaged" else whole[: ends[where]]
    tar.write_bytes(changed)
    status, done, complained = brought(shell, tar, other)
    assert (1, told(imported=["a", "b"])) == (status, done)
    assert f"{tar} is cut off or damaged after 2 models; " in complained
    assert ["a", "b"] == listed(other)
    tar.write_bytes(whole)
    assert (0, told(imported=["c"], skipped=["a", "b"]), "") == brought(shell, tar, other)


def test_what_is_no_state_is_refused_alone(shell: Shell, filled: str, other: str, tar: Path, tmp_path: Path) -> None:
    """A member that the service does not take, new or not, and a file that is no tar."""
    own = ("a.safetensors", tarfile.REGTYPE, content(tar, "a"))
    torn = [(f"{name}.safetensors", tarfile.REGTYPE, own[2][:-8]) for name in ("b", "new")]
    file = packed(tmp_path / "torn.tar", *torn, own)
    for flags in ((), ("--overwrite",)):
        httpx.delete(f"{other}/models/a")
        status, done, _ = brought(shell, file, other, *flags)
        assert (1, ["a"], ["b", "new"]) == (status, done["imported"], [one["name"] for one in done["refused"]])
    assert 1 == brought(shell, file, filled, "--overwrite")[0]
    assert 5 == httpx.get(f"{filled}/models/b").json()["rows"]
    for empty in (b"", b"no tar", content(tar, "a")):
        file.write_bytes(empty)
        complained = brought(shell, file, other)[2]
        assert "is not a tar, or cut off; the state of one model is imported by NAME FILE" in complained


def test_what_cannot_be_asked(shell: Shell, tar: Path) -> None:
    """Neither or both of a name and all, a tar from a pipe, a file that is there."""
    for arguments in (("export", tar), ("export", "--all", "a", tar), ("export", "--all", tar), ("import", "-")):
        assert 2 == shell(*arguments)[0], arguments
    none = tar.with_name("none")
    assert (1, "", f"onepass import: {none}: No such file or directory\n") == shell("import", none)


PAGE = json.dumps({"models": [{"name": name} for name in NAMES], "next": None}).encode()
DOWN = b'{"type": "model-down", "detail": "model b is out of service"}'


def test_a_key_of_some_models_is_told_that_others_are_left_out(shell: Shell, tmp_path: Path) -> None:
    """The file holds what the key may read, and the command says so."""
    page = json.dumps({"models": [{"name": "b"}], "next": None}).encode()
    found = {"/models": (200, page), "/models/b/state": (200, b"state"), "/key": (200, b'{"models": ["b*"]}')}
    with answering(found.__getitem__) as url:
        status, _, complained = shell("export", "--all", tmp_path / "tar", "--url", url)
    assert (0, "this key sees b* only; other models are not in the file\n") == (status, complained)
    assert b"state" == content(tmp_path / "tar", "b")


def test_models_out_of_service_are_left_out(shell: Shell, tmp_path: Path) -> None:
    """They are named, and the status is 1; one that was deleted meanwhile is not."""
    found = {"/models": (200, PAGE), "/models/a/state": (200, b"state"), "/models/b/state": (503, DOWN)}
    found |= {"/models/c/state": (404, b"{}"), "/key": (200, b'{"models": []}')}
    with answering(found.__getitem__) as url:
        status, said, complained = shell("export", "--all", tmp_path / "tar", "--url", url, "--json")
    left_out = [{"name": "b", "detail": "model b is out of service"}]
    assert {"file": str(tmp_path / "tar"), "models": 1, "bytes": 5, "left_out": left_out} == json.loads(said)
    assert (1, "1 model left out\n  b: model b is out of service\n") == (status, complained.partition(": ")[2])
    assert b"state" == content(tmp_path / "tar", "a")


def test_a_state_has_all_that_is_on_the_log() -> None:
    """A service that is behind catches up first; where the store is away its own state is taken."""
    for away in (False, True):

        def answer(request: httpx.Request, away: bool = away) -> httpx.Response:
            strong = request.url.params.get("consistency") == "strong"
            return httpx.Response(503 if strong and away else 200, content=b"up to date" if strong else b"its own")

        with Session("http://service", transport=httpx.MockTransport(answer)) as session:
            assert (b"its own" if away else b"up to date") == state_of(session, "a")


@pytest.mark.parametrize("last", [(200, b"breaks off"), (401, b"{}")])
def test_a_service_that_goes_away_leaves_the_older_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: tuple[int, bytes]
) -> None:
    """Whether a state breaks off or the key is not known: there is the older file, and nothing beside it."""
    monkeypatch.setattr("service.client.session.PATIENCE_S", 0.0)
    (tmp_path / "tar").write_text("older")
    found = {"/models": (200, PAGE), "/models/a/state": (200, b"state"), "/models/b/state": last}
    with answering(found.__getitem__) as url:
        for what in ("--all", "b"):
            status, _, complained = shell("export", what, tmp_path / "tar", "--url", url, "--force")
            assert (1, last[0] == 401) == (status, "give the key with --key or ONEPASS_API_KEY" in complained)
    assert [("tar", "older")] == [(one.name, one.read_text()) for one in tmp_path.iterdir()]
