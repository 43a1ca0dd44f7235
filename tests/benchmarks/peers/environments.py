"""Environments of peers, made when they are first asked for: tests/benchmarks/out/peers/NAME."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1] / "out" / "peers"
WORKERS = Path(__file__).resolve().parent / "workers"
INSTALL_S_MAX = 540.0


class Environment(NamedTuple):
    """Packages of a peer.

    Attributes:
        name: of its folder.
        packages: what pip installs.
        shown: the package whose version is reported.
        needs: a program that has to be there, or "".
    """

    name: str
    packages: tuple[str, ...]
    shown: str
    needs: str = ""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return ROOT / self.name / "bin" / "python"

    def ready(self) -> str:
        """Make it if it is not there; the version of what is shown.

        Raises:
            Unavailable: it cannot be made here.
        """
        if self.needs and shutil.which(self.needs) is None:
            raise Unavailable(f"{self.needs} is not installed")
        stamp = ROOT / self.name / "stamp"
        if not stamp.exists() or stamp.read_text() != " ".join(self.packages):
            print(f"  ... installing {', '.join(self.packages)}", file=sys.stderr, flush=True)
            self._install()
            stamp.write_text(" ".join(self.packages))
        program = f"import importlib.metadata as m; print(m.version({self.shown!r}))"
        return _run([str(self.python), "-c", program], 60.0).strip()

    def _install(self) -> None:
        _run([sys.executable, "-m", "venv", "--clear", str(ROOT / self.name)], 120.0)
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--no-input", "--quiet"]
        _run([*pip, *self.packages], INSTALL_S_MAX)

    def run(self, worker: str, *arguments: str, seconds_max: float = 120.0) -> str:
        """What a worker prints.

        Raises:
            Unavailable: it failed.
        """
        return _run([str(self.python), str(WORKERS / worker), *arguments], seconds_max)


class Unavailable(Exception):
    """A peer cannot be installed, or does not run, here."""


def _run(command: list[str], seconds_max: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_max, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return done.stdout
