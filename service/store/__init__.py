"""The one place that knows Redis: its keys, commands, scripts and error texts.

If the store cannot do something, ``StoreDown`` is raised, or ``StoreFull`` if it only lacks room. Nothing is retried
here, unless the server says that it did not carry a command out. Every key but meta and lost carries the incarnation of
its model; every script that writes for a living model checks it, and only its first write can fail for lack of memory.
"""
