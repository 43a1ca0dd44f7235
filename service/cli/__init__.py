"""``onepass replay``, ``compare`` and ``demo``, which service.replay carries out.

command    what commands there are; exit statuses
files      how they end
"""

from service.cli.command import main

__all__ = ["main"]
