"""Everything that can go wrong with a request, apart from ``core.problems``.

    OnepassError
    ├── NotFound             unknown model, prediction id, snapshot version, route
    ├── RequestConflict      the model's state or an earlier request with the same id does not allow it
    ├── NotReached           ``min_version`` was not reached in time
    ├── ModelDown            one model is out of service: corrupt state, or an apply that raised
    │   └── ModelLost        the store has lost the model; this process holds it in memory
    ├── Denied
    │   ├── Unauthorized     no key or an unknown one
    │   ├── Forbidden        the key's scopes or models do not allow it
    │   └── TooManyRequests  over the key's rate
    ├── BadHead              request line and headers could not be read
    │   └── HeadTooLarge     more of them than may be
    ├── BadBody
    │   ├── NotJson          not JSON, or not UTF-8
    │   ├── NotTable         not CSV, SVMlight or .npy
    │   ├── NotGzip          announced as gzip, and is not, or not whole
    │   ├── TooLarge         over the body limit
    │   ├── TooLate          it did not come in time
    │   └── WrongMedia       a media type the route does not read
    │       └── WrongEncoding  a content encoding it does not read
    └── Unavailable          try again later; carries ``retry_after_s``
        ├── QueueFull        the model's queue is at its bound
        ├── BodiesFull       as many bytes of bodies are being read as may be
        ├── IdsFull          the model remembers as many ids as it may
        ├── WritersFull      more processes have appended to the model of late than it remembers
        ├── PendingFull      the model has as many tracked predictions waiting as it may
        ├── StreamsFull      as many streams of events are open as may be
        ├── ConnectionsFull  as many connections are open as may be
        ├── NotReady         the service takes no traffic at present
        ├── Recreated        the model was deleted and its name given to another one meanwhile
        ├── Busy             one at a time of what it asks for, and others wait
        ├── Unreplicated     committed, but not yet on as many of the store's replicas as were asked for
        ├── StoreFull        the store answers, but has no room to write
        └── StoreDown        the store did not answer, or answered that it cannot

Only api/problems.py knows which HTTP status each becomes; only store/ raises StoreFull and StoreDown.
"""

from collections.abc import Sequence

from core.problems import Conflict, Problem

WAY_OUT = (
    "restart with code that mends it: the model is loaded again from snapshot and log, and goes on; "
    "or delete the model, then import a state that was exported before"
)
"""What an operator can do about a model that is out of service."""


class OnepassError(Exception):
    """Base of every error that is answered to a client.

    Args:
        detail: one sentence for the client; never the input itself.
        problems: the fields concerned, where there are any.
    """

    def __init__(self, detail: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = problems


class NotFound(OnepassError):
    """A resource that the request names does not exist; ``problems[0].allowed`` lists or locates the existing ones."""


def no_model(name: str, field: str = "name") -> NotFound:
    """The error for a model that does not exist; ``field`` is where the client named it."""
    return NotFound(f"there is no model {name}", [Problem(field, "is not a model", "GET /models lists them")])


class RequestConflict(OnepassError, Conflict):
    """The model's state, or an earlier request with the same id, does not allow it."""


class NotReached(OnepassError):
    """``min_version`` was not reached in time."""

    def __init__(self, detail: str, version: int) -> None:
        super().__init__(detail)
        self.version = version


class ModelDown(OnepassError):
    """One model is out of service until an operator acts; the others go on."""

    def __init__(
        self,
        detail: str,
        problem: str = "is out of service; the log has all that was acknowledged",
        way_out: str = WAY_OUT,
    ) -> None:
        super().__init__(detail, [Problem("name", problem, way_out)])


class ModelLost(ModelDown):
    """The store has lost a model that was not deleted; this process holds it in memory, and predicts from it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the store has lost model {name}, which nobody has deleted: it predicts from memory and learns nothing",
            "is not in the store any more",
            "restore the store from a backup; or export the model, which this service holds, DELETE it and import it",
        )


class Denied(OnepassError):
    """The key does not allow the request."""


class Unauthorized(Denied):
    """No key, or an unknown one."""


class Forbidden(Denied):
    """A known key without the scope or the model."""


class TooManyRequests(Denied):
    """Over the key's rate.

    Args:
        detail: one sentence for the client.
        retry_after_s: seconds after which a request will be taken again.
    """

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class BadHead(OnepassError):
    """Request line and headers could not be read."""


class HeadTooLarge(BadHead):
    """More header lines, or more bytes of them, than a request may have."""


class BadBody(OnepassError):
    """The body could not be read at all."""


class NotJson(BadBody):
    """Not JSON, or not UTF-8."""


class NotTable(BadBody):
    """Not CSV, SVMlight or .npy."""


class NotGzip(BadBody):
    """Announced as gzip, and is not, or not whole."""


class TooLarge(BadBody):
    """Larger than the limit."""


class TooLate(BadBody):
    """It did not come in time; the connection is closed."""


class WrongMedia(BadBody):
    """A media type the route does not read."""


class WrongEncoding(WrongMedia):
    """A content encoding the route does not read."""


RETRY_AFTER_S_MAX = 3600.0
"""The longest wait that a client is told."""


class Unavailable(OnepassError):
    """Nothing is wrong with the request; try again after ``retry_after_s``."""

    retry_after_s = 1.0


class QueueFull(Unavailable):
    """The model's queue is at its bound."""


class BodiesFull(Unavailable):
    """As many bytes of bodies are being read, or worked on, as may be."""


class IdsFull(Unavailable):
    """The model remembers as many ids as it may."""


def ids_full(name: str, most: int, count: int, wait_ms: int) -> IdsFull:
    """The error for a model that has no room for another id.

    Args:
        name: the model.
        most: how many ids it may remember.
        count: how many it does.
        wait_ms: when the first of them leaves; the client is told this wait.
    """
    error = IdsFull(
        f"model {name} remembers {count} ids; ONEPASS_IDS_MAX allows {most}, and those of this request find no room: "
        f"the first leaves in {-(-wait_ms // 1000)} s"
    )
    error.retry_after_s = min(max(1.0, wait_ms / 1000), RETRY_AFTER_S_MAX)
    return error


class WritersFull(Unavailable):
    """More processes have appended to the model of late than it remembers; without one, its retry is learned twice."""

    retry_after_s = 60.0


class PendingFull(Unavailable):
    """The model has as many tracked predictions waiting as it may."""


class StreamsFull(Unavailable):
    """As many streams of events are open as may be, or the service stops."""


class ConnectionsFull(Unavailable):
    """As many connections are open as may be."""

    retry_after_s = 5.0


class NotReady(Unavailable):
    """The service takes no traffic at present."""


class Recreated(Unavailable):
    """The model was deleted and its name given to another one; sent again, a request is checked against that."""


class Busy(Unavailable):
    """One at a time of what it asks for, and others waited as long as they may."""


class Unreplicated(Unavailable):
    """Committed, but not yet on as many of the store's replicas as were asked for; the id makes a retry safe."""


class StoreFull(Unavailable):
    """The store answers, but has no room, in memory or on disk, to write anything; what only reads goes on."""

    retry_after_s = 10.0


class StoreDown(Unavailable):
    """The store did not answer in time, or answered that it cannot."""
