"""What a service imports when it starts, and what with the first model that needs it."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest
from anyio._core import _eventloop

from core.config import Config, changes
from core.features import Feature, Schema, feature
from core.features.labels import distinct
from core.learners.algorithm import LOADED, Algorithm
from core.learners.catalogue import ALGORITHMS, find
from core.model import LATER as WITH_THE_FIRST_MODEL
from core.model import save
from service.first_run.kernels import Kernels
from service.runtime.threads import LARGE_THREADS
from service.store.log import codec
from tests.service.api_fixtures import STATE

VIGO = {"algorithm": "vigo", "task": "classification", "features": ["a", "b"], "labels": ["UP", "DOWN"]}
LATER = [
    "core.learners.dfop.kernels", "core.learners.dfop.bank", "core.learners.fesl.kernels", "core.learners.odm.kernels",
    "core.learners.vigo.kernels", "core.switching.linear_mapping", "core.switching.mixture",
    "httpx", "scipy.linalg", "scipy.optimize", "scipy.special",
]  # fmt: skip


def _imported(code: str) -> list[str]:
    """Which of the modules that can wait a new process has imported after some code."""
    code = f"{code}\nimport sys\nprint(*[name for name in {LATER} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """No algorithm has been loaded, as in a new process; by which threads each is."""
    seen: list[threading.Thread] = []
    load = Algorithm.load

    def watched(self: Algorithm) -> None:
        seen.append(threading.current_thread())
        load(self)

    monkeypatch.setattr(Algorithm, "load", watched)
    forget()
    return seen


def forget() -> None:
    """Make every algorithm look as in a new process."""
    LOADED.clear()
    for algorithm in ALGORITHMS.values():
        vars(algorithm).pop("forgets", None)


def test_a_service_starts_without_what_no_model_needs_yet() -> None:
    """Neither kernels of algorithms nor large libraries for what few ask for."""
    assert [] == _imported("import service.main")


def test_the_catalogue_and_a_model_s_configuration_need_one_family() -> None:
    """Listing algorithms loads none; a model loads its own."""
    listed = "import core.numerics.lapack, core.model\nfrom core.learners.catalogue import ALGORITHMS\n"
    assert [] == _imported(f"{listed}[algorithm.describe() for algorithm in ALGORITHMS.values()]")
    assert ["core.learners.fesl.kernels"] == _imported(
        "import core.numerics.lapack\nfrom core.model import Model\nfrom core.config import Config\n"
        "config = Config.parse({'algorithm': 'fesl_c', 'task': 'regression', 'features': ['a']})\n"
        "Model.first(config)\nconfig.state_bytes(1)\nconfig.algorithm.row_cost(config.spec(1), 1)"
    )


def test_an_algorithm_comes_with_all_that_it_needs() -> None:
    """What explanations need, too: it is loaded in a thread, where nobody waits; but not the rest of SciPy."""
    loaded = _imported("import core.numerics.lapack\nfrom core.learners.catalogue import find\nfind('auto').load()")
    assert ["scipy.special"] == [name for name in loaded if name.startswith("scipy.")]


async def test_the_first_stream_imports_nothing(start, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Starlette streams with is loaded when the service starts."""
    monkeypatch.setattr(_eventloop, "loaded_backends", found := {})
    await start()
    assert ["asyncio"] == [*found]


def test_what_is_loaded_with_the_first_model_is_all_that_waits() -> None:
    """Every kernel module of core comes with the start, with its algorithm, or with the first model."""
    kernels = Kernels()
    ahead = [*WITH_THE_FIRST_MODEL, "core.model", "core.features.projection"]  # the last one is for sparse rows
    others = set(kernels.modules).difference(*map(kernels.closure, ahead))
    families = [name for name in others if name.startswith("core.learners.")]
    assert families
    assert set() == others.difference(*map(kernels.closure, families))


@pytest.mark.slow
def test_linear_algebra_leaves_scipy_s_package_as_it_is() -> None:
    """The extension modules that are loaded alone are those that the package finds later."""
    code = (
        "import core.numerics.lapack, sys; alone = sys.modules['scipy.linalg.cython_blas']\n"
        "import scipy.linalg, scipy.optimize, scipy.linalg.cython_blas as found\n"
        "print(found is alone, scipy.linalg.solve([[2.0]], [4.0]))"
    )
    assert "True [2.]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


async def test_kernels_of_a_first_model_are_loaded_in_a_thread(api, start, threads) -> None:
    """When it is created, read from the store, or imported: nobody else waits meanwhile. Once is enough."""
    path = await api.new(VIGO)
    assert [False] == [thread is threading.main_thread() for thread in threads]
    await api.new(VIGO)
    assert 1 == len(threads)
    await api.post(f"{path}/feedback", {"features": {"a": 1.0, "b": 2.0}, "label": "UP"})
    exported = await api.state(path)

    forget()
    other = await start()
    await other.get(f"{path}/metrics", params={"consistency": "strong"})
    assert [False] * 2 == [thread is threading.main_thread() for thread in threads]

    forget()
    parsed = []
    parse = Config.parse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Config, "parse", lambda raw: parsed.append(threading.current_thread()) or parse(raw))
        answer = await api.ask("PUT", f"{path}-copy/state", content=exported, headers=STATE)
    assert 201 == answer.status_code
    assert parsed[0] is not threading.main_thread()
    assert find("vigo").loaded


