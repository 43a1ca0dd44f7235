"""Inference requests that are none, or lie about their tensors: refused in one sentence, and nothing changes."""

import json

import numpy as np
import pytest

from tests.service.api_fixtures import problem

FEATURES = {"name": "features", "datatype": "FP64", "shape": [1, 2], "data": [0.5, 0.25]}
RAW = np.array([0.5, 0.25]).tobytes()
SIZE = {"binary_data_size": 16}
BEGUN = b'{"inputs": [{"name": "features", "datatype": "FP64", "shape": [1, 2], "data": '
BINARY = {"name": "features", "datatype": "FP64", "shape": [1, 2], "parameters": SIZE}


@pytest.fixture(scope="module")
async def path(api):
    return (await api.learnt()).replace("/models", "/v2/models")


async def refused(api, path, status, **how):
    own = path.removeprefix("/v2")
    before = await api.standing(own)
    found = problem(await api.ask("POST", f"{path}/infer", **how), status)
    assert before == await api.standing(own)
    assert [] == (await api.get(f"{own}/pending"))["pending"]
    return found["error"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"nonsense", b"\xff\xfe", *(BEGUN + b"[%b, 1]}]}" % odd for odd in (b"NaN", b"Infinity")),
        b'{"id": "\\ud800", "inputs": [{"name": "\\udfff"', b"[" * 100_000, BEGUN + b"[" * 50_000 + b"]" * 50_000,
        b'{"inputs": []} {}',
    ],
)  # fmt: skip
async def test_what_is_not_json(api, path, content):
    """400, whatever the media type says."""
    await refused(api, path, 400, content=content)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        *(({"shape": shape}, "features.shape") for shape in ([1, -2], [-1, 2], [], [1, 1, 2])),
        *(({"shape": shape}, "features.data") for shape in ([2**62, 2**62], [2**70, 0], [1, 3])),
        *(({"shape": shape}, "shape") for shape in ([1, True], [1.5, 2])),
        ({"shape": [0, 2], "data": []}, "features"),
        ({"shape": [1, 3], "data": [1, 2, 3]}, "features"),
        ({"shape": [2, 1], "data": [1, 2]}, "features"),
        ({"shape": [1, 2], "data": [[1], [2]]}, "features[0][0]"),
        ({"shape": [1, 2], "data": [[1, 2], 3]}, "features[0][0]"),
        ({"shape": [1, 2], "data": [1, [2]]}, "features[0][1]"),
        *(({"data": data}, "features.data") for data in ({"0": 1}, None)),
        ({"data": ["1", "2"]}, "features[0][0]"),
        ({"data": [1, True]}, "features[0][1]"),
        ({"data": [1, 10**400]}, ""),
        ({"datatype": "BOOL", "data": [True, 1]}, "features[0][0]"),
        ({"datatype": "BYTES", "data": ["a", "b"]}, "features"),
        ({"datatype": "BYTES", "data": ["a", 1]}, "features[0][1]: is not BYTES"),
        ({"datatype": "BOOL", "data": [0, 2]}, "features[0][1]: is not BOOL"),
        *(({"datatype": "INT8", "data": [odd, 1]}, "features[0][0]: is not INT8") for odd in (128, -129, 0.5, True)),
        ({"datatype": "UINT16", "data": [1, -1]}, "features[0][1]: is not UINT16"),
        ({"datatype": "INT64", "data": [1, 2**63]}, "features[0][1]: is not INT64"),
        ({"datatype": "UINT64", "data": [1, 2.0**64]}, "features[0][1]: is not UINT64"),
        ({"datatype": "FP32", "data": [1, 1e39]}, "features[0][1]: is not FP32"),
        ({"datatype": "FP16", "data": [[1, 65_520]]}, "features[0][1]: is not FP16"),
        ({"name": "a", "datatype": "FP32", "shape": [1], "data": ["b"]}, "a[0]: is not FP32"),
        *(({"datatype": datatype}, "features.datatype") for datatype in ("BF16", "fp64")),
        ({"parameters": {"shared_memory_region": "r"}, "data": None}, "features.data"),
        *(({"parameters": {"binary_data_size": size}}, "binary_data_size") for size in (16, -1, "16")),
        ({"content": [1, 2]}, "content"),
        ({"name": "a", "shape": [1], "data": [1]}, "lacks features: b"),
        ({"name": "c", "shape": [1], "data": [1]}, "c"),
        ({"name": "input-0"}, "input-0"),
    ],
)
async def test_what_is_no_tensor(api, path, change, named):
    """The error names the input, and what would be right; sizes that no memory holds are not asked for."""
    tensor = {name: value for name, value in {**FEATURES, **change}.items() if value is not None}
    assert named in await refused(api, path, 422, content=json.dumps({"inputs": [tensor]}))


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []}, {"inputs": [FEATURES, FEATURES]},
        {"inputs": [{**FEATURES, "name": "a", "shape": [1], "data": [1]}, {**FEATURES, "name": "b", "shape": [2]}]},
        {"inputs": {"features": [1, 2]}}, {"input": []}, {"id": 17}, {"id": "x" * 201},
        {"parameters": {"track": "yes"}},
        {"parameters": {"track": True}, "inputs": [{**FEATURES, "shape": [2, 2], "data": [0.5] * 4}]},
        *({"parameters": {"track": True}, "id": odd} for odd in ("x" * 201, "a\nb")),
        {"parameters": {"binary_data_output": 1}}, {"parameters": []}, {"outputs": [{"name": "std"}]},
        {"outputs": [{"name": "prediction", "parameters": {"binary_data": "no"}}]}, {"outputs": ["prediction"]},
    ],
)  # fmt: skip
async def test_what_is_no_request(api, path, change):
    """422: other members, ids, parameters and outputs than there are."""
    await refused(api, path, 422, json={"inputs": [FEATURES], **change})


