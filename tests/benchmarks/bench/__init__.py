"""The main figures of one run, as tables, JSON and one chart: ``python -m tests.benchmarks.bench``."""