async def test_a_model_that_is_compared_is_read_in_a_thread(api, start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading its first comparison imports SciPy's functions; others are read where they are."""
    used, read = list[threading.Thread](), save.from_bytes
    monkeypatch.setattr(save, "from_bytes", lambda blob: used.append(threading.current_thread()) or read(blob))
    for more in ({}, {"served": "DOWN"}):
        path = await api.new(VIGO)
        await api.post(f"{path}/feedback", {"features": {"a": 1.0, "b": 2.0}, "label": "UP", **more})
        await api.post(f"{path}/snapshots", status=201)
        used.clear()
        await (await start()).get(f"{path}/metrics", params={"consistency": "strong"})
        assert [not more] == [thread is threading.main_thread() for thread in used]


async def test_a_conflict_with_a_model_of_another_algorithm_loads_that_in_a_thread(api, start, threads) -> None:
    """The stored configuration is read, too."""
    path = await api.new(VIGO)
    other = await start()
    forget()
    answer = await other.ask("PUT", path, json={"algorithm": "rls", "task": "regression"})
    assert 409 == answer.status_code
    # Where it was created, then here: the algorithm that is asked for, and the one of the stored configuration.
    assert len(threads) >= 3
    assert threading.main_thread() not in threads


async def test_many_features_are_read_in_threads(api, start, monkeypatch: pytest.MonkeyPatch) -> None:
    """And many categories: when a model gets them, is asked for again, or is read from the store; also by a first row.

    In few threads: each takes the interpreter from the loop in its turn.
    """
    threads = set()
    read = Schema.__init__

    def note(values: Sequence[object]) -> None:
        if len(values) > 2:
            threads.add(threading.current_thread())

    def read_noted(self: Schema, features: Sequence[Feature]) -> None:
        note(features)
        read(self, features)

    def distinct_noted(values: Sequence[object], field: str) -> tuple[object, ...]:
        note(values)
        return distinct(values, field)

    monkeypatch.setattr(Schema, "__init__", read_noted)
    monkeypatch.setattr(feature, "distinct", distinct_noted)
    many = [f"x{at}" for at in range(300)]
    body = {"algorithm": "fesl_c", "task": "regression", "features": many}
    path = await api.new(body)
    assert 200 == (await api.ask("PUT", path, json=body)).status_code
    await (await start()).get(path, params={"consistency": "strong"})
    undeclared = await api.new({"algorithm": "rls", "task": "regression"})
    await api.post(f"{undeclared}/feedback", {"features": dict.fromkeys(many, 1.0), "label": 1.0})
    wide = ["a", {"name": "b", "categories": many}]
    await api.new({**body, "features": wide})
    path = await api.new({**body, "features": ["a"]})
    for features in (many, wide):
        await api.post(f"{path}/features/switch", {"action": "begin", "features": features})
        await api.post(f"{path}/features/switch", {"action": "abort"})
    assert threading.main_thread() not in threads
    assert 0 < len([one for one in threads if one.name.startswith("onepass-large")]) <= LARGE_THREADS


async def test_configurations_with_many_features_are_compared_in_threads(api, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a state is imported, or a model is asked for with others."""
    threads, compare = list[threading.Thread](), changes.fields_changed

    def noted(*both: Config) -> list[str]:
        threads.append(threading.current_thread())
        return compare(*both)

    body = {"algorithm": "rls", "task": "regression", "features": [f"x{at}" for at in range(300)]}
    path = await api.new(body)
    other = {**body, "features": body["features"][::-1]}
    own, foreign = await api.state(path), await api.state(await api.new(other))
    monkeypatch.setattr(changes, "fields_changed", noted)
    for status, to, sent in (
        (200, f"{path}/state", {"content": own, "headers": STATE}),
        (409, f"{path}/state", {"content": foreign, "headers": STATE}),
        (409, path, {"json": other}),
    ):
        threads.clear()
        assert status == (await api.ask("PUT", to, **sent)).status_code
        assert threads
        assert threading.main_thread() not in threads


async def test_large_bodies_of_configurations_are_read_in_threads(api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever makes them large, and also if they are refused."""
    threads, parse = list[threading.Thread](), Config.parse

    def parse_noted(raw: object) -> Config:
        threads.append(threading.current_thread())
        return parse(raw)

    path = await api.new(VIGO)
    monkeypatch.setattr(Config, "parse", parse_noted)
    tags = {"tags": {f"tag {at}": "a" for at in range(10_000)}}
    for method, to, more in (
        ("PUT", path, VIGO),
        ("PATCH", path, {}),
        ("PUT", f"{path}/challengers/other", {"algorithm": "rls"}),
    ):
        assert 422 == (await api.ask(method, to, json={**more, **tags})).status_code
    assert threads
    assert all(one.name.startswith("onepass-large") for one in threads)


def test_a_configuration_that_cannot_be_read_is_left_to_who_reads_it(threads: list[threading.Thread]) -> None:
    """Whatever is stored or sent: loading ahead says nothing about it."""
    from service.runtime.replicas.loader import load_algorithm_of
    from service.runtime.threads import load_algorithm

    for stored in (b"", b"[]", b'{"algorithm": 3}', b'{"algorithm": null}'):
        asyncio.run(load_algorithm_of(stored))
    asyncio.run(load_algorithm({"algorithm": ["vigo"]}))
    assert [] == threads
    with pytest.raises(ValueError, match="configuration"):
        codec.config(b"[]")
