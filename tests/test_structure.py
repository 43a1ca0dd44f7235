"""How core, service and tests are built: the rules of classes, functions, names and folders that make them readable."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import stores

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
    for package in ("core", "service")
    for path in sorted((ROOT / package).rglob("*.py"))
}
ABSTRACT = {"ABC", "Protocol"}
ROUTES = {"delete", "get", "patch", "post", "put"}
"""Decorators of routes, whose parameters are what a client may send."""
COMMANDS = {"service/client/rows.py: create", "service/client/rows.py: feedback"}
"""Their parameters are the options of a command."""
SHOWN = {"Model"}
"""What the API's document calls by the name of what it shows."""
PARAMETERS_MAX, MODULES_MAX = 7, 15


def _found(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield module, node


def _may_take_many(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Numba compiles it, so that it takes each array by itself, or it is a route."""
    decorators = [*map(ast.unparse, function.decorator_list)]
    names = {text.partition("(")[0].rpartition(".")[2] for text in decorators}
    return bool(names & {*ROUTES, "njit", "direct"})


def _exported(tree: ast.Module) -> Iterator[str]:
    """The public classes and the aliases of types that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name[:1].isupper() and not name.isupper())


def test_a_class_has_one_base_beside_protocol_and_abc() -> None:
    """What a class is stands in one place above it."""
    bases = {
        f"{module}: {node.name}": [base for base in map(ast.unparse, node.bases) if base not in ABSTRACT]
        for module, node in _found(ast.ClassDef)
        if isinstance(node, ast.ClassDef)
    }
    assert len(bases) > 300
    assert {} == {name: own for name, own in bases.items() if len(own) > 1}


def test_no_object_is_changed_behind_its_attributes() -> None:
    """Nothing reads or writes ``__dict__``, by that name or through ``vars``."""
    names = [(module, node.attr) for module, node in _found(ast.Attribute) if isinstance(node, ast.Attribute)]
    names += [(module, node.id) for module, node in _found(ast.Name) if isinstance(node, ast.Name)]
    assert [] == [(module, name) for module, name in names if name in {"__dict__", "vars"}]


def test_functions_take_seven_parameters_at_most() -> None:
    """Kernels, routes and commands aside, and ``self`` not counted."""
    long = []
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for module, node in _found(kind):
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            parameters = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            counted = [name for name in parameters if name not in {"self", "cls"}]
            if len(counted) > PARAMETERS_MAX and not _may_take_many(node):
                long.append(f"{module}: {node.name}")
    assert COMMANDS == {*long}


def test_an_exported_name_means_one_thing() -> None:
    """No two modules of core and service define a public class or alias of one name; clients stand by themselves."""
    where = defaultdict(list)
    for module, tree in MODULES.items():
        if module.startswith(("service/client/", "service/pages/onepass")):
            continue
        for name in _exported(tree):
            if not name.startswith("_"):
                where[name].append(module)
    assert len(where) > 400
    assert SHOWN == {name for name, modules in where.items() if len(modules) > 1}


@pytest.mark.parametrize("package", ["core", "service", "tests"])
def test_a_folder_has_fifteen_modules_at_most(package: str) -> None:
    """More would be about more than one thing."""
    held = Counter(path.parent for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")
    assert held
    assert {} == {folder: count for folder, count in held.items() if count > MODULES_MAX}


def test_the_tests_of_other_stores_are_there() -> None:
    """If one were missing, ``python -m tests.stores`` would run none."""
    assert [] == [file for file in stores.FILES if not (ROOT / file).exists()]
