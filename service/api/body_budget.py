"""The memory of request bodies: bounded over all requests, from before a body is read until its request is answered."""

from starlette.types import Scope

from service.errors import BodiesFull

RESERVED = "onepass.reserved"
"""Key of a request's scope: bytes that its body counts for."""


class BodyBudget:
    """Bytes of all bodies that are being read or worked on.

    Args:
        most: the bound; one body is taken however large it is.

    Attributes:
        used: what is reserved now.
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0

    def reserve(self, scope: Scope, size: int) -> None:
        """Count ``size`` bytes for a request, all together.

        Raises:
            BodiesFull: with what others have it would be more than the bound.
        """
        own = scope.get(RESERVED, 0)
        if size <= own:
            return
        others = self.used - own
        if others and others + size > self.most:
            raise BodiesFull(
                f"{others} bytes of other bodies are being read; with the {size} of this one it would be more than "
                f"{self.most} (ONEPASS_BODIES_MB)"
            )
        self.used = others + size
        scope[RESERVED] = size

    def release(self, scope: Scope) -> None:
        """The request is answered."""
        self.used -= scope.pop(RESERVED, 0)
