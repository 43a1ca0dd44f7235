"""A model as a deterministic state machine."""

from importlib import import_module

from core.model.model import Challenger as Challenger
from core.model.model import LearnerParts as LearnerParts
from core.model.model import Model as Model
from core.model.read import LastDrift as LastDrift
from core.model.read import Summary as Summary
from core.model.save import LearnerSpaces as LearnerSpaces
from core.state import envelope
from core.switching.phases import bytes_to_switch as bytes_to_switch
from core.switching.space_model import refuse_lag_names as refuse_lag_names

STATE_VERSION = envelope.FORMAT
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
    """Import the modules of ``LATER``, so that no row waits for them; takes some hundredths of a second, once."""
    for module in LATER:
        import_module(module)
