"""Drift detection: the tests, their configuration, their compiled kernels, and the outbox of alarms."""
