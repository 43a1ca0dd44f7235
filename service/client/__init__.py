"""``onepass``: the service from a shell. ``app`` has the table of commands, and runs one.

It talks HTTP; only ``serve`` and ``settings`` import the rest of the service, when they run.
"""
