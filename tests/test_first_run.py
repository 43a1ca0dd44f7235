"""A first ``make run``: packages by uv or pip, kernels by several processes, and what a start finds of them."""

import os
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from service.first_run import compiling
from service.first_run.kernels import Kernels

ROOT = Path(__file__).resolve().parents[1]
UV = str(Path(sys.executable).with_name("uv"))


def make(folder: Path, target: str, *arguments: str) -> subprocess.CompletedProcess:
    """Packages come from the folder alone; pip is told by its configuration, uv by nobody where UV says otherwise."""
    places = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ".", "UV_OFFLINE": "1", "UV_FIND_LINKS": ".", "UV_NO_CACHE": "1"}
    command = ["make", "--file", ROOT / "Makefile", "--no-print-directory", target, *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | places, capture_output=True, text=True, timeout=300)


def installed(folder: Path) -> set[str]:
    """The packages of the test in the folder's environment."""
    return {path.name[:3] for path in folder.glob(".venv/lib/*/site-packages/*-1.0.dist-info")}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With pip."""
    venv.create(folder := tmp_path_factory.mktemp("venv"), with_pip=True)
    return folder


@pytest.fixture
def clone(tmp_path: Path, environment: Path) -> Path:
    """A folder with an environment, wheels of two empty modules, and their lock file."""
    shutil.copytree(environment, tmp_path / ".venv", symlinks=True)
    (lock := tmp_path / "service/requirements.txt").parent.mkdir()
    for name in ("one", "two"):
        path, info = tmp_path / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{name}.py", "")
            files = [f"{name}.py", *(f"{info}/{file}" for file in ("METADATA", "WHEEL", "RECORD"))]
            archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in files))
        with lock.open("a") as file:
            file.write(f"{name}==1.0 --hash=sha256:{sha256(path.read_bytes()).hexdigest()}\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("uv", [UV, "no", "", "false", "/nowhere/uv"])
def test_what_is_locked_is_installed(clone: Path, uv: str) -> None:
    """By uv, by pip on demand, and by pip where uv cannot be fetched, fails, or is not there; once."""
    done = make(clone, ".venv/stamp-run", f"UV={uv}")
    assert (0, {"one", "two"}) == (done.returncode, installed(clone)), done.stderr
    assert done.stdout.startswith("Installing packages of service/requirements.txt: ")
    assert ("uv has failed, pip installs" in done.stderr) == (uv in {"false", "/nowhere/uv"})
    assert "up to date" in make(clone, ".venv/stamp-run").stdout


@pytest.mark.slow
@pytest.mark.parametrize("uv", [UV, "no"])
@pytest.mark.parametrize("change", [("two==1.0", "two==2.0"), ("sha256:", "sha256:0"), (" --hash=", " # ")])
def test_nothing_else_is_installed(clone: Path, uv: str, change: tuple[str, str]) -> None:
    """Where a package or its hash is another one, or there is no hash: what to do is said last."""
    lock = clone / "service/requirements.txt"
    lock.write_text(lock.read_text().replace(*change))
    done = make(clone, ".venv/stamp-run", f"UV={uv}")
    assert (2, set()) == (done.returncode, installed(clone))
    assert "PIP_INDEX_URL names another index" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("uv", [UV, "no"])
def test_an_installation_that_was_cut_off_is_made_anew(clone: Path, uv: str) -> None:
    """It may have left packages without all of their files, which no installer notices."""
    assert 0 == make(clone, ".venv/stamp-run", f"UV={uv}").returncode
    (lost,) = clone.glob(".venv/lib/*/site-packages/one.py")
    lost.unlink()
    lock = clone / "service/requirements.txt"
    whole = lock.read_text()
    lock.write_text(whole.replace("two==1.0", "two==2.0"))
    assert 2 == make(clone, ".venv/stamp-run", f"UV={uv}").returncode
    lock.write_text(whole)
    assert 0 == make(clone, ".venv/stamp-run", f"UV={uv}").returncode
    assert lost.exists()
    assert not (clone / ".venv/installing").exists()


@pytest.mark.slow
def test_a_usable_environment_is_kept(tmp_path: Path) -> None:
    """Without one a Python that cannot be used is named."""
    assert "make PYTHON=python3.12 run" in make(tmp_path, ".venv/stamp-venv", "PYTHON=/nowhere/python").stderr
    venv.create(tmp_path / ".venv")
    (kept := tmp_path / ".venv/kept").touch()
    assert 0 == make(tmp_path, ".venv/stamp-venv").returncode
    assert kept.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["a new one", "one that is kept"])
@pytest.mark.parametrize("pip", [False, True], ids=["without pip", "with pip"])
def test_the_pip_of_the_python_that_makes_an_environment_installs(clone: Path, pip: bool, kept: bool) -> None:
    """The environment gets its own only where that Python has none, as making one takes longer than all packages."""
    shutil.rmtree(clone / ".venv")
    venv.create(clone / "maker", with_pip=pip)
    if kept:
        venv.create(clone / ".venv")
    done = make(clone, ".venv/stamp-run", "UV=no", f"PYTHON={clone / 'maker/bin/python'}")
    assert (0, {"one", "two"}) == (done.returncode, installed(clone)), done.stderr
    assert pip == (not list(clone.glob(".venv/lib/*/site-packages/pip")))


START = """
import sys
from numba.core.registry import cpu_target
from service.first_run import compiling, kernels
if __name__ == "__main__":
    kernels.report_compilations(lambda *kernel: print("compiles", *kernel))
    print(kernels.kernels_at_hand("pack"))
    try:
        compiling.compile_missing("pack")
    except kernels.CannotCompile as error:
        sys.exit(str(error))
    import pack.two
    assert kernels.processor() == cpu_target.target_context.codegen().magic_tuple()[1:]
    print(pack.two.two(1.0))
