"""The one place that knows Redis: its keys, commands, scripts and error texts.

What the store cannot do is raised as ``StoreDown``, or as ``StoreFull`` if it only lacks room. Nothing is retried
here, unless the server says that it did not carry a command out. Every key but meta carries the incarnation of its
model, and every script that writes for a living model checks it; only its first write can fail for lack of memory.
"""