async def test_a_name_given_twice(api, path):
    """Of any object: decoders would silently keep the last one."""
    for odd in ('"id": "a", "id": "b", ', '"parameters": {"track": false, "track": true}, '):
        await refused(api, path, 422, content="{" + odd + f'"inputs": [{json.dumps(FEATURES)}]}}')


@pytest.mark.parametrize(
    ("tensor", "behind", "length"),
    [
        *((BINARY, behind, None) for behind in (RAW[:-1], RAW + b"\0", b"")),
        *((BINARY, RAW, length) for length in ("1000000", "0", "9" * 30)),
        ({**BINARY, "parameters": {"binary_data_size": 8}}, RAW[:8], None),
        ({**BINARY, "parameters": {"binary_data_size": 2**63}}, RAW, None),
        ({**BINARY, "shape": [2, 2]}, RAW, None),
        ({**BINARY, "datatype": "FP32"}, RAW, None),
        ({**BINARY, "datatype": "BYTES", "name": "a", "shape": [1]}, b"\xff\xff\xff\xff" + RAW[4:], None),
        ({**BINARY, "datatype": "BYTES", "name": "a", "shape": [1]}, b"\2\0\0\0" + RAW[4:], None),
        ({**BINARY, "datatype": "BYTES", "name": "a", "shape": [3]}, b"\0\0\0\0\x0a\0\0\0" + RAW[8:], None),
        ({**BINARY, "datatype": "BYTES", "name": "a", "shape": [1]}, b"\x0c\0\0\0" + b"\xff" * 12, None),
        (FEATURES, RAW, None),
    ],
)
async def test_binary_data_of_another_size(api, path, tensor, behind, length):
    """Cut off, left over, announced longer than it is, or no elements of the datatype: 400."""
    header = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": length or str(len(header))}
    await refused(api, path, 400, content=header + behind, headers=headers)


@pytest.mark.parametrize("length", ["-5", "x"])
async def test_a_length_that_is_none(api, path, length):
    """The header is a whole number of bytes."""
    headers = {"Inference-Header-Content-Length": length}
    assert "Length" in await refused(api, path, 422, content=json.dumps({"inputs": [FEATURES]}), headers=headers)


async def test_binary_numbers_that_are_not_finite(api, path):
    """An infinity is refused where it stands."""
    header = json.dumps({"inputs": [BINARY]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(header))}
    for odd in (np.inf, -np.inf):
        content = header + np.array([0.5, odd]).tobytes()
        assert "features[0][1]" in await refused(api, path, 422, content=content, headers=headers)


async def test_more_rows_than_a_batch_may_have(start):
    """413 from the shape and the elements, and for bodies over the limit."""
    api = await start(batch_rows_max=10, body_limit_mb=1)
    path = (await api.learnt()).replace("/models", "/v2/models")
    many = {**FEATURES, "shape": [11, 2], "data": [0.5] * 22}
    assert "10 rows" in await refused(api, path, 413, json={"inputs": [many]})
    await refused(api, path, 413, content=b" " * (2**20 + 1))
    await refused(api, path, 413, content=BEGUN + b"[" + b"[]," * 340_000 + b"[]]}]}")
