"""tritonclient, and the payloads that KServe's and MLServer's documentation shows, against a running service."""

import httpx
import numpy as np
import pytest

triton = pytest.importorskip("tritonclient.http")
from tritonclient.utils import InferenceServerException  # noqa: E402  behind the check that it is there

LEAVES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
IRIS = {"algorithm": "dfop", "task": "classification", "features": LEAVES, "labels": ["setosa", "virginica"]}
ROWS = [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]]


@pytest.fixture(scope="module")
def iris(url):
    """The service, with a model that has learned two rows."""
    with httpx.Client(base_url=url) as http:
        assert 201 == http.put("/models/iris", json=IRIS).status_code
        rows = {"columns": IRIS["features"], "data": ROWS, "labels": ["setosa", "virginica"]}
        assert 200 == http.post("/models/iris/feedback/batch", json=rows).status_code
        yield http


@pytest.fixture
def client(iris):
    client = triton.InferenceServerClient(url=iris.base_url.netloc.decode())
    yield client
    client.close()


def batch(iris):
    found = iris.post("/models/iris/predict/batch", json={"columns": IRIS["features"], "data": ROWS}).json()
    return found["predictions"], found["probabilities"]


def test_triton_asks_for_health_and_metadata(client):
    """Live, ready, and what the model takes, by its name and its present version."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("iris")
    assert not client.is_model_ready("nobody")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    shown = client.get_model_metadata("iris")
    assert shown == client.get_model_metadata("iris", shown["versions"][0])
    assert [{"name": "features", "datatype": "FP64", "shape": [-1, 4]}] == shown["inputs"]


@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
@pytest.mark.parametrize("sent_binary", [True, False])
@pytest.mark.parametrize("told_binary", [None, True, False])
def test_triton_infers(iris, client, datatype, sent_binary, told_binary):
    """Tensors in JSON and binary, both ways; without a choice of outputs the client asks for binary ones."""
    numbers = np.array(ROWS, {"FP64": np.float64, "FP32": np.float32}[datatype])
    tensor = triton.InferInput("features", [*numbers.shape], datatype)
    tensor.set_data_from_numpy(numbers, binary_data=sent_binary)
    outputs = None
    if told_binary is not None:
        outputs = [
            triton.InferRequestedOutput(name, binary_data=told_binary) for name in ("probabilities", "prediction")
        ]
    found = client.infer("iris", [tensor], outputs=outputs, request_id="t-1")
    labels, shares = batch(iris)
    said = [own.decode() if isinstance(own, bytes) else own for own in found.as_numpy("prediction")]
    assert labels == said
    np.testing.assert_allclose(found.as_numpy("probabilities"), shares, rtol=1e-6 if datatype == "FP32" else 0)
    assert "t-1" == found.get_response()["id"]


def test_triton_sends_a_tensor_for_each_feature_packed(iris, client):
    """Columns as binary tensors in one gzip body, and their order does not matter."""
    inputs = []
    for name, values in reversed([*zip(IRIS["features"], np.array(ROWS).T, strict=True)]):
        inputs.append(triton.InferInput(name, [2], "FP64"))
        inputs[-1].set_data_from_numpy(np.ascontiguousarray(values))
    found = client.infer("iris", inputs, request_compression_algorithm="gzip")
    assert batch(iris)[0] == [own.decode() for own in found.as_numpy("prediction")]


def test_triton_is_told_what_is_wrong(client):
    """The sentence and the status arrive as the client's own exception."""
    tensor = triton.InferInput("features", [1, 3], "FP64")
    tensor.set_data_from_numpy(np.zeros((1, 3)))
    with pytest.raises(InferenceServerException, match="features") as refused:
        client.infer("iris", [tensor])
    assert "422" == refused.value.status()
    with pytest.raises(InferenceServerException, match="no model nobody"):
        client.get_model_metadata("nobody")


@pytest.mark.parametrize(
    "more",
    [
        {"id": "2e8bb6e2", "model_name": "iris"},
        {"parameters": {"content_type": "np", "headers": {"x-request-id": "7"}}, "id": None, "outputs": None},
        {"parameters": {"sequence_id": 7, "priority": 1, "timeout": 1000}},
    ],
)
def test_what_other_clients_send_beside_the_tensors(iris, more):
    """KServe's client repeats the model's name, MLServer's sends content types and nulls, others their parameters."""
    tensor = {"name": "features", "shape": [2, 4], "datatype": "FP32", "data": ROWS}
    inputs = [{**tensor, "parameters": {"content_type": "np"}}]
    answer = iris.post("/v2/models/iris/infer", json={"inputs": inputs, **more})
    assert 200 == answer.status_code, answer.text
    assert batch(iris)[0] == answer.json()["outputs"][0]["data"]
