"""Shared by all simulations."""

import logging

import pytest


@pytest.fixture
def quiet():
    """Silence the service's log: it would report the faults that the simulation makes on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
