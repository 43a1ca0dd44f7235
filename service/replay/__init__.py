"""``onepass replay``: a CSV file through a running service, row by row, as if it happened now.

    options     the command line; light, for it is loaded by every command
    command     the order of things, and what an interruption ends
    source      the file, in batches, never whole
    client      the service's HTTP interface: retries that learn nothing twice, refusals that a person can read
    private     a service of its own where none is named
    progress, report, chart     what is seen meanwhile, at the end, and kept

It is a client like any other: it imports nothing of the service.
"""
