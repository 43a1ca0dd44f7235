"""The memory limit of a container, what of it models get, and what is counted of each."""

import ctypes
import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from core.config import Config
from core.entry import Challenge, Entry
from core.model import Model
from core.model.apply import apply
from service import memory_limit
from service.app import build
from service.client import app, serving
from service.memory_limit import TooSmall, bodies_mb, budget_mb, store_mb
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.settings import Settings
from tests.service.api_fixtures import DFOP, columnar

MB = 2**20


def limit(tmp_path: Path, membership: str, files: dict[str, str]) -> int | None:
    """The limit that is found where these files are."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(membership)
    for name, content in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(content)
    return memory_limit.memory_limit(groups, proc)


@pytest.mark.parametrize(
    ("expected", "membership", "files"),
    [
        (300 * MB, "0::/\n", {"memory.max": f"{300 * MB}\n"}),
        (None, "0::/\n", {"memory.max": "max\n"}),
        (None, "0::/\n", {}),
        (200 * MB, "0::/a.slice/b\n", {"a.slice/memory.max": f"{200 * MB}", "a.slice/b/memory.max": f"{300 * MB}"}),
        (300 * MB, "0::/host/path\n", {"memory.max": f"{300 * MB}\n"}),
        (400 * MB, "5:cpu:/x\n4:memory:/docker/1\n0::/\n", {"memory/memory.limit_in_bytes": f"{400 * MB}\n"}),
        (400 * MB, "4:memory:/pod/1\n", {"memory/pod/1/memory.limit_in_bytes": f"{400 * MB}\n"}),
        (None, "4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, expected: int | None, membership: str, files: dict[str, str]) -> None:
    """Of both versions of control groups, of the own group and of those above it; a huge one is none."""
    assert expected == limit(tmp_path, membership, files)


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    """Other systems than Linux have none of the files."""
    assert memory_limit.memory_limit(tmp_path / "none", tmp_path / "none") is None


@pytest.mark.parametrize(
    ("expected", "wanted", "given", "limited"),
    [
        (1024, 1024, False, None), (1024, 1024, False, 4096), (1024, 1024, False, 1536), (512, 1024, False, 1024),
        (128, 1024, False, 512), (96, 1024, False, 384), (64, 64, False, 1024), (768, 768, True, 1024),
        (5000, 5000, True, None),
    ],
)  # fmt: skip
def test_models_get_what_the_limit_leaves(expected: int, wanted: int, given: bool, limited: int | None) -> None:
    """All but half a gigabyte, a quarter at least; what somebody has set stays."""
    assert expected == budget_mb(wanted, given, None if limited is None else limited * MB)


def test_bodies_get_a_twelfth_of_the_limit() -> None:
    """Unless somebody has set what they get."""
    assert (256, 128, 32) == (
        bodies_mb(256, False, None),
        bodies_mb(256, False, 1536 * MB),
        bodies_mb(256, False, 384 * MB),
    )
    assert (256, 16) == (bodies_mb(256, True, 1536 * MB), bodies_mb(16, False, 1536 * MB))


@pytest.mark.parametrize(
    ("expected", "models", "bodies", "limited"),
    [(None, 1024, 256, None), (1318, 1024, 256, 4096), (102, 1024, 128, 1536), (38, 96, 32, 384), (64, 768, 85, 1024)],
)
def test_a_private_store_gets_half_of_what_is_left(expected: int, models: int, bodies: int, limited: int) -> None:
    """The other half is for the copy of what changes during a rewrite; a sixteenth of the limit at least."""
    assert expected == store_mb(models, bodies, None if limited is None else limited * MB)


async def test_a_private_store_keeps_to_the_limit(
    tmp_path: Path, own_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses writes instead of growing until the system kills it."""
    monkeypatch.setattr(memory_limit, "memory_limit", lambda: 1536 * MB)
    app = build(Settings(data_dir=tmp_path, memory_budget_mb=1024, bodies_mb=128))
    async with app.router.lifespan_context(app):
        (bound,) = await app.context.engine.store.connection.ask(("CONFIG", "GET", "maxmemory*"))
    found = dict(zip(bound[::2], bound[1::2], strict=True))
    assert (str(102 * MB).encode(), b"noeviction") == (found[b"maxmemory"], found[b"maxmemory-policy"])


@pytest.mark.parametrize(
    ("wanted", "given", "limited", "said"),
    [
        (1024, False, 383, r"is 383 MB; Onepass needs 384 MB"),
        (769, True, 1024, r"MEMORY_BUDGET_MB: 769 MB.*to 1281 MB"),
    ],
)
def test_a_limit_that_leaves_no_room_is_refused(wanted: int, given: bool, limited: int, said: str) -> None:
    """The message says what the limit is and what it would have to be."""
    with pytest.raises(TooSmall, match=said):
        budget_mb(wanted, given, limited * MB)


