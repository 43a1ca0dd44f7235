"""The Open Inference Protocol: what its clients send is answered as ``/predict`` answers it."""

import gzip
import json
import struct

import numpy as np
import pytest

from tests.service.api_fixtures import DFOP, RLS, features, problem

MIXED = {
    "algorithm": "dfop",
    "task": "classification",
    "labels": ["stays", "leaves"],
    "features": ["age", {"name": "vip", "type": "boolean"}, {"name": "day", "categories": ["mon", "tue"]}],
}
MIXED_ROWS = {"age": [41, 22.5, 30], "vip": [True, False, True], "day": ["mon", "tue", "mon"]}


def matrix(rows, datatype="FP64", **more):
    values = [[*features(row).values()] for row in range(rows)]
    return {"name": "features", "datatype": datatype, "shape": [rows, 2], "data": values, **more}


def columns(**datatypes):
    return [
        {"name": name, "datatype": datatypes[name], "shape": [3], "data": values} for name, values in MIXED_ROWS.items()
    ]


def v2(path):
    return path.replace("/models", "/v2/models")


def data(answer):
    return {output["name"]: output["data"] for output in answer["outputs"]}


def binary(ask, *blobs):
    """The request of a body with binary data."""
    header = json.dumps(ask).encode()
    return {"content": b"".join([header, *blobs]), "headers": {"Inference-Header-Content-Length": str(len(header))}}


def texts(*values):
    return b"".join(struct.pack("<I", len(value.encode())) + value.encode() for value in values)


async def test_rows_are_predicted_as_by_predict(api):
    """A matrix, flat or nested, gives the predictions and probabilities of a batch, bit for bit."""
    path = await api.learnt(rows=20)
    batch = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": matrix(5)["data"]})
    for tensor in (matrix(5), {**matrix(5), "data": [*np.ravel(matrix(5)["data"])]}):
        answer = await api.post(f"{v2(path)}/infer", {"inputs": [tensor], "id": "r-1"})
        assert ["prediction", "probabilities"] == [own["name"] for own in answer["outputs"]]
        said, shares = answer["outputs"]
        assert ("BYTES", [5], batch["predictions"]) == (said["datatype"], said["shape"], said["data"])
        assert ("FP64", [5, 2]) == (shares["datatype"], shares["shape"])
        assert [*np.ravel(batch["probabilities"])] == shares["data"]
        assert ["UP", "DOWN"] == shares["parameters"]["classes"]
        assert (path[8:], str(batch["version"]), "r-1") == (answer["model_name"], answer["model_version"], answer["id"])


async def test_a_regression_answers_numbers(api):
    """One output, FP64."""
    path = await api.learnt(RLS, rows=9)
    batch = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": matrix(4)["data"]})
    answer = await api.post(f"{v2(path)}/infer", {"inputs": [matrix(4)]})
    (said,) = answer["outputs"]
    assert {"name": "prediction", "datatype": "FP64", "shape": [4], "data": batch["predictions"]} == said
    assert "id" not in answer


async def test_binary_tensors_both_ways(api):
    """The same predictions as from JSON; the JSON's length in a header, the outputs behind it."""
    path = await api.learnt(rows=20)
    plain = data(await api.post(f"{v2(path)}/infer", {"inputs": [matrix(5)]}))
    raw = np.array(matrix(5)["data"]).tobytes()
    tensor = {**matrix(5), "parameters": {"binary_data_size": len(raw)}}
    del tensor["data"]
    ask = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    answer = await api.ask("POST", f"{v2(path)}/infer", **binary(ask, raw))
    described = (await api.get("/openapi.json"))["paths"]["/v2/models/{name}/infer"]["post"]["responses"]["200"]
    assert {"application/json", answer.headers["content-type"]} == set(described["content"])
    assert "application/octet-stream" == answer.headers["content-type"]
    length = int(answer.headers["inference-header-content-length"])
    said, shares = json.loads(answer.content[:length])["outputs"]
    sizes = [own["parameters"]["binary_data_size"] for own in (said, shares)]
    assert len(answer.content) == length + sum(sizes)
    assert texts(*plain["prediction"]) == answer.content[length : length + sizes[0]]
    assert plain["probabilities"] == np.frombuffer(answer.content[length + sizes[0] :]).tolist()
    outputs = [{"name": "prediction", "parameters": {"binary_data": False}}]
    answer = await api.ask("POST", f"{v2(path)}/infer", **binary({**ask, "outputs": outputs}, raw))
    assert {"prediction": plain["prediction"]} == data(answer.json())


