"""The compiled kernels of core: which there are, and loading them with a report of each that has to be compiled.

A kernel is a function that Numba is given with its signature: importing its module compiles it, or loads it from
Numba's cache. Functions without a signature are compiled as parts of the kernels that call them, and are not counted.
"""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Kernel(NamedTuple):
    """A compiled function: its module and its name there."""

    module: str
    name: str


Report = Callable[[int, int, Kernel], None]
"""Called with a kernel's number, from 1, the number of all kernels, and the kernel."""


def declared(package: str = "core") -> list[Kernel]:
    """The kernels of a package, read from its sources: nothing is imported, Numba need not be installed."""
    spec = find_spec(package)
    assert spec is not None, f"no package {package}"
    assert spec.submodule_search_locations, f"{package} is not a package"
    root = Path(spec.submodule_search_locations[0])
    return [kernel for path in sorted(root.rglob("*.py")) for kernel in _in_file(path, root)]


def _in_file(path: Path, root: Path) -> Iterator[Kernel]:
    module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and any(_gives_signature(one) for one in node.decorator_list):
            yield Kernel(module, node.name)


def _gives_signature(decorator: ast.expr) -> bool:
    """Whether it is ``njit(SIGNATURE, ...)`` or ``numba.njit(SIGNATURE, ...)``."""
    return (
        isinstance(decorator, ast.Call)
        and bool(decorator.args)
        and ast.unparse(decorator.func).endswith(("njit", "vectorize"))
    )


def load(report: Report, package: str = "core") -> None:
    """Import every module of a package, and with them its kernels.

    Args:
        report: called before a kernel is compiled, in the order of compilation; not for what the cache has.
        package: its name.
    """
    from numba.core import event  # noqa: PLC0415  takes half a second, and `declared` works without it

    kernels: list[Kernel] = []
    reported: set[Kernel] = set()

    class Compilation(event.Listener):
        def on_start(self, event: event.Event) -> None:
            if not kernels:
                kernels.extend(declared(package))
            function = event.data["dispatcher"].py_func
            kernel = Kernel(function.__module__, function.__name__)
            if kernel in kernels and kernel not in reported:
                reported.add(kernel)
                finished = sum(hasattr(sys.modules.get(one.module), one.name) for one in kernels)
                report(finished + 1, len(kernels), kernel)

        def on_end(self, event: event.Event) -> None:
            """The next kernel is reported when it begins."""

    with event.install_listener("numba:compile", Compilation()):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
