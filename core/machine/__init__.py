"""One model as one deterministic state machine."""

from core.machine.machine import Machine

__all__ = ["Machine"]
