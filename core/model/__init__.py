"""One model as one deterministic state machine."""

from core.model.challengers import Challenger
from core.model.loading import load_kernels
from core.model.machine import Machine
from core.model.state import Learners
from core.model.summary import LastDrift, Summary
from core.state.envelope import FORMAT as STATE_VERSION
from core.switching.phases import bytes_to_switch

__all__ = [
    "STATE_VERSION",
    "Challenger",
    "LastDrift",
    "Learners",
    "Machine",
    "Summary",
    "bytes_to_switch",
    "load_kernels",
]
