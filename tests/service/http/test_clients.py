"""Clients that generators make from /openapi.json: they compile, miss nothing, and make the README's calls."""

import json
import shutil
import subprocess
import sys

import httpx
import pytest

from service.client import private
from tests.service.openapi_document import operations

pytestmark = pytest.mark.timeout(300)  # generators, compilers and a service, each of which has a minute
NOT_JSON = {
    "text/csv": "application/octet-stream",
    "text/x-svmlight": "application/octet-stream",
    "application/x-npy": "application/octet-stream",
    "text/event-stream": "text/plain",
    "application/x-ndjson": "application/octet-stream",
}
"""What openapi-python-client is told to take other media types for."""
NPM = ("openapi-typescript@7", "openapi-fetch@0.14", "typescript@5")
PYTHON_SESSION = """
import json, sys
from onepass import Client
from onepass.api.models import show_metrics
from onepass.api.one_row import create_model, feedback_row, predict_row
from onepass.models import FeedbackRow, FeedbackRowFeaturesType0, ModelBody, PredictRow, PredictRowFeatures

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
config = ModelBody.from_dict({"algorithm": "dfop", "task": "regression"})
create_model.sync("boiler", client=client, body=config)
features = FeedbackRowFeaturesType0.from_dict({"outside": 4.5, "wind": 2.0})
learnt = feedback_row.sync("boiler", client=client, body=FeedbackRow(label=61.5, features=features, id="mon-1"))
asked = PredictRow(features=PredictRowFeatures.from_dict({"outside": 5.0, "wind": 2.0}))
predicted = predict_row.sync("boiler", client=client, body=asked)
metrics = show_metrics.sync("boiler", client=client)
print(json.dumps([learnt.rows, predicted.prediction, metrics.overall.mse]))
"""
TYPESCRIPT_SESSION = """
import createClient from "openapi-fetch";
import type { paths } from "./onepass.js";

declare const process: { argv: string[] };
const client = createClient<paths>({ baseUrl: process.argv[2] });
const params = { path: { name: "boiler" } };
await client.PUT("/models/{name}", { params, body: { algorithm: "dfop", task: "regression" } });
const row = { features: { outside: 4.5, wind: 2.0 }, label: 61.5, id: "mon-1" };
const learnt = await client.POST("/models/{name}/feedback", { params, body: row });
const features: Record<string, number> = { outside: 5.0, wind: 2.0 };
const predicted = await client.POST("/models/{name}/predict", { params, body: { features } });
const metrics = await client.GET("/models/{name}/metrics", { params });
const columns = { columns: ["outside", "wind"], data: [[5.0, 2.0]] };
const batch = await client.POST("/models/{name}/predict/batch", { params, body: columns });
const rows: number = learnt.data!.rows;
const version: number = batch.data!.version;
console.log(JSON.stringify([rows, predicted.data!.prediction, metrics.data!.overall["mse"], version]));
"""


@pytest.fixture(scope="module")
def served():
    """The address of a service that starts empty."""
    with private.session() as found:
        yield found.url


@pytest.fixture
def document(served, tmp_path):
    """Its /openapi.json as a file."""
    path = tmp_path / "openapi.json"
    path.write_bytes(httpx.get(f"{served}/openapi.json").content)
    yield path
    httpx.delete(f"{served}/models/boiler")


def run(*command, folder):
    """The standard output of a command that succeeds."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_python(served, document, tmp_path):
    """Generated without a warning, with every operation, by openapi-python-client."""
    config = tmp_path / "config.yml"
    config.write_text(json.dumps({"content_type_overrides": NOT_JSON, "post_hooks": []}))
    how = ("--meta", "none", "--output-path", "onepass", "--fail-on-warning")
    generator = (sys.executable, "-m", "openapi_python_client", "generate")
    run(*generator, "--path", str(document), "--config", str(config), *how, folder=tmp_path)
    described = {operation["operationId"] for operation in operations(json.loads(document.read_text())).values()}
    assert described <= {path.stem for path in (tmp_path / "onepass" / "api").rglob("*.py")}
    (tmp_path / "session.py").write_text(PYTHON_SESSION)
    rows, prediction, mse = json.loads(run(sys.executable, "session.py", served, folder=tmp_path))
    assert (1, 61, 3782.25) == (rows, round(prediction), mse)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js and npm: apt install npm")
def test_typescript(served, document, tmp_path):
    """Typed by openapi-typescript, checked strictly by tsc, run by Node.js."""
    try:
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *NPM, folder=tmp_path)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm cannot install {' '.join(NPM)}: {str(error)[-300:]}")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "session.ts").write_text(TYPESCRIPT_SESSION)
    tools = tmp_path / "node_modules" / ".bin"
    run(tools / "openapi-typescript", document, "-o", "onepass.d.ts", folder=tmp_path)
    run(tools / "tsc", "--strict", "--target", "es2022", "--module", "nodenext", "session.ts", folder=tmp_path)
    rows, prediction, mse, version = json.loads(run("node", "session.js", served, folder=tmp_path))
    assert (1, 61, 3782.25, 1) == (rows, round(prediction), mse, version)
