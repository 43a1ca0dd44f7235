"""One model as one deterministic state machine."""

from core.machine.challengers import Challenger
from core.machine.loading import load_kernels
from core.machine.machine import Machine
from core.machine.state import Learners
from core.machine.summary import LastDrift, Summary
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
