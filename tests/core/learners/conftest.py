"""The two ways DFOP learns rows."""

import pytest

import core.learners.dfop.blocks


@pytest.fixture
def narrow(monkeypatch):
    """Allow blocks of any width, from two rows on."""
    monkeypatch.setattr(core.learners.dfop.blocks, "COLUMNS_MIN", 1)
    monkeypatch.setattr(core.learners.dfop.blocks, "ROWS_MIN", 2)


@pytest.fixture(params=["rows", "blocks"])
def path(request):
    """Run with the row update alone, and with blocks of any width from two rows on."""
    if request.param == "blocks":
        request.getfixturevalue("narrow")
