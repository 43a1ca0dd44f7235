"""Kernels compiled by several processes: the order, what each needs, workers that fail or die, and what is recorded."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.first_run import compiling
from service.first_run.compiling import FIRST, ranked
from service.first_run.kernels import Kernel, Sources, chains

ROOT = Path(__file__).resolve().parents[1]

KERNEL = """
from numba import njit
{imports}
@njit("f8(f8)", cache=True)
def {name}(x):
    return {body}
"""

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from service.first_run import compiling
from service.first_run.kernels import Sources
from service.first_run.kernel_cache import KernelCache
sources = Sources("pack")
cache = KernelCache(sources)
print("complete", cache.complete())
cache.drop_stale()
try:
    cache.write(compiling.compile_all(sources, lambda *said: print(*said[:2], *said[2], flush=True), int(sys.argv[2])))
except compiling.CannotCompile as error:
    print("cannot compile", error)
"""


class Pack:
    """A package of modules with one kernel each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "code"
        self.cache = folder / "cache"
        (self.folder / "pack").mkdir(parents=True)
        (self.folder / "pack/__init__.py").touch()

    def module(self, name: str, *imports: str, body: str = "x + 1", text: str = "") -> None:
        lines = "\n".join(f"from pack import {one}" for one in imports)
        (self.folder / f"pack/{name}.py").write_text(KERNEL.format(name=name, body=body, imports=lines) + text)

    def sources(self, monkeypatch: pytest.MonkeyPatch) -> Sources:
        monkeypatch.syspath_prepend(str(self.folder))
        return Sources("pack")

    def compile(self, workers: int = 2, **environment: str) -> list[str]:
        """What a process says that compiles it."""
        environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(self.cache)} | environment
        command = [sys.executable, "-c", RUN, str(self.folder), str(workers)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment, timeout=100
        ).stdout.splitlines()


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """A package without modules."""
    return Pack(tmp_path)


def test_a_module_waits_for_the_kernels_it_imports() -> None:
    """Also for those that it imports through other modules, and through the packages around it."""
    jobs = {name: job for job in Sources().jobs() for name in job.modules}
    assert {"core.numerics.linalg"} == jobs["core.learners.dfop.kernels"].needs
    assert {"core.learners.dfop.kernels", "core.numerics.linalg"} == jobs["core.learners.dfop.blocks"].needs
    assert {"core.learners.vigo.cholesky"} == jobs["core.learners.vigo.kernels"].needs
    assert set() == jobs["core.learners.vigo.cholesky"].needs
    # core.metrics imports all three, so whoever imports one imports the others.
    assert jobs["core.metrics.prequential"] is jobs["core.metrics.regression"]


def test_every_kernel_module_is_in_one_job() -> None:
    """No module is forgotten, none is handed to two workers."""
    sources = Sources()
    modules = [name for job in ranked(sources) for name in job.modules]
    assert len(set(modules)) == len(modules)
    assert {name for name, source in sources.all.items() if source.kernels} <= set(modules)


def test_the_default_algorithm_comes_first_then_the_longest_chain() -> None:
    """Nobody who waits for the default model waits for the kernels of another algorithm."""
    sources = Sources()
    order = [name for job in ranked(sources) for name in job.modules]
    wanted = frozenset().union(*(sources.closure(module) for module in FIRST))
    first = [name in wanted for name in order]
    assert sorted(first, reverse=True) == first
    assert "core.learners.dfop.bank" in wanted
    behind = {name: size for job, size in chains(sources.jobs()).items() for name in job.modules}
    assert max(size for name, size in behind.items() if name in wanted) == behind[order[0]]


def test_of_two_chains_the_longer_one_begins(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is all that waits, not the module alone."""
    pack.module("large", body="x" + " + x" * 20)
    pack.module("small")
    pack.module("next", "small", body="x" + " + x" * 30)
    assert ["pack.small", "pack.next", "pack.large"] == [
        job.modules[0] for job in ranked(pack.sources(monkeypatch), first=())
    ]
    assert ["pack.large", "pack.small", "pack.next"] == [
        job.modules[0] for job in ranked(Sources("pack"), first=["pack.large"])
    ]


