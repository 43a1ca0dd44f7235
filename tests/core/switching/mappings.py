"""Mappings between columns of which none is kept."""

from core.switching.kernel_mapping import KernelMapping
from core.switching.linear_mapping import LinearMapping

KINDS = {"linear": LinearMapping, "kernel": KernelMapping}


def mapping_of(kind, sources, targets, paper=False):
    """One from so many new columns to so many old ones."""
    return kind([f"new {at}" for at in range(sources)], [f"old {at}" for at in range(targets)], paper)
