"""Compiling kernels in several processes: each imports modules, which fills Numba's cache."""

import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from graphlib import TopologicalSorter
from importlib import import_module

from numba.core.compiler import Flags

from service.first_run.kernels import CannotCompile, Kernels, processor
from service.memory_limit import memory_limit

WORKERS_MAX = 4  # more would wait for the longest chain of modules
WORKER_BYTES = 500 * 2**20  # what each takes at most
ENDED = "a process that compiles kernels was ended: is memory short? Another run goes on where this one stopped"


def compile_missing(package: str = "core") -> None:
    """Compile what Numba's cache lacks of a package's kernels, or CannotCompile; what is finished is kept anyway."""
    kernels = Kernels(package)
    if kernels.compiled_for(processor()):
        return
    kernels.drop_stale()
    with ProcessPoolExecutor(worker_count(), multiprocessing.get_context("spawn"), _begin) as pool:
        try:
            _run(kernels, pool)
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    kernels.keep(processor())


def worker_count() -> int:
    """One worker per core that this process may use, fewer where its memory is limited."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, WORKERS_MAX, (memory_limit() or 2**60) // WORKER_BYTES))


def in_order(kernels: Kernels) -> TopologicalSorter[str]:
    """Modules with kernels, each after those that it imports: no kernel is compiled twice. One stands for a cycle."""
    needs = {name: kernels.closure(name).intersection(kernels.modules) for name in kernels.modules}
    first = {name: min(other for other in needs[name] if name in needs[other]) for name in needs}
    return TopologicalSorter({first[name]: {first[other] for other in needs[name]} - {first[name]} for name in needs})


def _run(kernels: Kernels, pool: ProcessPoolExecutor) -> None:
    """Modules that many others wait for come first: otherwise a worker has nothing to do towards the end."""
    awaited = Counter(needed for name in kernels.modules for needed in kernels.closure(name))
    order, waiting, running = in_order(kernels), list[str](), dict[Future[None], str]()
    order.prepare()
    while order.is_active():
        waiting = sorted([*waiting, *order.get_ready()], key=awaited.__getitem__)
        while waiting and len(running) < worker_count():
            module = waiting.pop()
            running[pool.submit(_import, module)] = module
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            try:
                future.result()
            except BrokenProcessPool:
                raise CannotCompile(ENDED) from None
            order.done(running.pop(future))


def _begin() -> None:
    """In each worker: a terminal's interrupt is for the process that made it, and it ends with that one.

    What no kernel needs is left out, which saves a fifth of the time: functions for calls by address, looking for
    garbage, and Numba's own way to read all flags, an option at a time, for each of very many comparisons.
    """
    gc.disable()
    Flags.options["no_cfunc_wrapper"]._default = True  # noqa: SLF001  else every kernel would have to say it
    flags = {name: option.default for name, option in Flags.options.items()}
    Flags.values = lambda self: flags | self._values  # type: ignore[method-assign]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _import(module: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # noqa: BLE001  whatever it raises
        raise CannotCompile(f"cannot compile {module}: {type(error).__name__}: {error}") from None
    gc.collect(1)  # what is new