def test_a_start_keeps_to_the_limit(
    tmp_path: Path, own_settings: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`onepass serve` lowers what nobody has set, and refuses to start where that cannot do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEPASS_PORT", "0")  # 8000 may be taken
    budgets = []
    monkeypatch.setattr(serving, "_compile_kernels", lambda: True)
    monkeypatch.setattr(
        "service.main.run", lambda settings, **_: budgets.append((settings.memory_budget_mb, settings.bodies_mb)) or 0
    )
    monkeypatch.setattr(memory_limit, "memory_limit", lambda: 1024 * MB)
    given = ["--memory-budget-mb", "600", "--bodies-mb", "100"]
    assert (0, 0) == (app.main(["serve"]), app.main(["serve", *given]))
    assert [(512, 85), (600, 100)] == budgets
    capsys.readouterr()
    assert 2 == app.main(["serve", "--memory-budget-mb", "1024"])
    assert "exceeds what the memory limit" in capsys.readouterr().err


FREED = """
import ctypes, sys
from pathlib import Path
from concurrent.futures import ThreadPoolExecutor
import numba
import numpy as np
from service import main
from service.settings import Settings

class Heap(ctypes.Structure):  # as malloc.h has it: the fifth of ten sizes is that of blocks with pages of their own
    _fields_ = [(f"size{at}", ctypes.c_size_t) for at in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap
libc.fopen.restype = ctypes.c_void_p
code = []

def measured(*_):
    lines = Path("/proc/self/smaps").read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if line.endswith("libllvmlite.so") and " r-xp " in line]
    code.append(sum(int(lines[at + 4].split()[1]) for at in heads))
    assert 3 == numba.njit(lambda number: number + 1)(2)

main.Server.run = measured
main.run(Settings(), keys_file=None, ssl={})
for _turn in range(2):
    before, array = libc.mallinfo2().size4, np.empty(2**19)
    apart = libc.mallinfo2().size4 - before
    del array
with ThreadPoolExecutor(4) as threads:
    kept = list(threads.map(np.empty, [1000] * 1000))
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(apart, *code)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or newer")
def test_freed_memory_goes_back(tmp_path: Path) -> None:
    """Large arrays to the system, also after others have been freed; small ones to all threads: they share a heap.

    The compiler's code is put away when kernels are loaded, and comes back where something is compiled.
    """
    command = [sys.executable, "-c", FREED, tmp_path / "heaps.xml"]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # its threads would have heaps before the service begins
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True)
    apart, code_kb = map(int, done.stdout.split())
    assert apart >= 4 * MB
    assert code_kb < 4096
    assert 1 == (tmp_path / "heaps.xml").read_text().count("<heap nr=")


MODELS = 40
MODEL = {**DFOP, "algorithm": "rls"}


async def _learned(api):
    path = await api.new(MODEL)
    await api.post(f"{path}/feedback/batch", {**columnar(50), "labels": ["UP", "DOWN"] * 25})


async def test_a_model_counts_what_it_takes(start):
    """Arrays, and the objects around them: no less than three quarters of what is allocated, nor a quarter more."""
    api = await start()
    ledger = api.engine.models.ledger
    for _ in range(3):  # what the first ones bring once
        await _learned(api)
    gc.collect()
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], ledger.used
        for _ in range(MODELS):
            await _learned(api)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    ratio = (ledger.used - counted) / taken
    assert 0.75 < ratio < 1.25, f"counted {(ledger.used - counted) / MODELS:.0f} bytes of {taken / MODELS:.0f}"


@pytest.mark.parametrize("challenged", [False, True])
@pytest.mark.parametrize(
    ("count", "length", "more"),
    [
        (3000, 5, {}), (3000, 190, {}), (600, 12, {"type": "boolean"}), (300, 20, {"type": "time"}),
        (200, 20, {"type": "categorical"}), (2000, 12, {"categories": 2}), (100, 190, {"categories": 50}),
    ],
)  # fmt: skip
def test_names_and_categories_are_counted(count: int, length: int, more: dict[str, Any], challenged: bool) -> None:
    """A wide model holds more in names and tables of its columns than in numbers: eviction has to know of it."""

    def named(start: str) -> str:
        return start.ljust(length, "é")

    def features(width: int) -> list[Any]:
        texts = [[named(f"{at} of {n}") for at in range(more.get("categories", 0))] for n in range(width)]
        own = [{**more, "name": named(f"x{n}")} for n in range(width)]
        return [{**one, "categories": each} if each else one for one, each in zip(own, texts, strict=True)]

    def loaded(width: int) -> Replica:
        body = {"task": "regression", "algorithm": "fesl_c", "features": features(width)}
        model = Model.first(Config.parse(body))
        if challenged:
            apply(model, Entry(1, 0, (Challenge("other", {"algorithm": "fesl_c", "promote": "never"}, 8),)))
        own = Replica("m", "i", 0, model, 0, "i", 0, Stats())
        own.measure()
        return own

    first = loaded(3)  # what the process needs once
    gc.collect()
    tracemalloc.start()
    try:
        wide = loaded(count)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.8 * held <= wide.nbytes - first.nbytes <= 1.25 * held