def test_imports_inside_functions_are_no_reason_to_wait(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made when the function is called."""
    pack.module("early")
    pack.module("later", text="\ndef ask():\n    from pack import early\n    return early\n")
    assert [frozenset(), frozenset()] == [job.needs for job in pack.sources(monkeypatch).jobs()]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_compiled_is_reported_and_what_is_cached_is_not(pack: Pack, workers: int) -> None:
    """Each kernel once, with its number; after a change those of the changed module; nothing where all is there."""
    pack.module("one")
    pack.module("two", "one", body="one.one(x)")
    assert ["complete False", "1 2 pack.one one", "2 2 pack.two two"] == pack.compile(workers)
    assert ["complete True"] == pack.compile(workers)
    pack.module("two", "one", body="one.one(x) + 2")
    assert ["complete False", "2 2 pack.two two"] == pack.compile(workers)
    assert ["complete True"] == pack.compile(workers)


def test_a_kernel_follows_what_it_imports(pack: Pack) -> None:
    """Numba looks at its own file alone, and would keep the function that was inlined before."""
    pack.module("one")
    pack.module("two", "one", body="one.one(x)")
    pack.module("three")
    pack.compile()
    pack.module("one", body="x + 5")
    assert {"pack.one one", "pack.two two"} == {line.split(" ", 2)[-1] for line in pack.compile()[1:]}
    code = "import sys; sys.path.insert(0, sys.argv[1]); from pack.two import two; print(two(1.0))"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(pack.cache)}
    command = [sys.executable, "-c", code, str(pack.folder)]
    assert "6.0\n" == subprocess.run(command, capture_output=True, text=True, env=environment).stdout


def test_a_cache_that_lacks_a_file_is_not_complete(pack: Pack) -> None:
    """Whatever the record says."""
    pack.module("one")
    pack.module("two")
    pack.compile()
    next(pack.cache.rglob("two.*.nbc")).unlink()
    assert ["complete False", "pack.two two"] == [line.removeprefix("2 2 ") for line in pack.compile(1)]


def test_a_cache_serves_two_processors_and_may_be_copied(pack: Pack) -> None:
    """As in the image: one set for the processor it was built on, one for all, copied to where they can be written."""
    pack.module("one")
    pack.compile(1)
    assert ["complete False", "1 1 pack.one one"] == pack.compile(1, NUMBA_CPU_NAME="generic")
    copied = shutil.copytree(pack.cache, pack.folder / "copied")
    shutil.rmtree(pack.cache)
    for processor in ({}, {"NUMBA_CPU_NAME": "generic"}):
        assert ["complete True"] == pack.compile(1, NUMBA_CACHE_DIR=str(copied), **processor)


def test_a_cache_that_cannot_be_written_is_not_used(pack: Pack, tmp_path: Path) -> None:
    """Numba takes the folder beside the sources then, and so does what is recorded."""
    pack.module("one")
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file/cache")
    assert ["complete False", "1 1 pack.one one"] == pack.compile(1, NUMBA_CACHE_DIR=nowhere)
    assert [] != list((pack.folder / "pack/__pycache__").glob("kernels-*.json"))
    assert ["complete True"] == pack.compile(1, NUMBA_CACHE_DIR=nowhere)


def test_an_import_after_it_compiles_nothing(pack: Pack) -> None:
    """What the workers have compiled is what another process loads."""
    pack.module("one")
    pack.module("two", "one", body="one.one(x)")
    pack.compile()
    code = "import sys; sys.path.insert(0, sys.argv[1]); from pack.two import two; print(two.stats.cache_misses)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(pack.cache)}
    command = [sys.executable, "-c", code, str(pack.folder)]
    assert "Counter()\n" == subprocess.run(command, capture_output=True, text=True, env=environment).stdout


def test_a_module_that_cannot_be_compiled_is_named(pack: Pack) -> None:
    """With the error; what waits for it is not begun."""
    pack.module("bad", body="x.nothing")
    pack.module("next", "bad")
    said = "\n".join(pack.compile())
    assert "cannot compile pack.bad: Traceback" in said
    assert "Unknown attribute 'nothing'" in said
    assert "pack.next" not in said


def test_a_worker_that_dies_is_replaced_once(pack: Pack, tmp_path: Path) -> None:
    """Its module is handed to another one; who dies of it, too, gives the module its name in the error."""
    dies = f"\nimport os, pathlib\nseen = pathlib.Path({str(tmp_path)!r}, 'seen')\n"
    pack.module("one", text=f"{dies}if not seen.exists():\n    seen.touch()\n    os.kill(os.getpid(), 9)\n")
    pack.module("two")
    assert {"complete False", "1 2 pack.one one", "2 2 pack.two two"} == set(pack.compile(1))
    pack.module("one", text=f"{dies}os.kill(os.getpid(), 9)\n")
    said = pack.compile()[-1]
    assert f"cannot compile pack.one: its process was ended 2 times (exit status {-signal.SIGKILL})" == said


def test_no_more_workers_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this process may use; at least one."""
    monkeypatch.setattr(compiling, "memory_limit", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert 1 == compiling.worker_count()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    assert compiling.WORKERS_MAX == compiling.worker_count()
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert 1 == compiling.worker_count()


def test_workers_made_from_nothing_compile_as_well(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where a process that uses its libraries must not be copied."""
    pack.module("one")
    pack.module("two", "one", body="one.one(x)")
    code = RUN.replace("sources =", "compiling._context = lambda: get_context('spawn')\nsources =", 1)
    code = f"from multiprocessing import get_context\n{code}"
    main = pack.folder / "main.py"
    main.write_text("if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in code.splitlines()))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{pack.folder}", "NUMBA_CACHE_DIR": str(pack.cache)}
    command = [sys.executable, str(main), str(pack.folder), "2"]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert ("", ["complete False", "1 2 pack.one one", "2 2 pack.two two"]) == (
        finished.stderr,
        finished.stdout.splitlines(),
    )


def test_kernels_are_counted_once(monkeypatch: pytest.MonkeyPatch, pack: Pack) -> None:
    """One that two workers begin is reported by the first; functions without a signature are not."""
    pack.module("one")
    said = []
    progress = compiling._Progress(pack.sources(monkeypatch), lambda *words: said.append(words))
    for kernel in (Kernel("pack.one", "_part"), Kernel("pack.one", "one"), Kernel("pack.one", "one")):
        progress.begins(kernel)
    assert [(1, 1, Kernel("pack.one", "one"))] == said


CHOOSE = """
import sys
sys.path.insert(0, sys.argv[1])
from service.first_run.choosing import kernels_at_hand
from service.first_run.kernel_cache import report_compilations
print(kernels_at_hand("pack"))
report_compilations(lambda *kernel: print("compiles", *kernel))
import pack.one
print(pack.one.one(1.0))
"""


def test_a_start_takes_the_kernels_that_there_are(pack: Pack) -> None:
    """Those for any processor where its own are missing, without compiling; its own where they are there."""
    pack.module("one")
    pack.compile(1, NUMBA_CPU_NAME="generic")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(pack.cache)}

    def chosen(**more: str) -> list[str]:
        command = [sys.executable, "-c", CHOOSE, str(pack.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | more, timeout=60)
        return done.stdout.splitlines()

    said, *rest = chosen()
    assert re.match(r"kernels for any \S+ processor, as there are none for this one .*NUMBA_CPU_NAME=", said)
    assert ["2.0"] == rest
    own = said.rpartition("NUMBA_CPU_NAME=")[2].split()[0]
    assert ["None", "compiles pack.one one", "2.0"] == chosen(NUMBA_CPU_NAME=own)
    pack.compile(1)
    assert [f"kernels for processors of the type {own}", "2.0"] == chosen()


def test_a_name_for_each_set_of_kernels() -> None:
    """The processor that the record of what is compiled is kept for is the one that Numba compiles for."""
    code = (
        "from numba.core.registry import cpu_target as cpu; from service.first_run.kernel_cache import Processor\n"
        "{}\nassert Processor.chosen() == cpu.target_context.codegen().magic_tuple()"
    )
    generic = "Processor.generic().choose(); assert Processor.chosen() == Processor.generic()"
    for before, environment in (("", {}), ("", {"NUMBA_CPU_NAME": "generic"}), (generic, {})):
        subprocess.run([sys.executable, "-c", code.format(before)], cwd=ROOT, check=True, env=os.environ | environment)


def test_others_may_read_what_is_compiled(pack: Pack) -> None:
    """An image is built by one user and run by another."""
    pack.module("one")
    pack.compile(1)
    files = [path for path in pack.cache.rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert [] == [path.name for path in files if not path.stat().st_mode & 0o004]


def test_little_memory_is_for_few_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit into the limit, and one in any case."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    for expected, limit in ((compiling.WORKERS_MAX, None), (2, 2**30), (1, 2**28)):
        monkeypatch.setattr(compiling, "memory_limit", lambda limit=limit: limit)
        assert expected == compiling.worker_count()
