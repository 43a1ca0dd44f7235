"""Importing ahead what a model may need after its first row: no row should wait for kernels to be loaded.

A process that only imports ``core.model`` has no model yet, and does without them.
"""

from importlib import import_module

LATER = (
    "core.features.lags",
    "core.features.scaling",
    "core.learners.expanded",
    "core.switching.linear_mapping",
    "core.switching.kernel_mapping",
    "core.switching.mixture",
)
"""Modules with kernels that are imported inside functions, in addition to those of the algorithms."""


def load_kernels() -> None:
    """Import them; that takes some hundredths of a second, once."""
    for module in LATER:
        import_module(module)
