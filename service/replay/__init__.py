"""``onepass replay``: a CSV file through a running service, row by row, as if it happened now.

    options     the command line; light, for it is loaded by every command
    command     the order of things, and what an interruption ends
    source      the file, in batches, never whole
    client      the service's HTTP interface: retries that learn nothing twice, refusals that a person can read
    private     a service of its own where none is named
    report      progress meanwhile, the table at the end (rich)
    chart       the curves over the rows (matplotlib)

It is a client like any other: it imports nothing of the service. rich and matplotlib come with ``onepass[replay]``, so
the command line imports only options before it is known that they are there.
"""


class Failed(Exception):
    """The replay cannot go on; the message is for the person who started it, its first line the reason."""


class Interrupted(KeyboardInterrupt):
    """A signal asks the replay to end.

    Args:
        signal: its number.
    """

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal
