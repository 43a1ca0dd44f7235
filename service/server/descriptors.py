"""File descriptors of this process: as many as the system grants, some of them reserved for the service.

Every open connection takes one. A process that has none left cannot connect to its store either, so a reserve is kept
from clients: for connections to the store, its private server's files, webhooks, libraries that load late.
"""

import resource

WANTED = 65_536  # beyond this a larger limit gains nothing; macOS refuses more than its own limit per process
RESERVED_MIN = 64
RESERVED_SHARE = 8  # one descriptor in this many is reserved: a cluster takes a pool of connections to each server
CLIENTS_MIN = 8


def raise_limit() -> int:
    """Raise the soft limit of open files towards the hard one; returns the limit then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems bound it elsewhere as well
        return soft
    return wanted


def for_clients(limit: int, wanted: int) -> int:
    """How many connections clients may have open: ``wanted``, or fewer if there are not enough descriptors."""
    reserved = max(RESERVED_MIN, limit // RESERVED_SHARE)
    return max(CLIENTS_MIN, min(wanted, limit - reserved))
