"""The bodies of requests before they are parsed: media type, encoding, size. Nothing here knows a model.

The memory of all bodies is bounded, from before a body is read until its request is answered. A compressed body
(``Content-Encoding: gzip``) is unpacked piece by piece: its size is only known after unpacking, so a bomb is refused as
soon as it exceeds the limit. At most one piece is held beyond what is counted.

A decoded body takes many times its bytes. So a large one waits, still as bytes, for its turn to be decoded. The decoded
values count until the request is answered; once its rows are an array, only the array counts: a request may wait long
while its model learns. A large answer counts until it has been sent.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from core.problems import Problem
from service.api.http.cross_site import is_browser
from service.api.http.media import JSON, wrong_media
from service.errors import BodiesFull, NotGzip, TooLarge, WrongEncoding
from service.runtime.threads import LARGE_BYTES, THREAD_BYTES, Places, in_thread_if_large

RESERVED = "onepass.reserved"  # key of a request's scope: the owner of its body, and the bytes it counts for
DECODED = "onepass.decoded"
"""Key of a request's scope: the ``Places`` that count its decoded body, the bytes in use, and the bytes kept longer."""
SHARES = 2  # the bodies of one owner may take at most 1 / SHARES of the budget
DECODED_BYTES, OTHERS_BYTES = 96 * 2**20, 48 * 2**20
"""Most bytes that large bodies, and smaller ones, may take once they are decoded."""
UNCOUNTED_BYTES = 2**20  # a body that takes at most this much once it is decoded is not counted


