"""For all tests."""

from hypothesis import HealthCheck, settings

# Time never decides a test: how long an example takes is the machine's affair.
settings.register_profile("onepass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onepass")
