"""The inputs of endpoints: the collaborators, the model's name, and the query parameters of reads and lists.

Each is an annotated type with its own check, so that a signature shows what a route takes, and /openapi.json what is
allowed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, Header, Path, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, validate_call
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from core.contract import Floats
from core.entry import ServedPrediction
from core.features import Space
from core.problems import Invalid, suggestion
from service.api.http.bodies import BodyBudget
from service.api.http.cross_site import Guard
from service.api.http.headers import LINES, NAME
from service.api.http.keys import Key, Keys
from service.runtime.broadcast import Broadcast
from service.runtime.engine import Engine, Freshness
from service.runtime.replicas.replica import Replica
from service.runtime.threads import BodyReader
from service.store.drift.drift import DriftStream
from service.store.drift.events import iso as iso

Text = Annotated[str, StringConstraints(min_length=1)]
LIMIT_MAX = 1000
LIMIT = 100
EFFECTS_AT_ONCE = 2  # models whose effects are computed at the same time
DIGITS_MAX, WHOLE_MAX = 20, 2**53
"""Bounds of a whole number in a query: of its digits and its value; no version is larger."""


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of the endpoints."""

    engine: Engine
    keys: Keys
    observe: Callable[[str, str, int, float], None]  # counts an answer: route, method, status, seconds
    render: Callable[[Callable[[str], bool] | None], Awaitable[tuple[bytes, str]]]  # the metrics that a key may see
    drift: DriftStream
    note_unlabelled: Callable[[Replica, Space, Floats, ServedPrediction], None]  # watches a tracked row (1, F)
    broadcast: Broadcast
    budget: BodyBudget
    commit: str | None = None  # the commit of the code, if known
    guard: Guard = field(default_factory=Guard)  # rejects cross-site requests if no keys are configured
    reader: BodyReader = field(default_factory=BodyReader)
    recovering: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while weights are recovered
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a part of a list of models is rendered
    explaining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(EFFECTS_AT_ONCE))


async def _context(request: Request) -> Context:
    context: Context = request.app.context
    return context


async def _caller(request: Request) -> Key | None:
    context: Context = request.app.context
    return context.keys.caller(request.scope[LINES])


Ctx = Annotated[Context, Depends(_context)]
Caller = Annotated[Key | None, Depends(_caller)]  # the key of the request; None if no keys are configured
ModelName = Annotated[str, Path(pattern=f"^{NAME.pattern}$", openapi_examples={"demo": {"value": "demo"}})]


def whole(text: str) -> int | None:
    """The whole number that a text of plain digits denotes; None if it is not one, or exceeds WHOLE_MAX."""
    plain = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    return int(text) if plain and int(text) <= WHOLE_MAX else None


def within(low: int, high: int = WHOLE_MAX) -> BeforeValidator:
    """A whole number of a query in plain digits, in a range; pydantic alone would also accept " 1_0.0"."""

    def read(text: str | int) -> int:
        found = whole(text) if isinstance(text, str) else text
        if found is None or not low <= found <= high:
            allowed = f">= {low} and <= {high}"
            raise PydanticCustomError("whole", "is not a whole number in range", {"allowed": allowed})
        return found

    return BeforeValidator(read, json_schema_input_type=Annotated[int, Field(ge=low, le=high)])


async def fresh_enough(
    min_version: Annotated[int, within(0), Query(description="Wait until the model has reached this version.")] = 0,
    consistency: Annotated[
        Literal["eventual", "strong"], Query(description="`strong` reads up to the present head of the log first.")
    ] = "eventual",
    incarnation: Annotated[
        str | None, Query(description="The incarnation that `min_version` belongs to; any other is 409.")
    ] = None,
) -> Freshness:
    """The required freshness of a read of one model."""
    return Freshness(min_version, consistency == "strong", incarnation)


_fresh_enough, FRESHNESS = validate_call(fresh_enough), ("min_version", "consistency", "incarnation")


async def fresh_by_query(request: Request, *others: str) -> Freshness:
    """``fresh_enough`` for a request that FastAPI does not read; ``others`` are its other query parameters.

    ``Invalid`` and ``RequestValidationError`` name the wrong parameter.
    """
    known_queries(request, *FRESHNESS, *others)
    given: dict[str, Any] = {name: value for name, value in request.query_params.items() if name in FRESHNESS}
    try:
        return await _fresh_enough(**given)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


class Page(NamedTuple):
    """The requested part of a list: at most ``limit`` items after ``cursor``."""

    limit: int
    cursor: str | None


def no_cursor() -> Invalid:
    """The error for a cursor that is not from this list."""
    return Invalid.of("cursor", "is not a cursor of this list")


async def paging(
    limit: Annotated[int, within(1, LIMIT_MAX), Query(description="Maximum number of items in the answer.")] = LIMIT,
    cursor: Annotated[Text | None, Query(description="The `next` of the previous page.")] = None,
) -> Page:
    """The page that a list's query requests."""
    return Page(limit, cursor)


async def idempotency_key(
    request: Request,
    key: Annotated[
        Text | None,
        Header(
            alias="Idempotency-Key",
            description="Your own id of this request; a request sent again within a day is learned or executed once. "
            "Ids in the body take precedence.",
        ),
    ] = None,
) -> str | None:
    """The id of the whole request, as the client sent it."""
    one_key(request)
    return key


def one_key(request: Request) -> None:
    """``Invalid`` for a second Idempotency-Key."""
    if [name for name, _ in request.scope["headers"]].count(b"idempotency-key") > 1:
        raise Invalid.of("Idempotency-Key", "is given twice")


Fresh = Annotated[Freshness | None, Depends(fresh_enough)]
Paging = Annotated[Page, Depends(paging)]
IdempotencyKey = Annotated[str | None, Depends(idempotency_key)]


def known_queries(request: Request, *names: str) -> None:
    """``Invalid`` for an unknown or repeated query parameter."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in names:
            raise Invalid.of(name[:200], f"is not a parameter of this route{suggestion(name, names)}", list(names))
        if given.count(name) > 1:
            raise Invalid.of(name, "is given twice")
