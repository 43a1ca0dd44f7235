"""What all simulations share."""

import logging

import pytest


@pytest.fixture
def quiet():
    """The service has much to say about its faults; here they are meant."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
