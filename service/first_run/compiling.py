"""Compiling the kernels of core in several processes at once.

Each worker imports the modules that it is handed, which compiles their kernels into Numba's cache, and stays for the
next ones. A module is handed out when the kernel modules that it imports are in the cache, so no kernel is compiled
twice (functions without a signature may be, where two modules call them). Of the modules that can be handed out, those
that the default algorithm needs come first, and of these the one with the longest chain of work behind it.
"""

import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from graphlib import TopologicalSorter
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any, Literal, NamedTuple, Self

from numba.core.registry import cpu_target

from service.first_run.kernel_cache import files_of, report_compilations
from service.first_run.kernels import Job, Kernel, Sources, chains
from service.memory_limit import memory_limit

FIRST = ("core.machine", "core.learners.dfop.bank")
"""What a model of the default algorithm imports."""
WORKERS_MAX = 4
"""More would wait for the longest chain of modules."""
WORKER_BYTES = 400 * 2**20
"""What each takes at most."""
TRIES = 2
"""How often a module is handed out whose worker dies, for lack of memory, say."""

Report = Callable[[int, int, Kernel], None]
"""Called with the number of kernels that are compiled or begun, that of all kernels, and the kernel that is begun."""


class CannotCompile(RuntimeError):
    """A module cannot be imported; the message names it and says why."""


class _Said(NamedTuple):
    """What a worker tells: a kernel that it begins; that it has done a job, with files; an error; that it is dead."""

    what: Literal["begins", "done", "failed", "died"]
    content: Any = None


def worker_count() -> int:
    """One worker per core that this process may use, fewer where its memory is limited."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = memory_limit()
    fit = WORKERS_MAX if limit is None else limit // WORKER_BYTES
    return max(1, min(usable, fit, WORKERS_MAX))


def ranked(sources: Sources, first: Sequence[str] = FIRST) -> list[Job]:
    """The jobs of a package, what should begin first in front, as far as what each needs allows."""
    jobs = sources.jobs()
    behind = chains(jobs)
    wanted = _imported(sources, first)
    return sorted(jobs, key=lambda job: (wanted.isdisjoint(job.modules), -behind[job], job.modules))


def compile_all(
    sources: Sources, report: Report, workers: int | None = None, also: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Compile what Numba's cache lacks of a package's kernels.

    Args:
        sources: the package.
        report: called before a kernel is compiled; not for what the cache has.
        workers: processes; None: as many as ``worker_count`` says.
        also: modules that are imported when what comes first is compiled, so that their bytecode is kept.

    Returns:
        Of each module its files in the cache.

    Raises:
        CannotCompile: a module raised an error, or its worker died twice.
    """
    jobs = ranked(sources)
    if also:
        first = _imported(sources, FIRST)
        jobs.append(Job(also, frozenset(name for job in jobs for name in job.modules if name in first), 0))
    progress = _Progress(sources, report)
    with _Crew(worker_count() if workers is None else workers) as crew:
        return _run(jobs, crew, progress)


def _imported(sources: Sources, modules: Sequence[str]) -> frozenset[str]:
    return frozenset().union(*(sources.closure(module) for module in modules if module in sources.all))


def _run(jobs: list[Job], crew: "_Crew", progress: "_Progress") -> dict[str, list[str]]:
    owner = {name: job for job in jobs for name in job.modules}
    order = TopologicalSorter({job: {owner[name] for name in job.needs} for job in jobs})
    order.prepare()
    tries, files, waiting = dict.fromkeys(jobs, 0), dict[str, list[str]](), list[Job]()
    while order.is_active():
        waiting = sorted([*waiting, *order.get_ready()], key=jobs.index)
        while waiting and crew.free:
            tries[waiting[0]] += 1
            crew.begin(waiting.pop(0))
        for job, said in crew.hear():
            if said.what == "begins":
                progress.begins(said.content)
            elif said.what == "done":
                files |= said.content
                progress.done(job)
                order.done(job)
            elif said.what == "failed":
                raise CannotCompile(said.content)
            elif tries[job] == TRIES:
                raise CannotCompile(f"{' and '.join(job.modules)}: its process was ended {TRIES} times {said.content}")
            else:
                waiting.append(job)
    return files


class _Progress:
    """How many kernels there are, and how many are compiled or begun."""

    def __init__(self, sources: Sources, report: Report) -> None:
        self._kernels = {name: source.kernels for name, source in sources.all.items()}
        self._total = sum(map(len, self._kernels.values()))
        self._report, self._passed = report, set[Kernel]()

    def begins(self, kernel: Kernel) -> None:
        if kernel in self._kernels.get(kernel.module, ()) and kernel not in self._passed:
            self._passed.add(kernel)
            self._report(len(self._passed), self._total, kernel)

    def done(self, job: Job) -> None:
        self._passed.update(kernel for name in job.modules for kernel in self._kernels.get(name, ()))


class _Crew:
    """The workers; made as there is work for them, ended with the block."""

    def __init__(self, size: int) -> None:
        self._context = _context()
        self._size = size
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    @property
    def free(self) -> bool:
        """Whether a worker has no job, or one may be made."""
        return len(self._workers) < self._size or any(worker.job is None for worker in self._workers)

    def begin(self, job: Job) -> None:
        worker = next((one for one in self._workers if one.job is None), None)
        if worker is None:
            self._workers.append(worker := _Worker(self._context))
        worker.begin(job)

    def hear(self) -> Iterator[tuple[Job, _Said]]:
        """Wait for the workers that have a job; what they say, and for whom."""
        busy = {worker.pipe: worker for worker in self._workers if worker.job is not None}
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]  # one of those that were given
            assert worker.job is not None
            job, said = worker.job, worker.hear()
            if said.what == "died":
                self._workers.remove(worker)
            yield job, said


class _Worker:
    """A process that imports modules."""

    def __init__(self, context: BaseContext) -> None:
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)  # type: ignore[attr-defined]  # every context has it
        self._process.start()
        theirs.close()
        self.job: Job | None = None

    def begin(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it is dead: the next that is heard of it
            self.pipe.send(job.modules)

    def hear(self) -> _Said:
        try:
            said: _Said = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            return _Said("died", f"(exit status {self._process.exitcode})")
        if said.what == "done":
            self.job = None
        return said

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.pipe.close()


def _context() -> BaseContext:
    """How workers are made: on Linux as copies of this process, which has read all of Numba; else from nothing."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    return multiprocessing.get_context("fork")


# ------------------------------------------------------------------------------------------------ in the worker


def _work(pipe: Connection) -> None:
    """Import what is sent, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody; who made this process ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.dont_write_bytecode = False
    report_compilations(lambda module, name: pipe.send(_Said("begins", Kernel(module, name))))
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_imports(pipe.recv()))


def _imports(modules: tuple[str, ...]) -> _Said:
    files = {}
    for name in modules:
        try:
            files[name] = files_of(importlib.import_module(name))
        except Exception:  # noqa: BLE001  whatever a module may raise
            return _Said("failed", f"{name}: {traceback.format_exc()}")
    return _Said("done", files)
