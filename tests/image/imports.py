"""Import what Onepass imports, also what its functions import when they are called; run by the image's Python.

Prints how many modules and names there are; fails at the first that is missing, and where a module would be compiled
at every start: its bytecode is not there, or is looked at only when times fit, which an image builder may change.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("core", "service")
EXTRAS = ("cycler", "matplotlib", "opentelemetry.exporter", "opentelemetry.sdk", "pyarrow")
"""Of pyproject.toml, and what comes with them; the image goes without."""

UNCHECKED = b"\x01\x00\x00\x00"


def imported(file: Path) -> Iterator[tuple[str, str]]:
    """What a file imports from other packages, wherever in it: a module, and a name in it or nothing."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def check(module: str, name: str) -> None:
    """Import it; a name of a package may be a module of it. What needs an extra is passed over."""
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(tuple(extra.partition(".")[0] for extra in EXTRAS)):
            raise


def not_compiled() -> list[str]:
    """Imported modules without bytecode that is valid whatever the times of files are (PEP 552)."""
    specs = [module.__spec__ for module in sys.modules.values() if getattr(module, "__spec__", None)]
    cached = {spec.name: Path(spec.cached) for spec in specs if spec.cached and spec.has_location}
    return sorted(name for name, path in cached.items() if not path.exists() or path.read_bytes()[4:8] != UNCHECKED)


def main() -> None:
    """Everything, once."""
    wanted: set[tuple[str, str]] = set()
    for package in PACKAGES:
        root = Path(str(importlib.import_module(package).__file__)).parent
        for file in root.rglob("*.py"):
            wanted |= {one for one in imported(file) if not one[0].startswith(EXTRAS)}
            if file.stem != "__main__":
                parts = file.relative_to(root.parent).with_suffix("").parts
                wanted.add((".".join(parts).removesuffix(".__init__"), ""))
    for one in sorted(wanted):
        check(*one)
    slow = not_compiled()
    how = f"not compiled: {slow}" if slow else "all of them are compiled"
    sys.stdout.write(f"{len(wanted)} modules and names are there; {how}\n")


if __name__ == "__main__":
    main()
