"""Schemathesis sends valid and invalid requests by the OpenAPI document: no 5xx, and every answer as documented."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import Service
from tests.fuzzing.hooks import MODELS

SECONDS = int(os.environ.get("FUZZ_S", "25"))
FEW = 5
"""The seconds in ``make test``."""
KEY = "fuzz-of-all-scopes"
FOLDER = Path(__file__).parent
STREAMS = "/stream$"
"""Their answers never end."""


def _prepare(service):
    """Create the hooks' models with some rows each; one has a challenger, one is changing its features."""
    rows = [({"a": at % 7, "b": at % 5}, at % 2) for at in range(30)]
    for name, body in {
        "classes": {"task": "classification", "features": ["a", "b"], "labels": ["no", "yes"]},
        "numbers": {"task": "regression", "algorithm": "dfop", "lags": 1},
        "sparse": {"task": "classification", "algorithm": "sparse_dfop", "params": {"compressed_dim": 4}},
        "switching": {"task": "classification", "algorithm": "fesl_c", "features": ["a", "b"], "labels": ["no", "yes"]},
    }.items():
        _ask(service, "PUT", f"/models/{name}", body)
        for features, label in rows:
            row = {"features": features, "label": label if name == "numbers" else ("no", "yes")[label]}
            _ask(service, "POST", f"/models/{name}/feedback", row)
    _ask(service, "PUT", "/models/classes/challengers/beside", {"algorithm": "rls"})
    _ask(service, "POST", "/models/switching/features/switch", {"action": "begin", "features": ["c"]})


def _ask(service, method, path, body=None):
    answer = service.request(method, path, body, Authorization=f"Bearer {KEY}")
    assert answer.status in (200, 201), answer.body
    return answer.json


@pytest.mark.timeout(SECONDS * 3 + 300)
@pytest.mark.parametrize("seconds", [FEW, pytest.param(SECONDS, marks=pytest.mark.slow)])
def test_the_document_holds(tmp_path, seconds):
    """For all operations, one by one and in sequences that their links allow, with a key."""
    service = Service(tmp_path / "service", API_KEYS=f"fuzz:{KEY}:read+learn+admin", WAIT_TIMEOUT_S=0.2)
    try:
        service.start()
        _prepare(service)
        program = Path(sys.executable).parent / "schemathesis"
        command = [str(program), "--config-file", str(FOLDER / "schemathesis.toml")]
        command += ["run", f"http://127.0.0.1:{service.port}/openapi.json", "--header", f"Authorization: Bearer {KEY}"]
        command += ["--exclude-path-regex", STREAMS, "--max-time", str(seconds), "--no-color"]
        if "FUZZ_S" not in os.environ:
            command += ["--generation-deterministic"]
        env = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzzing.hooks", "PYTHONPATH": str(FOLDER.parents[1])}
        ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert 0 == ended.returncode, ended.stdout + ended.stderr
        assert service.running
        assert "Traceback" not in service.log
        models = _ask(service, "GET", "/models?limit=1000")["models"]
        assert {*MODELS} <= {model["name"] for model in models}
    finally:
        service.end()
