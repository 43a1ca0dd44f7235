"""One model as one deterministic state machine."""

from core.machine.machine import Machine
from core.switching.phases import bytes_to_switch

__all__ = ["Machine", "bytes_to_switch"]
