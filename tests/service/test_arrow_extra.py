"""Where pyarrow is not installed Parquet and Arrow are refused, and the extra is named."""

import pytest

from service.api import bodies, overlap
from service.api.media import ARROW_TABLES, CSV, JSON, NDJSON, NPY
from tests.service.api_fixtures import DFOP, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("kind", ARROW_TABLES)
async def test_the_extra_is_named(api, monkeypatch, kind):
    """415 by every route of tables; a route of single rows does not speak of it."""
    for where in (bodies, overlap):
        monkeypatch.setattr(where, "DENSE_TABLES", (JSON, NDJSON, CSV, NPY))
    path = await api.new()
    for route in ("predict/batch", "feedback/batch", "features/overlap"):
        found = problem(await api.ask("POST", f"{path}/{route}", content=b"PAR1", headers={"Content-Type": kind}), 415)
        assert "pip install '.[arrow]' in a checkout" in found["errors"][0]["problem"]
        assert kind not in found["errors"][0]["allowed"]
    answer = await api.ask("POST", f"{path}/predict", content=b"PAR1", headers={"Content-Type": kind})
    assert "arrow]" not in problem(answer, 415)["errors"][0]["problem"]


async def test_sparse_models_take_neither(api):
    """Their rows have no columns."""
    path = await api.new({**DFOP, "algorithm": "sparse_dfop", "features": None})
    answer = await api.ask("POST", f"{path}/predict/batch", content=b"PAR1", headers={"Content-Type": ARROW_TABLES[0]})
    problem(answer, 415, "Content-Type")
