"""What the budget counts of a model is what the model takes of the process."""

import gc
import tracemalloc

from tests.service.api_fixtures import DFOP, columnar

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
