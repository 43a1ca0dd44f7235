"""Environments of other programs, below tests/benchmarks/out/peers, made when they are first asked for."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.harness.processes import OUT
from tests.benchmarks.harness.report import say

INSTALL_S_MAX = 540.0


class Environment(NamedTuple):
    """A peer: its package, what pip installs beside it, and a program that has to be there."""

    name: str
    packages: tuple[str, ...] = ()
    needs: str = ""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return OUT / "peers" / self.name / "bin" / "python"

    def ready(self) -> str:
        """Make it if it is not there; its version. ``Unavailable`` if it cannot be made here."""
        if self.needs and shutil.which(self.needs) is None:
            raise Unavailable(f"{self.needs} is not installed")
        folder, packages = OUT / "peers" / self.name, [self.name, *self.packages]
        stamp = folder / "stamp"
        if not stamp.exists() or stamp.read_text() != " ".join(packages):
            say(f"installing {', '.join(packages)}")
            answer_of([sys.executable, "-m", "venv", "--clear", str(folder)], 120.0)
            pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--no-input", "--quiet"]
            answer_of([*pip, *packages], INSTALL_S_MAX)
            stamp.write_text(" ".join(packages))
        program = f"import importlib.metadata as m; print(m.version({self.name!r}))"
        return answer_of([str(self.python), "-c", program], 60.0).strip()


class Unavailable(Exception):
    """A peer cannot be installed, or does not run, here."""


def answer_of(command: list[str], seconds_max: float) -> str:
    """What a program prints, or Unavailable with the last line of its complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_max, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return done.stdout


RIVER = Environment("river", ("fastapi", "uvicorn[standard]"))
CAPYMOA = Environment("capymoa", needs="java")
