"""A service that is told to stop serves on for a while, and says so."""

import pytest

from service.app import leave
from service.server.drain import Drain


def test_the_stop_is_due_when_the_drain_is_over():
    """It begins once; who asks for the stop again gets it now."""
    now, begun = 100.0, []
    drain = Drain(5.0, lambda: begun.append(now), lambda: now)
    assert (False, True, False) == (drain.over, drain.begin(), drain.begin())
    now = 104.9
    assert not drain.over
    now = 105.0
    assert (True, [100.0]) == (drain.over, begun)


def test_without_a_drain_a_stop_is_one():
    """The default: nobody waits where there is no balancer."""
    drain = Drain(0.0, lambda: pytest.fail("it has begun"))
    assert (False, False) == (drain.begin(), drain.over)


async def test_a_service_that_leaves_is_not_ready_and_answers(start):
    """Balancers send nothing more; what they sent before they looked is learned."""
    api = await start()
    path = await api.learnt()
    leave(api.app)
    answer = await api.ask("GET", "/readyz")
    assert (503, False, "up") == (answer.status_code, answer.json()["checks"]["stays"], answer.json()["store"])
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": "UP"})
