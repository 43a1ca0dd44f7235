"""A record beside Numba's cache of what has been compiled: a start need not import every kernel to find out.

    DIR/kernels-KEY.json      {"sources": {FILE: SHA256},  "modules": {MODULE: {"sources": [FILE], "files": [FILE]}}}

KEY stands for what Numba's own keys hold: the package, the versions of Python and Numba, the processor. DIR is where
Numba caches: NUMBA_CACHE_DIR, else the package's ``__pycache__``, else the user's cache. It may hold the kernels for
several processors: an image brings those for the builder's and those for any processor of its architecture.

Numba compiles a module anew when its own source has changed, but not when something it imports has: a kernel would keep
the constants and the inlined functions of before. The record knows, and the files of such a module are removed.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Self, TypedDict

import llvmlite.binding as llvm
import numba
from numba.core import codegen, event
from numba.core.dispatcher import Dispatcher
from numba.misc.appdirs import AppDirs

from service.first_run.kernels import Sources

GENERIC = "generic"
"""What LLVM calls the processor that has only what all of its architecture have."""


class Processor(NamedTuple):
    """What Numba compiles for, as its own keys name it."""

    triple: str
    name: str
    features: str

    @classmethod
    def chosen(cls) -> Self:
        """What NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say, or this processor."""
        chosen = vars(numba.config)
        features = chosen["CPU_FEATURES"]
        if features is None:
            features = codegen.get_host_cpu_features()  # type: ignore[no-untyped-call]
        return cls(llvm.get_process_triple(), chosen["CPU_NAME"] or llvm.get_host_cpu_name(), features)

    @staticmethod
    def is_given() -> bool:
        """Whether NUMBA_CPU_NAME or NUMBA_CPU_FEATURES names one."""
        return any(vars(numba.config)[name] is not None for name in ("CPU_NAME", "CPU_FEATURES"))

    @classmethod
    def generic(cls) -> Self:
        """Any of this architecture."""
        return cls(llvm.get_process_triple(), GENERIC, "")

    def choose(self) -> None:
        """Have this process compile for it, and load its kernels; before the first kernel is imported."""
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = self.name, self.features  # type: ignore[attr-defined]  # set by name


class Compiled(TypedDict):
    """What is known of one module: the sources it depends on, and its files in the cache."""

    sources: list[str]
    files: list[str]


class Record(TypedDict):
    """The content of the file."""

    sources: dict[str, str]
    modules: dict[str, Compiled]


class KernelCache:
    """What the cache of a package's kernels holds.

    Args:
        sources: the package.
        processor: whose kernels; None: those of ``Processor.chosen``.
    """

    def __init__(self, sources: Sources, processor: Processor | None = None) -> None:
        self._sources, self._processor = sources, processor or Processor.chosen()
        self._folder = next(filter(_writable, _folders(sources.root)), None)

    def complete(self) -> bool:
        """Whether every kernel has been compiled, from these sources, for this processor, and is still there."""
        files = (file for one in self._record["modules"].values() for file in one["files"])
        return bool(self._record["modules"]) and not self._changed and all(map(self._exists, files))

    def drop_stale(self) -> None:
        """Remove the files of modules that depend on a source that has changed since they were compiled."""
        for one in self._record["modules"].values():
            if not self._changed.isdisjoint(one["sources"]):
                for file in one["files"]:
                    with suppress(OSError):
                        self._absolute(file).unlink()

    def write(self, files: Mapping[str, list[str]]) -> None:
        """Record what has been compiled; where no folder can be written to, nothing is recorded.

        Args:
            files: of each module, what ``files_of`` says.
        """
        if self._folder is None:
            return
        modules = {
            name: Compiled(sources=self._sources_of(name), files=[os.path.relpath(file, self._folder) for file in own])
            for name, own in files.items()
            if name in self._sources.all
        }
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".tmp", delete=False) as file:
            json.dump(Record(sources=self._digests, modules=modules), file)
        Path(file.name).chmod(0o644)  # as Numba's files: who reads the kernels may be another user than who compiled
        Path(file.name).replace(self._path)

    @cached_property
    def _record(self) -> Record:
        """What was recorded; empty where there is nothing that can be read."""
        with suppress(OSError, ValueError):
            record: Record = json.loads(self._path.read_text())
            return record
        return Record(sources={}, modules={})

    @cached_property
    def _digests(self) -> dict[str, str]:
        root = self._sources.root
        paths = (source.path for source in self._sources.all.values())
        return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    @cached_property
    def _changed(self) -> frozenset[str]:
        before = self._record["sources"]
        return frozenset(name for name in before.keys() | self._digests if before.get(name) != self._digests.get(name))

    @cached_property
    def _path(self) -> Path:
        """The record's file; without a folder one that does not exist."""
        version = (str(self._sources.root), sys.version, numba.__version__, tuple(self._processor))
        key = hashlib.sha256(repr(version).encode()).hexdigest()[:16]
        return (self._folder or Path(os.devnull)) / f"kernels-{key}.json"

    def _sources_of(self, module: str) -> list[str]:
        names = self._sources.closure(module)
        return sorted(self._sources.all[name].path.relative_to(self._sources.root).as_posix() for name in names)

    def _exists(self, file: str) -> bool:
        return self._absolute(file).exists()

    def _absolute(self, file: str) -> Path:
        return (self._folder or Path(os.devnull)) / file


def report_compilations(report: Callable[[str, str], None]) -> None:
    """Have each function reported that this process compiles from now on, by its module and name, as it begins.

    A process that has found the cache complete compiles nothing, unless the cache vanishes beneath it.
    """

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            function = event.data["dispatcher"].py_func
            report(function.__module__, function.__name__)

        def on_end(self, event: event.Event) -> None:
            """The next one is reported when it begins."""

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def files_of(module: ModuleType) -> list[str]:
    """The files in Numba's cache of the kernels that a module, which has been imported, defines."""
    own = (value for value in vars(module).values() if isinstance(value, Dispatcher))
    folders = {one.stats.cache_path or "" for one in own if one.py_func.__module__ == module.__name__} - {""}
    stem = Path(module.__file__ or "").stem
    return sorted(str(path) for folder in folders for path in Path(folder).glob(f"{stem}.*.nb[ci]"))


def _folders(root: Path) -> Iterator[Path]:
    """Where Numba looks for a folder to cache in, in this order."""
    if chosen := vars(numba.config)["CACHE_DIR"]:
        yield Path(chosen).absolute()
    yield root / "__pycache__"
    yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)  # type: ignore[no-untyped-call]


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder; Numba asks the same, and uses the next one where they cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
