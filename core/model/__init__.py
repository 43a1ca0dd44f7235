"""One model as one deterministic state machine."""

from core.model.loading import load_kernels
from core.model.model import Challenger, LearnerParts, Model
from core.model.read import LastDrift, Summary
from core.model.save import LearnerSpaces
from core.state.envelope import FORMAT as STATE_VERSION
from core.switching.phases import bytes_to_switch

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
]