"""


class Pack:
    """A package that is not compiled: the kernel ``two`` calls the kernel ``one``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "pack", folder / "cache"
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()
        (folder / "start.py").write_text(START)
        self.module("one", "x + 1")
        self.module("two", "one.one(x)")

    def module(self, name: str, body: str, *, before: str = "from pack import one") -> None:
        kernel = f'@njit("f8(f8)", cache=True)\ndef {name}(x):\n    return {body}'
        (self.folder / f"{name}.py").write_text(f"from numba import njit\n{before * (name == 'two')}\n{kernel}\n")

    def start(self, script: str = "start.py", **environment: str) -> list[str]:
        """Which kernels there were, what the kernel comes to; or the error."""
        paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder.parent}", "NUMBA_CACHE_DIR": str(self.cache)}
        command, environment = [sys.executable, self.folder.parent / script], os.environ | paths | environment
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
        return done.stdout.splitlines() + done.stderr.splitlines()


@pytest.mark.slow
def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    """Not by the process that starts; and again when what they import has changed, which Numba does not see."""
    pack = Pack(tmp_path)
    assert ["None", "2.0"] == pack.start()
    said, result = pack.start()
    assert ("2.0", "kernels for processors of the type ") == (result, said[:35])
    file = next(pack.cache.rglob("one.*.nbc"))
    before = file.stat()
    pack.module("two", "one.one(x) + 2")
    assert ["None", "4.0"] == pack.start()
    assert before.st_mtime_ns == file.stat().st_mtime_ns
    pack.module("one", "x + 5")
    assert ["None", "8.0"] == pack.start()
    for file in pack.cache.rglob("*.nb[ci]"):
        file.unlink()
    assert ["compiles pack.one one", "compiles pack.two two", "8.0"] == pack.start()[1:]  # said, at least
    nowhere = {"NUMBA_CACHE_DIR": str(pack.folder / "one.py/cache")}  # Numba takes the folder beside the sources
    assert (["None", "8.0"], said) == (pack.start(**nowhere), pack.start(**nowhere)[0])


