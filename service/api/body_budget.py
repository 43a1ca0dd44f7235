"""The memory of request bodies: bounded over all requests, from before a body is read until its request is answered."""

from collections import Counter
from collections.abc import Callable

from starlette.types import Scope

from service.errors import BodiesFull

RESERVED = "onepass.reserved"
"""Key of a request's scope: whose its body is, and the bytes that it counts for."""
SHARES = 2
"""The bodies of one owner have at most so small a part of the budget together."""


class BodyBudget:
    """Bytes of all bodies that are being read or worked on.

    Args:
        most: the bound; one body is taken however large it is.
        owner_of: whose a request is: its key, or else the address of its client.

    Attributes:
        used: what is reserved now.
    """

    def __init__(self, most: int, owner_of: Callable[[Scope], str]) -> None:
        self.most, self.used = most, 0
        self._owner_of, self._held = owner_of, Counter[str]()

    def reserve(self, scope: Scope, size: int) -> None:
        """Count ``size`` bytes for a request, all together.

        Raises:
            BodiesFull: with what others have, or the owner's own other bodies, it would be more than may be.
        """
        owner, own = scope.get(RESERVED) or (self._owner_of(scope), 0)
        if size <= own:
            return
        shares = ((self.used, self.most, ""), (self._held[owner], self.most // SHARES, " of one key or address"))
        for others, most, whose in ((held - own, most, whose) for held, most, whose in shares):
            if others and others + size > most:
                raise BodiesFull(
                    f"{others} bytes of other bodies are being read; with the {size} of this one it would be more than "
                    f"{most}{whose} (ONEPASS_BODIES_MB)"
                )
        self.used += size - own
        self._held[owner] += size - own
        scope[RESERVED] = (owner, size)

    def release(self, scope: Scope) -> None:
        """The request is answered."""
        if RESERVED in scope:
            owner, size = scope.pop(RESERVED)
            self.used -= size
            self._held[owner] -= size
            self._held += Counter()  # leaves out what is 0
