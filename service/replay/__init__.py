"""``onepass replay`` and ``compare``: send a file of rows through a service, one by one, in the order of the file.

    options     the command lines; every command loads them, so it imports little
    command     the steps of a replay, and signals
    source      the rows, read once and in batches; files opens CSV, gzip, standard input and Parquet
    kinds       what columns hold: numbers, booleans, times or strings; columns tells how they were read
    client      the service's HTTP interface: retries that learn no row twice; refusals says them by column
    costs       what missing a class costs: --cost
    private     a service for one replay, where no URL is given; ports finds it a free one
    wording     words that several commands print
    report      progress, and the table at the end (rich)
    chart       the curves over the rows (matplotlib)
    compare     the steps of a comparison: one model with challengers; ranking is its table, comparison_chart its curves

It is a client like any other: it imports nothing of the service. matplotlib comes with ``onepass[replay]``; only what
draws imports it.
"""


class Failed(Exception):
    """The replay cannot go on; the first line of the message is the reason."""


class Interrupted(KeyboardInterrupt):
    """A signal asks the replay to end.

    Args:
        signal: its number.
    """

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal
