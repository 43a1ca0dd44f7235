"""``onepass replay``, ``compare`` and ``evaluate``: a file through a service, in the order of the file."""