async def test_one_tensor_for_each_feature_where_kinds_are_mixed(api):
    """Numbers of any datatype, BOOL and BYTES, as JSON and binary, in any order: as the same batch by column."""
    path = await api.new(MIXED)
    rows = [*map(list, zip(*MIXED_ROWS.values(), strict=True))]
    await api.post(
        f"{path}/feedback/batch", {"columns": [*MIXED_ROWS], "data": rows, "labels": ["stays", "leaves", "stays"]}
    )
    batch = await api.post(f"{path}/predict/batch", {"columns": [*MIXED_ROWS], "data": rows})
    expected = {"prediction": batch["predictions"], "probabilities": [*np.ravel(batch["probabilities"])]}
    for datatype in ("FP64", "FP32", "FP16"):
        inputs = columns(age=datatype, vip="BOOL", day="BYTES")
        assert expected == data(await api.post(f"{v2(path)}/infer", {"inputs": inputs}))
    narrow = [{**own, "shape": [3, 1], "data": [[value] for value in own["data"]]} for own in inputs[::-1]]
    assert expected == data(await api.post(f"{v2(path)}/infer", {"inputs": narrow}))
    blobs = np.float32(MIXED_ROWS["age"]).tobytes(), bytes(MIXED_ROWS["vip"]), texts(*MIXED_ROWS["day"])
    own = columns(age="FP32", vip="BOOL", day="BYTES")
    for tensor, blob in zip(own, blobs, strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": len(blob)}
    answer = await api.ask("POST", f"{v2(path)}/infer", **binary({"inputs": own}, *blobs))
    assert expected == data(answer.json())
    assert "day" in problem(await api.ask("POST", f"{v2(path)}/infer", json={"inputs": [matrix(1)]}), 422)["error"]


@pytest.mark.parametrize(
    ("datatype", "pair"),
    [
        ("FP16", [65_519, -65_504]), ("FP32", [3.4028235e38, 7]),  # the largest one, as clients write it
        *((f"INT{bits}", [2 ** (bits - 1) - 1, -(2 ** (bits - 1))]) for bits in (8, 16, 32, 64)),
        ("INT16", [1.0, -3.0]),  # JavaScript's whole numbers are such numbers, too
        *((f"UINT{bits}", [2**bits - 1, 0]) for bits in (8, 16, 32, 64)),
        ("BOOL", [0, 1]), ("BOOL", [True, False]),
    ],
)  # fmt: skip
async def test_every_element_of_a_datatype_is_taken(api, datatype, pair):
    """The largest and the smallest, in JSON, whatever clients write them as, and in binary."""
    path = await api.shared()
    numbers = [int(one) if one is True or one is False else one for one in pair]
    batch = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": [numbers]})
    tensor = {"name": "features", "datatype": datatype, "shape": [1, 2]}
    answer = await api.post(f"{v2(path)}/infer", {"inputs": [{**tensor, "data": pair}]})
    assert batch["predictions"] == data(answer)["prediction"]
    raw = np.array(pair, {"BOOL": "?"}.get(datatype, datatype.lower().replace("fp", "float"))).tobytes()
    tensor["parameters"] = {"binary_data_size": len(raw)}
    packed = await api.post(f"{v2(path)}/infer", **binary({"inputs": [tensor]}, raw))
    assert answer["outputs"] == packed["outputs"]


async def test_missing_values(api):
    """A null in JSON and NaN in binary numbers, where the model fills them; else they are refused by name."""
    path = await api.learnt(missing="mean", rows=9)
    batch = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": [[None, 0.5], [0.25, None]]})
    tensor = {"name": "features", "datatype": "FP64", "shape": [2, 2]}
    given = {**tensor, "data": [None, 0.5, 0.25, None]}
    assert batch["predictions"] == data(await api.post(f"{v2(path)}/infer", {"inputs": [given]}))["prediction"]
    raw = np.array([np.nan, 0.5, 0.25, np.nan]).tobytes()
    ask = {"inputs": [{**tensor, "parameters": {"binary_data_size": 32}}]}
    answer = await api.ask("POST", f"{v2(path)}/infer", **binary(ask, raw))
    assert batch["predictions"] == data(answer.json())["prediction"]
    shared = v2(await api.shared())
    assert "features[0][0]" in problem(await api.ask("POST", f"{shared}/infer", json={"inputs": [given]}), 422)["error"]
    answer = await api.ask("POST", f"{shared}/infer", **binary(ask, raw))
    assert "features[0][0]: is missing" in problem(answer, 422)["error"]


async def test_what_makes_it_unready_is_named(start):
    """Of the checks those that decide, and no others."""
    api = await start()
    assert not api.engine.ready()[1]["hints"]
    assert {"ready": True} == await api.get("/v2/health/ready")
    api.engine.leaving = True
    refused = problem(await api.ask("GET", "/v2/health/ready"), 503)
    assert "the service is not ready: stays" == refused["error"]
    api.engine.leaving = False


async def test_metadata(api):
    """The service, and a model's tensors by its features and labels; one matrix where all are numbers."""
    server = await api.get("/v2")
    assert ("onepass", ["binary_tensor_data"]) == (server["name"], server["extensions"])
    assert {"live": True} == await api.get("/v2/health/live")
    assert {"ready": True} == await api.get("/v2/health/ready")
    path = await api.learnt(rows=3)
    shown = await api.get(v2(path))
    assert (path[8:], ["3"], "onepass") == (shown["name"], shown["versions"], shown["platform"])
    assert [{"name": "features", "datatype": "FP64", "shape": [-1, 2]}] == shown["inputs"]
    assert [("prediction", "BYTES", [-1]), ("probabilities", "FP64", [-1, 2])] == kinds(shown["outputs"])
    mixed = await api.get(v2(await api.new(MIXED)))
    assert [("age", "FP64", [-1]), ("vip", "BOOL", [-1]), ("day", "BYTES", [-1])] == kinds(mixed["inputs"])
    regression = await api.get(v2(await api.new({"task": "regression"})))
    assert [("features", "FP64", [-1, -1])] == kinds(regression["inputs"])
    assert [("prediction", "FP64", [-1])] == kinds(regression["outputs"])


def kinds(tensors):
    return [(own["name"], own["datatype"], own["shape"]) for own in tensors]


async def test_the_present_version_alone_can_be_asked(api):
    """By metadata, readiness and inference; any other is 404, as is a model that is none."""
    path = v2(await api.learnt(rows=3))
    body = {"inputs": [matrix(1)]}
    assert (await api.post(f"{path}/infer", body)) == await api.post(f"{path}/versions/3/infer", body)
    assert (await api.get(path)) == await api.get(f"{path}/versions/3")
    for at in (path, f"{path}/versions/3"):
        assert {"name": path[11:], "ready": True} == await api.get(f"{at}/ready")
    for other in (f"{path}/versions/2", f"{path}/versions/x", "/v2/models/nobody", "/v2/models/-bad"):
        problem(await api.ask("GET", other), 404)
        problem(await api.ask("GET", f"{other}/ready"), 404)
        problem(await api.ask("POST", f"{other}/infer", json=body), 404)
    problem(await api.ask("GET", "/v2/nothing"), 404)
    assert "GET" in (await api.ask("DELETE", "/v2")).headers["allow"]
    assert 200 == (await api.ask("GET", path, params={"consistency": "strong"})).status_code


async def test_a_tracked_row_is_learned_by_its_id(api):
    """The request's id is the prediction id; pending or seen it is 409; the label is scored by what was said."""
    path = await api.learnt(rows=8)
    await api.post(f"{path}/feedback", {"features": features(1), "label": "UP", "id": "order-16"})
    ask = {"id": "order-17", "inputs": [matrix(1)], "parameters": {"track": True}}
    before = await api.get(path)
    answer = await api.post(f"{v2(path)}/infer", ask)
    assert ("order-17", "order-17") == (answer["id"], answer["parameters"]["prediction_id"])
    assert before["version"] == (await api.get(path))["version"]
    waiting = (await api.get(f"{path}/pending"))["pending"]
    (said,) = data(answer)["prediction"]
    assert [("order-17", said)] == [(own["prediction_id"], own["prediction"]) for own in waiting]
    assert "id" in problem(await api.ask("POST", f"{v2(path)}/infer", json=ask), 409)["error"]
    learned = await api.post(f"{path}/feedback", {"prediction_id": "order-17", "label": "UP"})
    assert (said, before["rows"] + 1) == (learned["prediction"], learned["rows"])
    for seen in ("order-17", "order-16"):
        problem(await api.ask("POST", f"{v2(path)}/infer", json={**ask, "id": seen}), 409)
    made = await api.post(f"{v2(path)}/infer", {**ask, "id": ""})
    assert made["id"] == made["parameters"]["prediction_id"] != ""
    await api.post(f"{path}/feedback", {"prediction_id": made["id"], "label": "UP"})


async def test_features_by_name_are_tracked_too(api):
    """A row of mixed kinds, and one of named sparse rows."""
    mixed = await api.new(MIXED)
    one = [{**own, "shape": [1], "data": own["data"][:1]} for own in columns(age="FP64", vip="BOOL", day="BYTES")]
    answer = await api.post(f"{v2(mixed)}/infer", {"inputs": one, "parameters": {"track": True}})
    await api.post(f"{mixed}/feedback", {"prediction_id": answer["id"], "label": "stays"})
    sparse = await api.new({"algorithm": "sparse_dfop", "task": "classification", "labels": ["spam", "ham"]})
    words = [
        {"name": name, "datatype": "FP32", "shape": [1], "data": [count]} for name, count in (("pills", 2), ("at", 1))
    ]
    expected = await api.post(f"{sparse}/predict", {"features": {"pills": 2, "at": 1}})
    answer = await api.post(f"{v2(sparse)}/infer", {"inputs": words, "parameters": {"track": True}})
    assert [expected["prediction"]] == data(answer)["prediction"]
    await api.post(f"{sparse}/feedback", {"prediction_id": answer["id"], "label": "spam"})
    assert [] == (await api.get(v2(sparse)))["inputs"]


async def test_before_there_is_anything_to_say(api):
    """Without features, and without a label, a model cannot be asked: 409."""
    bare_model = v2(await api.new({"algorithm": "dfop", "task": "classification"}))
    problem(await api.ask("POST", f"{bare_model}/infer", json={"inputs": [matrix(1)]}), 409)
    unlabelled = v2(await api.new(DFOP, labels=None))
    for more in ({}, {"parameters": {"track": True}}):
        body = {"inputs": [matrix(1)], **more}
        assert "label" in problem(await api.ask("POST", f"{unlabelled}/infer", json=body), 409)["error"]


async def test_the_media_type_of_a_body_does_not_matter(api):
    """That of curl, none at all, and odd ones; gzip is unpacked."""
    path = v2(await api.shared())
    expected = await api.post(f"{path}/infer", {"inputs": [matrix(1)]})
    body = json.dumps({"inputs": [matrix(1)]}).encode()
    kinds = [f"application/{name}" for name in ("x-www-form-urlencoded", "octet-stream", "vnd.kserve+json")]
    for kind in (*kinds, "odd", ""):
        answer = await api.ask("POST", f"{path}/infer", content=body, headers={"Content-Type": kind})
        assert expected == answer.json()
    assert expected == (await api.ask("POST", f"{path}/infer", content=body)).json()
    packed = {"content": gzip.compress(body), "headers": {"Content-Encoding": "gzip"}}
    assert expected == (await api.ask("POST", f"{path}/infer", **packed)).json()
