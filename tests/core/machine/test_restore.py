"""Entries that name a state by its digest."""

import pytest

from core.config import Config
from core.entry import Entry, Reset, Restore
from core.machine import Machine

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})


def test_a_state_that_was_not_read_is_not_taken_for_one():
    """Who applies an entry without the bytes that it names has a bug."""
    with pytest.raises(RuntimeError, match="00ff"):
        Machine(CONFIG).apply(Entry(1, 0, (Restore(b"", "import", (), "00ff", 10),)))


def test_taking_over_a_state_is_work_by_its_bytes():
    """Who applies it decides by this estimate whether others have to wait for it."""
    model = Machine(CONFIG)
    assert 0 == model.flops_to_apply([Reset()])
    assert 1e9 < model.flops_to_apply([Restore(bytes(10**8))])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken_over(kind):
    """As it was read from the store or from a request, without a copy."""
    state = Machine(CONFIG).to_bytes()
    assert state == Machine.from_bytes(kind(state))[0].to_bytes()
