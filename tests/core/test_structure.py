"""How core is built: the rules of classes, functions, names and folders that make it readable."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "core"
MODULES = {path.relative_to(CORE).as_posix(): ast.parse(path.read_text()) for path in sorted(CORE.rglob("*.py"))}
ABSTRACT = {"ABC", "Protocol"}
PARAMETERS_MAX, MODULES_MAX = 7, 15


def _found(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield module, node


def _is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Numba compiles it: it takes each array by itself."""
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


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
    assert len(bases) > 50
    assert {} == {name: own for name, own in bases.items() if len(own) > 1}


def test_no_object_is_changed_behind_its_attributes() -> None:
    """Nothing reads or writes ``__dict__``, by that name or through ``vars``."""
    names = [(module, node.attr) for module, node in _found(ast.Attribute) if isinstance(node, ast.Attribute)]
    names += [(module, node.id) for module, node in _found(ast.Name) if isinstance(node, ast.Name)]
    assert [] == [(module, name) for module, name in names if name in {"__dict__", "vars"}]


def test_functions_take_seven_parameters_at_most() -> None:
    """Kernels aside, and ``self`` not counted."""
    long = []
    for module, node in _found(ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        parameters = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len([name for name in parameters if name not in {"self", "cls"}]) > PARAMETERS_MAX and not _is_kernel(node):
            long.append(f"{module}: {node.name}")
    assert [] == long


def test_an_exported_name_means_one_thing() -> None:
    """No two modules define a public class or alias of one name."""
    where = defaultdict(list)
    for module, tree in MODULES.items():
        for name in _exported(tree):
            if not name.startswith("_"):
                where[name].append(module)
    assert len(where) > 100
    assert {} == {name: modules for name, modules in where.items() if len(modules) > 1}


@pytest.mark.parametrize("folder", sorted({Path(module).parent.as_posix() for module in MODULES}))
def test_a_folder_has_fifteen_modules_at_most(folder: str) -> None:
    """More would be about more than one thing."""
    assert len([module for module in MODULES if Path(module).parent.as_posix() == folder]) <= MODULES_MAX
