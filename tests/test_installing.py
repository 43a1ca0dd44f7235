"""Packages installed by uv, or by pip where uv cannot be had or fails."""

import os
import signal
import subprocess
import sys
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from service.first_run import installing

ROOT = Path(__file__).resolve().parents[1]


def step(*arguments: object, python: Path | str = sys.executable, **environment: str) -> subprocess.Popen:
    """A step of the first run in a process of its own."""
    command = [str(python), "-m", "service.first_run", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def program(path: Path, text: str) -> Path:
    """A script that takes the place of uv."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class Wheels:
    """Wheels without content, a lock file that lists them, and an empty environment to put them into."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, folder / "lock.txt"
        self.lock.touch()
        self.target = folder / "environment"
        venv.create(self.target, with_pip=False)
        self.python = self.target / "bin/python"
        # pip and uv take them from the folder alone.
        self.places = {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_NO_CACHE": "1"} | dict.fromkeys(
            [f"{tool}_FIND_" + "LINKS" for tool in ("PIP", "UV")], str(folder)
        )

    def add(self, name: str) -> None:
        path = self.folder / f"{name}-1.0-py3-none-any.whl"
        files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name}-1.0.dist-info/{file},,\n" for file in (*files, "RECORD"))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", "")
            for file, text in (files | {"RECORD": f"{name}.py,,\n{record}"}).items():
                archive.writestr(f"{name}-1.0.dist-info/{file}", text)
        digest = sha256(path.read_bytes()).hexdigest()
        self.lock.write_text(f"{self.lock.read_text()}{name}==1.0 --hash=sha256:{digest}\n")

    def install(self, uv: object) -> tuple[int, list[str], str]:
        """Exit status and lines of a step that installs, and what it wrote as errors."""
        with step("install", "--uv", uv, self.lock, python=self.python, **self.places) as installing:
            out, err = installing.communicate(timeout=100)
        return installing.returncode, out.splitlines(), err

    @property
    def installed(self) -> set[str]:
        return {path.name for path in self.target.glob("lib/*/site-packages/*.dist-info")}


@pytest.fixture
def wheels(tmp_path: Path) -> Wheels:
    """Two wheels."""
    wheels = Wheels(tmp_path)
    wheels.add("one")
    wheels.add("two")
    return wheels


def test_uv_installs_what_is_locked(wheels: Wheels) -> None:
    """Into the environment that runs the step, which has no pip; progress is plain lines."""
    code, lines, error = wheels.install(Path(sys.executable).with_name("uv"))
    assert (0, "") == (code, error)
    assert lines[-1].startswith("2 packages installed in ")
    assert any(line.startswith("Resolved 2 packages") for line in lines)
    assert [] == [line for line in lines if "\x1b" in line or "one==1.0" in line]
    assert {"one-1.0.dist-info", "two-1.0.dist-info"} == wheels.installed


def test_pip_installs_where_uv_fails(wheels: Wheels) -> None:
    """What uv said is shown; pip is the one that Python brings, and compiles nothing."""
    failing = program(wheels.folder / "uv", "echo 'error: no such host'; exit 2")
    code, lines, error = wheels.install(failing)
    assert (0, "") == (code, error)
    assert ["error: no such host", "uv has failed, pip installs:"] == lines[1:3]
    assert ["package 1 of 2: fetching one", "package 2 of 2: fetching two"] == lines[3:5]
    assert lines[-1].startswith("2 packages installed in ")
    assert {"one-1.0.dist-info", "two-1.0.dist-info"} == wheels.installed
    assert [] == list(wheels.target.glob("lib/*/site-packages/__pycache__/one.*"))


@pytest.mark.parametrize("uv", ["no", "/nowhere/uv"])
def test_pip_installs_where_there_is_no_uv(wheels: Wheels, uv: str) -> None:
    """By request, or because it cannot be run."""
    code, lines, error = wheels.install(uv)
    assert (0, "") == (code, error)
    assert "package 2 of 2: fetching two" in lines
    assert {"one-1.0.dist-info", "two-1.0.dist-info"} == wheels.installed


def test_a_uv_that_cannot_be_fetched_stops_nothing(wheels: Wheels) -> None:
    """Where only the packages themselves can be had, pip installs them."""
    code, lines, _ = wheels.install("")
    assert 0 == code
    assert lines[0].startswith("fetching uv ")
    assert "uv cannot be had, pip installs:" in lines
    assert {"one-1.0.dist-info", "two-1.0.dist-info"} == wheels.installed


def test_a_package_that_nobody_can_find_is_an_error(wheels: Wheels) -> None:
    """The message is pip's, and so is the exit status."""
    wheels.lock.write_text(wheels.lock.read_text().replace("two==1.0", "two==2.0"))
    code, _, error = wheels.install("no")
    assert 1 == code
    assert "two==2.0" in error


def test_the_uv_that_is_there_is_used_in_the_locked_version_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is replaced, whoever installed it."""
    asked = []
    monkeypatch.setattr(installing, "_pip", lambda *words: asked.append(words) or (["true"], {}))
    progress = type("Silent", (), {"show": lambda *_: None, "keep": lambda *_: None})()
    assert str(Path(sys.executable).with_name("uv")) == installing._own_uv(progress)
    assert [] == asked
    monkeypatch.setattr(installing, "_version", lambda name: "0.1")
    installing._own_uv(progress)
    assert [("install", "--quiet", "--no-compile", "--require-hashes", "-r", str(installing.UV_LOCK))] == asked


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("with_uv", [False, True], ids=["pip", "uv"])
def test_installing_stops_without_a_traceback(tmp_path: Path, kind: signal.Signals, *, with_uv: bool) -> None:
    """A signal ends it and what it has started."""
    uv = program(tmp_path / "uv", f"echo $$ > {tmp_path}/pid; echo 'Resolved 1 package'; exec sleep 100")
    pip = tmp_path / "pip"
    pip.mkdir()
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(tmp_path)!r}, 'pid').write_text(str(os.getpid()))\n"
        "print('Collecting one (from -r x)', flush=True)\ntime.sleep(100)\n"
    )
    (tmp_path / "lock.txt").write_text("one==1.0\n")
    chosen = uv if with_uv else "no"
    with step("install", "--uv", chosen, tmp_path / "lock.txt", PYTHONPATH=str(tmp_path)) as running:
        expected = "Resolved 1 package\n" if with_uv else "package 1 of 1: fetching one\n"
        assert expected == running.stdout.readline()
        running.send_signal(kind)
        assert ("", "") == running.communicate(timeout=60)
    assert 128 + kind == running.returncode
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
