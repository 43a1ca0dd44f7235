"""The compiled kernels of core: which modules have some, and whether Numba's cache holds them.

Numba compiles a module again when its own source has changed, but not when a module that it imports has: a kernel would
keep outdated constants and inlined functions. And a start must find out what is missing without importing every kernel.
So a record is kept next to Numba's files:

    onepass-kernels.json    {"modules": {MODULE: DIGEST of it and its imports}, KEY: DIGEST of all that is compiled}

KEY names Python, Numba and a processor: an image holds kernels for its builder's processor, and generic ones.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import caching, codegen, event


class CannotCompile(RuntimeError):
    """The message says why, and what to do."""


COMPILES = "core.contract.direct"
Processor = tuple[str, str]  # name and features of a processor that Numba compiles for, as in its own keys
GENERIC: Processor = ("generic", "")  # any of this architecture


def processor() -> Processor:
    """The processor that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name, or this one."""
    name, features = (getattr(numba.config, setting) for setting in ("CPU_NAME", "CPU_FEATURES"))
    if features is None:
        features = codegen.get_host_cpu_features()  # type: ignore[no-untyped-call]
    return name or llvm.get_host_cpu_name(), features


class Kernels:
    """The modules of a package, and what Numba's cache holds of them."""

    def __init__(self, package: str = "core") -> None:
        top = Path(find_spec(package).origin)  # type: ignore[union-attr, arg-type]  # it is a package
        paths = {path.relative_to(top.parents[1]): path for path in sorted(top.parent.rglob("*.py"))}
        self._sources = {".".join(own.with_suffix("").parts).removesuffix(".__init__"): paths[own] for own in paths}
        self._path = _cache_of(top) / "onepass-kernels.json"

    def compiled_for(self, processor: Processor) -> bool:
        """Whether every kernel has been compiled for a processor, from these sources."""
        return bool(self._record.get(_key(processor)) == self._digest_of(self._sources))

    @cached_property
    def modules(self) -> list[str]:
        """The modules that have kernels: they import Numba, or ``COMPILES``, which compiles with it."""
        return [name for name, path in self._sources.items() if {"numba", COMPILES} & _imported(name, path)]

    def closure(self, module: str) -> set[str]:
        """The module, and all modules of the package that importing it imports."""
        seen, todo = {module}, [module]
        for name in todo:
            new = _imported(name, self._sources[name]) & self._sources.keys() - seen
            seen |= new
            todo += new
        return seen

    def drop_stale(self) -> None:
        """Remove kernels from the cache that depend on a source that has changed."""
        now = {name: self._digest_of(self.closure(name)) for name in self.modules}
        stale = [self._sources[name] for name in now if self._record["modules"].get(name) != now[name]]
        for path in stale:
            for file in _cache_of(path).glob(f"{path.stem}.*.nb[ci]"):
                file.unlink(missing_ok=True)
        if stale:
            self._write({"modules": now})

    def keep(self, processor: Processor) -> None:
        """Record that everything is compiled for a processor."""
        self._write(self._record | {_key(processor): self._digest_of(self._sources)})

    @cached_property
    def _record(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict[str, Any](json.loads(self._path.read_text()))
        return {"modules": {}}

    def _write(self, record: dict[str, Any]) -> None:
        self._record = record
        written = self._path.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(record))
        written.replace(self._path)

    def _digest_of(self, modules: Iterable[str]) -> str:
        return hashlib.sha256(b"".join(self._sources[name].read_bytes() for name in sorted(modules))).hexdigest()


def kernels_at_hand(package: str = "core") -> str | None:
    """Make this process use the kernels for its processor, else the generic ones, which compute the same bits.

    Returns which these are, for the log; None if kernels have to be compiled. NUMBA_CPU_NAME rules out generic ones.
    """
    kernels, own = Kernels(package), processor()
    if kernels.compiled_for(own):
        return f"kernels for processors of the type {own[0]}"
    if {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} & os.environ.keys() or not kernels.compiled_for(GENERIC):
        return None
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = GENERIC  # type: ignore[attr-defined]  # set by name
    return (
        f"kernels for any processor, as there are none for this one ({own[0]}): wide models may learn at half the "
        f"speed; NUMBA_CPU_NAME={own[0]} compiles its own"
    )


def report_compilations(report: Callable[[str, str], None]) -> None:
    """Call ``report`` with the module and name of each function that this process begins to compile from now on."""

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            function = event.data["dispatcher"].py_func
            report(function.__module__, function.__name__)

        def on_end(self, event: event.Event) -> None:
            """Ends are not reported."""

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def _key(processor: Processor) -> str:
    return " ".join((sys.version, numba.__version__, llvm.get_process_triple(), *processor))


def _cache_of(source: Path) -> Path:
    """Where Numba caches the kernels of a file: NUMBA_CACHE_DIR, else ``__pycache__``, else the user's cache."""
    locators: list[Any] = caching.CompileResultCacheImpl._locator_classes  # noqa: SLF001  rather than repeat its rules here
    for locator in locators:
        if found := locator.from_function(_cache_of, str(source)):
            return Path(found.get_cache_path())
    raise CannotCompile("there is no folder to keep compiled kernels in: set NUMBA_CACHE_DIR to a writable one")


@cache
def _imported(module: str, path: Path) -> set[str]:
    """What a module imports at its top level, the module itself, and the packages that contain these."""
    names = {module}
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names |= {f"{source}{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2)}
