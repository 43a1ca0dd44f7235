"""The entries of a log as a list shows them, where several requests are one entry."""

import numpy as np

from core.entry import Reset, Rows
from service.store.log import codec, log_page
from service.store.log.appends import SegmentIn


async def test_requests_committed_together_are_one_entry(model):
    """Kinds of an entry are told once each, in order, and its rows are summed; what cannot be read is unknown."""
    blobs = [Rows("s", None, np.ones((n, 2)), np.ones(n)) for n in (2, 3)]
    segments = [*map(codec.encode, (blobs[0], Reset(), blobs[1])), b"\xc1"]
    await model.append(*map(SegmentIn, segments))
    (found,) = await log_page.read_back(model.connection, "m", "inc1", 9, 1, 9)
    assert (1, ("rows", "reset", "unknown"), 5) == (found.version, found.kinds, found.rows)
    assert [] == await log_page.read_back(model.connection, "m", "another", 9, 1, 9)
