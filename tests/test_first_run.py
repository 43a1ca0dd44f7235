"""What a first run says while it installs and compiles, and how it ends when it is stopped."""

import importlib
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import psutil
import pytest
from numba.core.dispatcher import Dispatcher

from service.first_run import kernels, steps
from service.first_run.terminal import Progress

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "service/requirements.txt"


class Terminal(StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def step(*arguments: object, **environment: str) -> subprocess.Popen:
    """A step of the first run in a process of its own."""
    command = [sys.executable, "-m", "service.first_run", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


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


def test_a_first_run_says_what_it_will_do() -> None:
    """How many packages and kernels, and how long it takes."""
    out = StringIO()
    steps.announce(LOCK, out)
    packages, compiled = map(int, re.findall(r"(\d+) (?:packages|kernels)", out.getvalue()))
    assert LOCK.read_text().count("==") >= packages > 40
    assert len(kernels.declared()) == compiled


def test_the_first_steps_need_nothing_installed() -> None:
    """Announcing and installing run on a bare Python."""
    code = (
        "import sys; sys.path.insert(0, '.'); from service.first_run.steps import main; main(['announce', sys.argv[1]])"
    )
    finished = subprocess.run([sys.executable, "-ISc", code, LOCK], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (finished.returncode, finished.stderr)
    assert finished.stdout.startswith("First run: ")


def test_a_terminal_sees_one_line_and_a_file_many() -> None:
    """On a terminal progress is rewritten in place and no longer than a line; the result stays."""
    for out, expected in (
        (Terminal(), r"(\r\x1b\[K[^\n]{1,200}){2}\r\x1b\[Kdone in \d+ s\n"),
        (StringIO(), r"x+\ny\ndone in \d+ s\n"),
    ):
        progress = Progress(out)
        for text in ("x" * 500, "y", "y"):
            progress.show(text)
        progress.end("done")
        assert re.fullmatch(expected, out.getvalue())


def test_a_file_sees_one_of_ten_parts() -> None:
    """And the first and the last one, whichever are there; a terminal sees each."""
    numbers = [2, 3, 9, 10, 11, 19, 23, 24, 42, 88, 89]
    for out, expected in ((StringIO(), [2, 10, 23, 42, 88, 89]), (Terminal(), numbers)):
        progress = Progress(out)
        for number in numbers:
            progress.show_part(number, 89, f"kernel {number}")
        assert expected == [*map(int, re.findall(r"kernel (\d+)", out.getvalue()))]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_compiling_stops_without_a_traceback(tmp_path: Path, kind: signal.Signals) -> None:
    """A signal ends it and its workers at once."""
    with step("compile", NUMBA_CACHE_DIR=str(tmp_path)) as compiling:
        assert compiling.stdout.readline().startswith("kernel 1 of ")
        workers = psutil.Process(compiling.pid).children()
        compiling.send_signal(kind)
        assert "" == compiling.communicate(timeout=60)[1]
    assert -kind == compiling.returncode
    assert workers
    assert [] == psutil.wait_procs(workers, timeout=10)[1]
