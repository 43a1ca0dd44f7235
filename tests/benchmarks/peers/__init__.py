"""Onepass beside other programs, each in an environment of its own: ``python -m tests.benchmarks.peers``."""
