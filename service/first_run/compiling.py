"""Compiles kernels in several processes: each imports modules, which fills Numba's cache."""

import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from graphlib import TopologicalSorter
from importlib import import_module
from typing import Any

from numba.core.caching import Cache
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import Flags
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher

from service.first_run.kernels import CannotCompile, Kernels, processor
from service.memory_limit import memory_limit

WORKERS_MAX = 4  # more would wait for the longest chain of modules
WORKER_BYTES = 500 * 2**20  # most memory that a worker takes
ENDED = "a process that compiles kernels was killed; is memory short? Another run continues where this one stopped"


def compile_missing(package: str = "core") -> None:
    """Compile the kernels of a package that Numba's cache lacks; after ``CannotCompile``, finished modules are kept."""
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
    """Modules with kernels, each after its imports, so that no kernel is compiled twice. One stands for a cycle."""
    needs = {name: kernels.closure(name).intersection(kernels.modules) for name in kernels.modules}
    first = {name: min(other for other in needs[name] if name in needs[other]) for name in needs}
    return TopologicalSorter({first[name]: {first[other] for other in needs[name]} - {first[name]} for name in needs})


def _run(kernels: Kernels, pool: ProcessPoolExecutor) -> None:
    """Import the modules, those that many others wait for first: otherwise workers are idle towards the end."""
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
    """Set up a worker: it leaves a terminal's interrupt to the process that made it, and ends with that process.

    It skips what no kernel needs, which saves half of the time: garbage collection, wrappers for calls by address,
    machine code of functions that only kernels call, and Numba's own way to read all flags, one option at a time, in
    each of very many comparisons.
    """
    gc.disable()
    _leave_out_helpers()
    Flags.options["no_cfunc_wrapper"]._default = True  # noqa: SLF001  else every kernel would have to say it
    flags = {name: option.default for name, option in Flags.options.items()}
    Flags.values = lambda self: flags | self._values  # type: ignore[method-assign]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _leave_out_helpers() -> None:
    """Compile functions that only kernels call, and that have no signature, to LLVM IR and no further.

    Each kernel gets its own copy of such a function and is optimised together with it. So the function itself needs no
    wrapper for Python, no optimisation, no machine code and no place in the cache. If Python does call it, the process
    that does so compiles it first.
    """
    compile_one, depth = Dispatcher.compile, 0

    def counted(*given: Any) -> Any:
        nonlocal depth
        depth += 1
        try:
            return compile_one(*given)
        finally:
            depth -= 1

    def short(owner: type, step: str, otherwise: Callable[..., Any]) -> None:
        whole = getattr(owner, step)

        def either(*given: Any, **named: Any) -> Any:
            return (otherwise if depth > 1 else whole)(*given, **named)

        setattr(owner, step, either)

    def not_callable(_context: Any, library: Any, *_: Any) -> Callable[..., Any]:
        library._ensure_finalized()  # noqa: SLF001  now, while it is known to be part of a kernel
        return {}.popitem  # a distinct object, by which Numba distinguishes functions; it fails if it is called

    Dispatcher.compile = counted  # type: ignore[method-assign, assignment]
    short(CPUContext, "create_cpython_wrapper", lambda *_, **__: None)
    short(CPUContext, "get_executable", not_callable)
    short(CPUCodeLibrary, "_optimize_final_module", lambda _: None)
    short(CPUCodeLibrary, "_finalize_final_module", lambda library: setattr(library, "_finalized", True))
    short(Cache, "load_overload", lambda *_: None)
    short(Cache, "save_overload", lambda *_: None)


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _import(module: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # noqa: BLE001  whatever it raises
        raise CannotCompile(f"cannot compile {module}: {type(error).__name__}: {error}") from None
    gc.collect(1)  # new objects only
