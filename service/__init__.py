"""The HTTP service around the state machines of ``core``."""
