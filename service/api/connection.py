"""What a route that goes on for long asks of the connection it answers on; ``http_protocol`` does it."""

from typing import Protocol

from starlette.types import Scope

CONNECTION = "onepass.connection"
"""Key of a request's scope."""


class Connection(Protocol):
    """The connection of a request."""

    def stop_timing(self, scope: Scope) -> None:
        """The endpoint bounds the time that its request's body takes."""

    def linger(self, scope: Scope) -> None:
        """The answer ends before the body does: let the client read it, then hang up."""

    def abort(self) -> None:
        """Hang up at once."""


class _None:
    """In place of a connection, under another server."""

    def stop_timing(self, scope: Scope) -> None:
        """Nothing is timed."""

    def linger(self, scope: Scope) -> None:
        """The server sees to it."""

    def abort(self) -> None:
        """Likewise."""


def connection_of(scope: Scope) -> Connection:
    """The connection of a request."""
    found: Connection = scope.get(CONNECTION) or _None()
    return found
