"""The slow steps of a first ``make run``, each of which shows how far it is.

    python -m service.first_run announce LOCK    what the first run will take
    python -m service.first_run install LOCK     install the packages of a lock file, with uv or pip
    python -m service.first_run project          install the project in place
    python -m service.first_run compile          compile the kernels of core into Numba's cache

All but the last run before anything is installed and need nothing but the standard library.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from service.first_run.installing import install, install_project, locked
from service.first_run.kernels import Kernel, Sources, declared
from service.first_run.terminal import Progress

ALSO = ("service.app", "uvicorn", "uvicorn.loops.auto", "uvicorn.protocols.http.auto")
"""Imported with the kernels, for their bytecode: the first start of the service need not compile it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step; its exit status."""
    options = _parser().parse_args(arguments)
    if options.step == "announce":
        announce(options.lock, sys.stdout)
        return 0
    if options.step == "install":
        return install(options.lock, Progress(sys.stdout), options.uv)
    if options.step == "project":
        return install_project(Path(__file__).parents[2], Progress(sys.stdout), options.uv)
    return compile_kernels(Progress(sys.stdout))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m service.first_run", description="The steps of a first make run.")
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("announce", "install", "project", "compile"):
        step = steps.add_parser(name)
        if name in {"announce", "install"}:
            step.add_argument("lock", type=Path)
        if name in {"install", "project"}:
            step.add_argument("--uv", default="", help='path of a uv; "no": pip installs; default: the locked one')
    return parser


def announce(lock: Path, out: TextIO) -> None:
    """Say what there is to do and how long it takes."""
    packages, compiled = len(locked(lock)), len(declared())
    out.write(
        f"First run: up to {packages} packages to install, then {compiled} kernels to compile. "
        "On an idle machine of two cores this takes about a minute; later runs start within seconds.\n"
    )


def compile_kernels(progress: Progress) -> int:
    """Compile what Numba's cache lacks; the exit status. After an interrupt the cache keeps what is finished."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads in a process that makes copies of itself
    sys.dont_write_bytecode = False
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, _Stopped.stop)
    from service.first_run import compiling, kernel_cache  # noqa: PLC0415  Numba need not be installed for the other steps

    count = 0

    def report(number: int, total: int, kernel: Kernel) -> None:
        nonlocal count
        count += 1
        progress.show_part(number, total, f"kernel {number} of {total}: compiling {kernel.module} {kernel.name}")

    sources = Sources()
    cache = kernel_cache.KernelCache(sources)
    try:
        if not cache.complete():
            cache.drop_stale()
            cache.write(compiling.compile_all(sources, report, also=ALSO))
    except compiling.CannotCompile as error:
        progress.keep(f"cannot compile {error}")
        return 1
    except _Stopped as stopped:
        signal.signal(stopped.kind, signal.SIG_DFL)
        os.kill(os.getpid(), stopped.kind)
    progress.end(f"{count} kernels compiled")
    return 0


class _Stopped(BaseException):
    """A signal: the workers are ended, then this process, by the same signal."""

    def __init__(self, kind: int) -> None:
        super().__init__(kind)
        self.kind = kind

    @classmethod
    def stop(cls, kind: int, _: FrameType | None) -> None:
        raise cls(kind)