class BodyBudget:
    """Counts the bytes of all bodies that are being read or processed, of their decoded values, and of large answers.

    ``most`` is the bound of bodies and answers; a single body is accepted whatever its size. ``owner_of`` returns the
    owner of a request: its key, or without one the address of its client.
    """

    def __init__(self, most: int, owner_of: Callable[[Scope], str]) -> None:
        self.most, self.used = most, 0  # used: the bytes reserved now
        self._owner_of, self._held = owner_of, Counter[str]()
        self.decoded, self.others = Places(DECODED_BYTES), Places(OTHERS_BYTES)

    def reserve(self, scope: Scope, size: int) -> None:
        """Count ``size`` bytes for a request, in total.

        ``BodiesFull`` if all bodies together, or those of the request's owner, would exceed their bound.
        """
        owner, own = scope.get(RESERVED) or (self._owner_of(scope), 0)
        if size <= own:
            return
        shares = ((self.used, self.most, ""), (self._held[owner], self.most // SHARES, " for one key or address"))
        for others, most, whose in ((held - own, most, whose) for held, most, whose in shares):
            if others and others + size > most:
                raise BodiesFull(
                    f"{others} bytes of other bodies are being read; together with this one's {size} they would exceed "
                    f"{most}{whose} (ONEPASS_BODIES_MB)"
                )
        self.used += size - own
        self._held[owner] += size - own
        scope[RESERVED] = (owner, size)

    async def decode(self, scope: Scope, body: bytes, size: int) -> None:
        """Wait until a body may be decoded, to ``size`` bytes, which count until its request is released.

        As in ``BodyReader``, large bodies do not keep smaller ones waiting. Callers must not hold a lock that another
        request needs before it can be answered.
        """
        self.settle(scope, 0)
        if size > UNCOUNTED_BYTES:
            places = self.decoded if len(body) > LARGE_BYTES else self.others
            await places.take(size)
            scope.setdefault(RESERVED, (self._owner_of(scope), 0))
            scope[DECODED] = (places, size, 0)

    def settle(self, scope: Scope, size: int) -> None:
        """Count at most ``size`` bytes of a decoded body from now on: the rest has been freed."""
        if DECODED in scope:
            places, used, kept = scope[DECODED]
            left = min(size, used + kept)
            scope[DECODED] = places, 0, left
            places.give(used, left - kept)

    def keep(self, scope: Scope, size: int) -> Callable[[], None]:
        """Count up to ``size`` of a request's bytes beyond its ``release``, until the returned function is called."""
        owner, own = scope.pop(RESERVED, ("", 0))
        kept = min(size, own)
        scope[RESERVED] = (owner, own - kept)
        return partial(self.release, {RESERVED: (owner, kept)})

    def release(self, scope: Scope) -> None:
        """Release the bytes of an answered request."""
        if RESERVED in scope:
            owner, size = scope.pop(RESERVED)
            self.used -= size
            self._held[owner] -= size
            self._held += Counter()  # drops zeros
        self.settle(scope, 0)
        scope.pop(DECODED, None)


SMALL_BYTES = 65_536  # a body up to this size is not counted: the server buffers as much for every connection anyway
AHEAD_BYTES = 2**20  # up to this much of an announced body is counted before it arrives


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type; the first allowed one if the client sends none.

    ``WrongMedia`` lists the allowed ones if the route does not accept it, or if a browser sends none.
    """
    given = request.headers.get("content-type")
    if given is None:
        if is_browser(request.scope):  # any page can send a body without one
            raise wrong_media(allowed)
        return allowed[0]
    if given == JSON and JSON in allowed:
        return JSON
    kind = given.partition(";")[0].strip().lower()
    if kind.endswith("+json"):
        kind = JSON
    if kind not in allowed:
        raise wrong_media(allowed)
    return kind


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, unpacked if it is gzip.

    A body that is not small counts against the budget of all bodies until its request is answered: the bytes that have
    arrived, up to AHEAD_BYTES more of the announced ones, and the unpacked ones. The server limits the time it takes.

    Raises:
        WrongEncoding: compressed, but not by gzip.
        TooLarge: over the limit, as announced, as it arrives or as it is unpacked.
        NotGzip: it cannot be unpacked.
        BodiesFull: the budget of all bodies, or the owner's share of it, is used up.
    """
    packed = is_gzip(", ".join(request.headers.getlist("content-encoding")))  # several lines are one list
    length = request.headers.get("content-length")
    announced = int(length) if length is not None and length.isdecimal() else 0
    if announced > limit:
        raise too_large(limit)
    whole, more = bytearray(), True  # one growing buffer: joining hundreds of megabytes would block all other requests
    while more:
        message = await request.receive()  # request.stream() does the same through two generators, which costs more
        if message["type"] == "http.disconnect":  # than learning a row
            raise ClientDisconnect
        whole += message.get("body", b"")
        if len(whole) > limit:
            raise too_large(limit)
        _count(request, max(len(whole), min(announced, len(whole) + AHEAD_BYTES)))
        more = message.get("more_body", False)
    body = cast("bytes", whole)  # readers take both types, and nothing writes to it
    return await _unpacked(request, limit, body) if packed else body


async def _unpacked(request: Request, limit: int, packed: bytes) -> bytes:
    pieces, whole, size = gunzip(packed, limit + 1), bytearray(), FIRST_BYTES
    while piece := await in_thread_if_large(size, next, pieces, b""):
        whole += piece
        _count(request, len(packed) + len(whole))
        size = PIECE_BYTES
    if len(whole) > limit:
        raise too_large(limit, "unpacks to more")
    return cast("bytes", whole)


def _count(request: Request, size: int) -> None:
    if size > SMALL_BYTES:
        budget: BodyBudget = request.app.context.budget
        budget.reserve(request.scope, size)


def too_large(limit: int, how: str = "is larger") -> TooLarge:
    """The error for a body over the limit."""
    return TooLarge(f"the body {how} than {limit} bytes", [Problem("body", "is too large", f"<= {limit} bytes")])


GZIP = "gzip"
FIRST_BYTES = THREAD_BYTES  # up to this much is unpacked on the event loop, which takes less than a millisecond
PIECE_BYTES = 2**20  # bytes unpacked at once in a thread
INPUT_BYTES = 262_144  # compressed bytes passed to the decompressor at once; it copies what it does not use
MEMBERS_MAX = 1024  # most concatenated gzip files in one body; empty ones cost work and unpack to nothing


def is_gzip(coding: str) -> bool:
    """Whether a ``Content-Encoding`` is gzip; ``WrongEncoding`` for another encoding, or several."""
    kind = coding.strip().lower()
    if kind in ("", "identity"):
        return False
    if kind in (GZIP, "x-gzip"):
        return True
    problem = Problem("Content-Encoding", "is not a supported encoding", [GZIP])
    raise WrongEncoding("no Content-Encoding, or gzip", [problem])


def gunzip(packed: bytes, most: int) -> Iterator[bytes]:
    """The content of concatenated gzip files, in pieces, up to ``most`` bytes; ``NotGzip`` if damaged or cut off."""
    view, at, size = memoryview(packed), 0, FIRST_BYTES
    for _ in range(MEMBERS_MAX):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)
        ended = False
        while not ended:
            given = view[at : at + INPUT_BYTES]
            try:
                found = member.decompress(given, min(size, most))
            except zlib.error:
                raise NotGzip(f"the body is not gzip, or it is damaged (after byte {at})") from None
            ended = member.eof
            at += len(given) - len(member.unused_data if ended else member.unconsumed_tail)
            if found:
                yield found
                most, size = most - len(found), PIECE_BYTES
                if not most:
                    return
            elif not (given or ended):
                raise NotGzip("the body is incomplete: its gzip data end too early")
        rest = view[at:]
        if not rest or (rest[0] == 0 and not bytes(rest).strip(b"\0")):  # zeros may fill up a block
            return
    raise NotGzip(f"the body holds more than {MEMBERS_MAX} gzip files")
