"""Answers that depend on a model's version only, and the newest of each that are kept for everybody who asks.

An answer is kept by model, route and query. A later version or another incarnation replaces it.
"""

import asyncio
from collections import OrderedDict
from importlib.metadata import version
from typing import NamedTuple, Self
from weakref import WeakValueDictionary

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.runtime.replicas.replica import Replica

BYTES_MAX = 8 * 2**20
"""Of all answers that are kept."""
ENTRIES_MAX = 1024
ENTRY_BYTES = 1000
"""What an answer takes besides its body and its key."""
RELEASE = version("onepass")
"""Another release may render the same version in another way."""
Key = tuple[str, ...]


class Stamp(NamedTuple):
    """Which state of a model an answer shows; ``uid`` tells two apart where a failover has lost the log's tail."""

    incarnation: str
    version: int
    uid: str

    @classmethod
    def of(cls, replica: Replica) -> Self:
        """The present one of a model."""
        return cls(replica.incarnation, replica.version, replica.uid)

    @property
    def tag(self) -> str:
        """The ETag."""
        return f'"{self.incarnation}-{self.version}-{RELEASE}"'


class Rendered(Response):
    """An answer that may be sent several times, and says by its ETag which version it shows.

    Args:
        shown: the answer.
        stamp: the state that it shows.
    """

    def __init__(self, shown: Response, stamp: Stamp) -> None:
        super().__init__(shown.body, shown.status_code)
        self.stamp = stamp
        tagged = ((b"etag", stamp.tag.encode()), (b"cache-control", b"private, no-cache"))
        self.raw_headers = [*shown.raw_headers, *tagged]

    def not_modified(self) -> Response:
        """The answer to a client that has this one."""
        return Response(status_code=304, headers={name: self.headers[name] for name in ("etag", "cache-control")})

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it; its headers are copied, as middleware adds some."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": [*self.raw_headers]})
        await send({"type": "http.response.body", "body": self.body})


class _Kept(NamedTuple):
    begun: float
    answer: Rendered


class RenderedAnswers:
    """The answers that are kept; the least recently used ones are dropped first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def lock(self, key: Key) -> asyncio.Lock:
        """Held by the one request that renders; the others wait for its answer."""
        return self._locks.setdefault(key, asyncio.Lock())

    def get(self, key: Key, present: Stamp, since: float) -> Rendered | None:
        """The answer that is kept, if it shows the present state, or was begun ``since`` that time."""
        begun, answer = self._kept.get(key, (0.0, None))
        if answer is None or answer.stamp.incarnation != present.incarnation:
            return None
        if answer.stamp != present and begun < since:
            return None
        self._kept.move_to_end(key)
        return answer

    def put(self, key: Key, begun: float, answer: Rendered) -> None:
        """Keep an answer, in place of the one before."""
        self._drop(key)
        self._kept[key] = _Kept(begun, answer)
        self.nbytes += _size(key, answer)
        while self.nbytes > BYTES_MAX or len(self._kept) > ENTRIES_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.nbytes -= _size(key, kept.answer)


def _size(key: Key, answer: Rendered) -> int:
    return ENTRY_BYTES + sum(map(len, key)) + len(answer.body)
