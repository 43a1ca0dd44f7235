"""The compiled kernels of core, read from its sources: which there are, and in which order their modules compile.

A kernel is a function that Numba is given with its signature: importing its module compiles it, or loads it from
Numba's cache. Functions without a signature are compiled as parts of the kernels that call them, and are not counted.

Nothing is imported here but the standard library: a first run announces what it will do before anything is installed.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Kernel(NamedTuple):
    """A compiled function: its module and its name there."""

    module: str
    name: str


class Job(NamedTuple):
    """Modules that one process imports: one, or several that import each other.

    Attributes:
        modules: their names.
        needs: the modules of other jobs that have to be imported before.
        size: how much there is to compile, in nodes of the syntax tree; some five hundred compile in a second.
    """

    modules: tuple[str, ...]
    needs: frozenset[str]
    size: int


def declared(package: str = "core") -> list[Kernel]:
    """The kernels of a package."""
    return [kernel for source in Sources(package).all.values() for kernel in source.kernels]


@dataclass(frozen=True)
class Source:
    """The source of one module."""

    module: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.path.read_bytes())

    @property
    def kernels(self) -> list[Kernel]:
        """The functions that are given with a signature."""
        return [Kernel(self.module, one.name) for one in self._compiled if any(map(_signed, one.decorator_list))]

    @property
    def size(self) -> int:
        """Nodes of all functions that Numba compiles, with and without a signature."""
        return sum(1 for one in self._compiled for _ in ast.walk(one))

    @property
    def _compiled(self) -> list[ast.FunctionDef]:
        functions = (node for node in self.tree.body if isinstance(node, ast.FunctionDef))
        return [one for one in functions if any(map(_by_numba, one.decorator_list))]

    def imports(self, known: Collection[str]) -> set[str]:
        """The modules of ``known`` that importing this one imports, packages around them included."""
        names = {self.module}
        for node in _at_import(self.tree.body):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        return {part for name in names for part in _with_parents(name) if part in known} - {self.module}


class Sources:
    """The modules of a package and what they import.

    Args:
        package: its name.
    """

    def __init__(self, package: str = "core") -> None:
        spec = find_spec(package)
        assert spec is not None, f"no package {package}"
        assert spec.submodule_search_locations, f"{package} is not a package"
        self.root = Path(spec.submodule_search_locations[0])
        self.all: Mapping[str, Source] = {
            (name := _module(path, self.root)): Source(name, path) for path in sorted(self.root.rglob("*.py"))
        }

    def closure(self, module: str) -> frozenset[str]:
        """The module, and all modules of the package that importing it imports."""
        seen, todo = {module}, [module]
        while todo:
            new = self._imports[todo.pop()] - seen
            seen |= new
            todo += new
        return frozenset(seen)

    def jobs(self) -> list[Job]:
        """What there is to compile; no two jobs compile the same module, if what each needs comes before it."""
        sizes = {name: source.size for name, source in self.all.items() if source.size}
        closures = {name: self.closure(name) & frozenset(sizes) for name in sizes}
        groups = {tuple(sorted(other for other in closures[one] if one in closures[other])) for one in sizes}
        return [
            Job(group, closures[group[0]] - set(group), sum(sizes[name] for name in group)) for group in sorted(groups)
        ]

    @cached_property
    def _imports(self) -> dict[str, set[str]]:
        return {name: source.imports(self.all) for name, source in self.all.items()}


def chains(jobs: Collection[Job]) -> dict[Job, int]:
    """For each job its size and that of the longest chain of jobs that wait for it."""
    found: dict[Job, int] = {}

    def length(job: Job) -> int:
        if job not in found:
            waiting = [other for other in jobs if not other.needs.isdisjoint(job.modules)]
            found[job] = job.size + max(map(length, waiting), default=0)
        return found[job]

    return {job: length(job) for job in jobs}


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def _with_parents(name: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``: importing a module imports the packages around it."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, as far as they may hold imports."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _at_import(getattr(node, part, []))


def _by_numba(decorator: ast.expr) -> bool:
    """Whether it is ``njit`` or ``vectorize``, with or without arguments."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).endswith(("njit", "vectorize"))


def _signed(decorator: ast.expr) -> bool:
    """Whether it is ``njit(SIGNATURE, ...)`` or ``numba.njit(SIGNATURE, ...)``."""
    return isinstance(decorator, ast.Call) and bool(decorator.args) and _by_numba(decorator)
