"""Names as the projection (projection.py) is given them, and its kinds and bound; imports no compiled kernel."""

from collections.abc import Sequence
from typing import Literal

Kind = Literal["sign", "gaussian"]

SEPARATOR = b"\n"
"""Ends every name of a text; no printable name contains it."""
PSI_MAX = 1e300
"""Every coordinate of a projected row is within it."""


def text_of(names: Sequence[str]) -> bytes:
    """Names as ``Projection.project`` reads them."""
    return ("\n".join(names) + "\n").encode() if names else b""
