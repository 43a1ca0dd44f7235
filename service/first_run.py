"""The slow steps of a first ``make run``, each of which shows how far it is.

    python -m service.first_run announce LOCK    what the first run will take
    python -m service.first_run install LOCK     install the packages of a lock file with pip
    python -m service.first_run compile          compile the kernels of core into Numba's cache

On a terminal progress is one line that is rewritten, elsewhere a line each. The first two commands run before anything
is installed and need nothing but the standard library.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TextIO

from service import kernels

POLL_S = 0.5
"""How often the packages that are installed are counted."""
_FETCHED = re.compile(
    r"(?:Collecting|Processing|Requirement already satisfied:|Ignoring) (?:\S*/)?([\w.]+(?:-[a-zA-Z]\w*)*)"
)
_INSTALLING = "Installing collected packages: "


class Progress:
    """Where progress is shown, and since when.

    Args:
        out: a terminal or something else.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._begun, self._last = out, time.monotonic(), ""
        self._again = "\r\x1b[K" if out.isatty() else ""

    def show(self, text: str) -> None:
        """Show what is being done; the same text again shows nothing."""
        if text != self._last:
            self._last = text
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{self._again}{text[:width]}" if self._again else f"{text}\n")

    def end(self, text: str) -> None:
        """Show what has been done, and how long it took."""
        seconds = time.monotonic() - self._begun
        self._write(f"{self._again}{text} in {seconds:.0f} s\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m service.first_run", description="The steps of a first make run.")
    steps = parser.add_subparsers(dest="step", required=True)
    for step in ("announce", "install"):
        steps.add_parser(step).add_argument("lock", type=Path)
    steps.add_parser("compile")
    options = parser.parse_args(arguments)
    if options.step == "announce":
        announce(options.lock, sys.stdout)
        return 0
    if options.step == "install":
        return install(options.lock, Progress(sys.stdout))
    compile_kernels(Progress(sys.stdout))
    return 0


def announce(lock: Path, out: TextIO) -> None:
    """Say what there is to do and how long it takes."""
    packages, compiled = len(locked(lock)), len(kernels.declared())
    out.write(
        f"First run: up to {packages} packages to install, then {compiled} kernels to compile. "
        "On an idle machine this takes one to two minutes; later runs start within seconds.\n"
    )


def locked(lock: Path) -> list[str]:
    """Names of the packages in a lock file, those for other systems included."""
    return re.findall(r"^([\w.-]+)==", lock.read_text(), flags=re.MULTILINE)


def install(lock: Path, progress: Progress) -> int:
    """Run pip on a lock file; its exit status. Stopped, it stops pip; what is missing is installed by the next run."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda number, _: sys.exit(128 + number))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
    command += ["--progress-bar", "off", "--require-hashes", "-r", str(lock)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as pip:  # noqa: S603  our pip
        try:
            assert pip.stdout is not None
            if count := _fetched(pip.stdout, len(locked(lock)), progress):
                _installed(pip, count, progress)
            pip.wait()
        finally:
            pip.terminate()
    if pip.returncode == 0:
        progress.end(f"{count} packages installed")
    return pip.returncode


def _fetched(said: IO[str], total: int, progress: Progress) -> int:
    """Follow pip until it has everything it needs; how many packages it will install."""
    count = 0
    for line in said:
        if line.startswith(_INSTALLING):
            return line.count(",") + 1
        if (found := _FETCHED.match(line)) and ("(from -r" in line or line.startswith("Ignoring")):
            count += 1
            progress.show(f"package {count} of {total}: fetching {found[1]}")
    return 0


def _installed(pip: "subprocess.Popen[str]", total: int, progress: Progress) -> None:
    """Follow pip until it ends: it prints nothing meanwhile, so the packages that appear are counted."""
    packages, begun = Path(sysconfig.get_path("purelib")), time.time()
    while pip.poll() is None:
        with suppress(OSError):  # one is being replaced
            count = sum(one.stat().st_mtime >= begun for one in packages.glob("*.dist-info"))
            progress.show(f"package {min(count + 1, total)} of {total}: installing")
        with suppress(subprocess.TimeoutExpired):
            pip.wait(POLL_S)


def compile_kernels(progress: Progress) -> None:
    """Compile what Numba's cache lacks. An interrupt ends it without a traceback; the cache keeps what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    count = 0

    def report(number: int, total: int, kernel: kernels.Kernel) -> None:
        nonlocal count
        count += 1
        progress.show(f"kernel {number} of {total}: compiling {kernel.module} {kernel.name}")

    kernels.load(report)
    progress.end(f"{count} kernels compiled")


if __name__ == "__main__":
    sys.exit(main())