@pytest.mark.slow
def test_what_only_kernels_call_is_a_part_of_them(tmp_path: Path) -> None:
    """It is compiled with them, and cached only by a process that calls it, which later runs do not mind."""
    pack = Pack(tmp_path)
    for factor, body in enumerate(("part.part(one.one(x))", "part.part(x) + 1", "part.part(x)"), 2):
        source = f"from numba import njit\n@njit(cache=True)\ndef part(x):\n    return {factor} * x\n"
        (pack.folder / "part.py").write_text(source)
        pack.module("two", body, before="from pack import one, part")
        assert ["None", "4.0"] == pack.start()
        assert [] == [*pack.cache.rglob("part.*")]
        assert ["4.0"] == pack.start()[1:]
    (tmp_path / "caller.py").write_text("from pack.part import part\nprint(part(1.0))\n")
    assert ["4.0"] == pack.start("caller.py")
    assert [] != [*pack.cache.rglob("part.*")]
    pack.module("two", "part.part(x) + 2", before="from pack import one, part")
    assert ["None", "6.0"] == pack.start()


@pytest.mark.slow
def test_kernels_for_any_processor_are_taken_where_there_are_no_others(tmp_path: Path) -> None:
    """Also from a copy; the name of a processor leaves no choice, and a change makes all of them stale."""
    pack = Pack(tmp_path)
    pack.start(NUMBA_CPU_NAME="generic")
    pack.cache = shutil.copytree(pack.cache, pack.folder / "copied")
    said, result = pack.start()
    assert ("2.0", "kernels for any processor, as there are none for this one") == (result, said[:57])
    own = said.rpartition("NUMBA_CPU_NAME=")[2].split()[0]
    assert ["None", "2.0"] == pack.start(NUMBA_CPU_NAME=own)
    assert ["kernels for processors of the type generic", "2.0"] == pack.start(NUMBA_CPU_NAME="generic")
    pack.module("one", "x + 5")
    assert [["None", "6.0"]] * 2 == [pack.start(NUMBA_CPU_NAME=name) for name in ("generic", own)]
    assert [] == [path for path in pack.cache.rglob("*.*") if not path.stat().st_mode & 0o004]  # others read an image


def test_what_cannot_be_compiled_is_named(tmp_path: Path) -> None:
    """With the reason and what to do, without a traceback of Python's."""
    pack = Pack(tmp_path)
    pack.module("two", "x.nothing")
    assert "cannot compile pack.two: " in (said := "\n".join(pack.start()))
    assert "Unknown attribute 'nothing'" in said
    pack.module("two", "x", before="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert ["None", compiling.ENDED] == pack.start()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_compiling_stops_at_once(tmp_path: Path, kind: signal.Signals) -> None:
    """It says that the next run goes on, and its workers end with it, even if it is killed."""
    command = [sys.executable, "-m", "service.first_run", "compile"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, env=environment) as running:
        while not list(tmp_path.rglob("*.nbc")):
            assert running.poll() is None
        workers = psutil.Process(running.pid).children()
        running.send_signal(kind)
        said = running.communicate(timeout=60)[1].decode()
    assert (kind != signal.SIGKILL) == ("the next run goes on from there" in said)
    assert "Traceback" not in said
    assert running.returncode in {128 + kind, -kind}
    assert [] == psutil.wait_procs(workers, timeout=20)[1]


def test_every_kernel_of_core_waits_for_what_it_imports() -> None:
    """Also through the packages around it; of modules that import each other one stands for all."""
    order = list(compiling.in_order(kernels := Kernels()).static_order())
    assert set(kernels.modules) <= set().union(*map(kernels.closure, order))
    modules = ("core.numerics.linalg", "core.learners.dfop.kernels", "core.learners.dfop.blocks")
    assert sorted(map(order.index, modules)) == [*map(order.index, modules)]


def test_as_many_workers_as_there_are_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one."""
    for cores, limit, expected in ((1, None, 1), (64, None, compiling.WORKERS_MAX), (64, 2**30, 2), (64, 2**28, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)), raising=False)
        monkeypatch.setattr(compiling, "memory_limit", lambda limit=limit: limit)
        assert expected == compiling.worker_count()
