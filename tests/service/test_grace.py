"""How long a stop may take in all."""

from service.app import Grace


def test_requests_and_snapshots_share_the_grace_period():
    """It begins when the stop is asked for, not when the requests are done, and is never begun again."""
    now = 100.0
    grace = Grace(20.0, lambda: now)
    assert (20.0, 10.0) == (grace.left_s, grace.for_requests_s)
    grace.begin()
    now += grace.for_requests_s
    grace.begin()
    assert 10.0 == grace.left_s
    now += 50.0
    assert 0.0 == grace.left_s
