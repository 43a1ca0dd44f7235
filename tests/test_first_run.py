"""What a first run says while it installs and compiles, and how it ends when it is stopped."""

import importlib
import os
import re
import signal
import subprocess
import sys
import zipfile
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from service import first_run, kernels

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "service/requirements.txt"

SOURCE = """
from numba import njit

@njit
def _part(x):
    return x + 1

@njit("f8(f8)", cache=True)
def one(x):
    return _part(x)

@njit("f8(f8)", cache=True)
def two(x):
    return one(x)
"""

LOAD = """
import sys
from service import kernels
sys.path.insert(0, sys.argv[1])
kernels.load(lambda *said: print(*said[:2], *said[2]), "pack")
"""


class Terminal(StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package of two kernels, in a module of a package in it."""
    (tmp_path / "pack/inner").mkdir(parents=True)
    for name in ("pack/__init__.py", "pack/inner/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "pack/inner/rows.py").write_text(SOURCE)
    return tmp_path


def step(*arguments: object, **environment: str) -> subprocess.Popen:
    """A step of the first run in a process of its own."""
    command = [sys.executable, "-m", "service.first_run", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def loaded(package: Path) -> list[str]:
    """What loading it in a new process reports."""
    command = [sys.executable, "-c", LOAD, str(package)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(package / "cache")}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_the_kernels_that_are_announced_are_those_there_are() -> None:
    """The sources of core declare exactly the functions that Numba was given with a signature."""
    declared = kernels.declared()
    modules = [importlib.import_module(name) for name in {kernel.module for kernel in declared}]
    compiled = [
        kernels.Kernel(module.__name__, name)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher) and not value._can_compile and value.py_func.__module__ == module.__name__
    ]
    assert sorted(compiled) == sorted(declared)
    assert len(declared) > 50


def test_what_is_compiled_is_reported_and_what_is_cached_is_not(package: Path) -> None:
    """Each kernel once, before it is compiled, with its number; after a change only those of the changed module."""
    assert ["1 2 pack.inner.rows one", "2 2 pack.inner.rows two"] == loaded(package)
    assert [] == loaded(package)
    (package / "pack/later.py").write_text(
        'from numba import njit\n\n@njit("i8()", cache=True)\ndef three():\n    return 3\n'
    )
    assert ["3 3 pack.later three"] == loaded(package)


def test_a_first_run_says_what_it_will_do() -> None:
    """How many packages and kernels, and how long it takes."""
    out = StringIO()
    first_run.announce(LOCK, out)
    packages, compiled = map(int, re.findall(r"(\d+) (?:packages|kernels)", out.getvalue()))
    assert LOCK.read_text().count("==") >= packages > 40
    assert len(kernels.declared()) == compiled


def test_the_first_steps_need_nothing_installed() -> None:
    """Announcing and installing run on a bare Python."""
    code = "import sys; sys.path.insert(0, '.'); import service.first_run as it; it.main(['announce', sys.argv[1]])"
    finished = subprocess.run([sys.executable, "-ISc", code, LOCK], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (finished.returncode, finished.stderr)
    assert finished.stdout.startswith("First run: ")


def _wheel(folder: Path, name: str) -> str:
    """Write a wheel without content; its line in a lock file."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{name}-1.0.dist-info/{file}", text)
    return f"{name}==1.0 --hash=sha256:{sha256(path.read_bytes()).hexdigest()}\n"


def test_installing_counts_packages(tmp_path: Path) -> None:
    """Every package when it is fetched, and all of them at the end; a package that pip cannot find is its error."""
    lock = tmp_path / "lock.txt"
    lock.write_text(_wheel(tmp_path, "one") + _wheel(tmp_path, "two"))
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_" + "LINKS": str(tmp_path), "PIP_TARGET": str(tmp_path / "site")}
    with step("install", lock, **pip) as installing:
        lines = installing.communicate()[0].splitlines()
    assert ["package 1 of 2: fetching one", "package 2 of 2: fetching two"] == lines[:2]
    assert lines[-1].startswith("2 packages installed in ")
    assert 0 == installing.returncode
    assert {"one-1.0.dist-info", "two-1.0.dist-info"} == {path.name for path in (tmp_path / "site").iterdir()}
    lock.write_text(lock.read_text().replace("two==1.0", "two==2.0"))
    with step("install", lock, **pip) as installing:
        assert "two==2.0" in installing.communicate()[1]
    assert 1 == installing.returncode


def test_a_terminal_sees_one_line_and_a_file_many() -> None:
    """On a terminal progress is rewritten in place and no longer than a line; the result stays."""
    for out, expected in (
        (Terminal(), r"(\r\x1b\[K[^\n]{1,200}){2}\r\x1b\[Kdone in \d+ s\n"),
        (StringIO(), r"x+\ny\ndone in \d+ s\n"),
    ):
        progress = first_run.Progress(out)
        for text in ("x" * 500, "y", "y"):
            progress.show(text)
        progress.end("done")
        assert re.fullmatch(expected, out.getvalue())


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_installing_stops_without_a_traceback(tmp_path: Path, kind: signal.Signals) -> None:
    """A signal ends it and the pip that it has started."""
    pip = tmp_path / "pip"
    pip.mkdir()
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text("import time\nprint('Collecting one (from -r x)', flush=True)\ntime.sleep(100)\n")
    (tmp_path / "lock.txt").write_text("one==1.0\n")
    with step("install", tmp_path / "lock.txt", PYTHONPATH=str(tmp_path)) as installing:
        assert "package 1 of 1: fetching one\n" == installing.stdout.readline()
        installing.send_signal(kind)
        assert ("", "") == installing.communicate(timeout=60)
    assert 128 + kind == installing.returncode


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_compiling_stops_without_a_traceback(tmp_path: Path, kind: signal.Signals) -> None:
    """A signal ends it at once."""
    with step("compile", NUMBA_CACHE_DIR=str(tmp_path)) as compiling:
        assert compiling.stdout.readline().startswith("kernel 1 of ")
        compiling.send_signal(kind)
        assert "" == compiling.communicate(timeout=60)[1]
    assert -kind == compiling.returncode
