"""A model as a deterministic state machine."""

from importlib import import_module

from core.model.model import Challenger, LearnerParts, Model
from core.model.read import LastDrift, Summary
from core.model.save import LearnerSpaces
from core.state.envelope import FORMAT as STATE_VERSION
from core.switching.phases import bytes_to_switch
from core.switching.space_model import refuse_lag_names

__all__ = [
    "STATE_VERSION",
    "Challenger",
    "LastDrift",
    "LearnerParts",
    "LearnerSpaces",
    "Model",
    "Summary",
    "bytes_to_switch",
    "load_kernels",
    "refuse_lag_names",
]

LATER = (
    "core.learners.expanded",
    "core.switching.linear_mapping",
    "core.switching.kernel_mapping",
    "core.switching.mixture",
)
"""Modules with kernels, besides those of the algorithms, that are imported inside functions: a process without models
does not need them.
"""


def load_kernels() -> None:
    """Import them, so that no row waits for it; it takes some hundredths of a second, once."""
    for module in LATER:
        import_module(module)
