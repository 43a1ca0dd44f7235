"""Mappings between two spaces without common columns."""

from core.switching.kernel_mapping import KernelMapping
from core.switching.linear_mapping import LinearMapping

KINDS = {"linear": LinearMapping, "kernel": KernelMapping}


def mapping_of(kind, sources, targets, paper=False):
    """A mapping from ``sources`` new columns to ``targets`` old ones."""
    return kind([f"new {at}" for at in range(sources)], [f"old {at}" for at in range(targets)], paper)
