"""The documents about one model, as JSON.

The model must not change while a document is built: hold ``replica.held``. ``in_thread_if_large`` decides which work
leaves the event loop. The schemas next to the routes describe these documents.

Reads are conditional (RFC 9110): the ETag of an answer that depends only on a model's version names that version. A
client that has the present version gets 304, without a body. Such a request is first checked like any other: its key,
its query parameters, and how fresh its answer has to be.
"""

import re
from collections.abc import Callable, Collection
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from core.model import Model, read
from core.problems import PROBLEMS_MAX, Problem, refuse
from service.api.http.context import iso
from service.api.http.media import JSON
from service.api.rows.formats.csv_tables import names_in
from service.api.rows.large_answers import held_answer
from service.runtime.replicas import changes
from service.runtime.replicas.named_states import StateBudget
from service.runtime.replicas.replica import Replica
from service.runtime.threads import FEATURE_BYTES, in_thread_if_large

LEARNER_BYTES = 50_000  # assumed cost of a learner's metrics, in bytes of a body: they are bounded, about a millisecond
LARGE_BYTES = 2**20  # a larger document is counted until its client has read it
RELEASE = version("onepass")  # another release may render the same version in another way
_ETAG = {"headers": {"ETag": {"schema": {"type": "string"}, "description": "Names the version of the answer."}}}
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    200: _ETAG,
    304: {"description": "`If-None-Match` holds the `ETag` of the present version: nothing has changed", **_ETAG},
}
"""For the ``responses`` of a route with conditional reads."""
_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a document")


encode = msgspec.json.Encoder(enc_hook=_listed).encode  # the JSON of a document; arrays become lists


def json_of(document: bytes, status: int = 200) -> Response:
    """The answer that carries a document."""
    return Response(document, status, media_type=JSON)


def tag_of(replica: Replica) -> str:
    """The ETag of a model's present version."""
    return f'"{replica.incarnation}-{replica.version}-{RELEASE}"'


def matches(given: str, tag: str) -> bool:
    """Whether the value of ``If-None-Match`` holds a tag, by the weak comparison; ``*`` matches any tag."""
    return given.strip() == "*" or tag in _TAG.findall(given)


def not_modified(request: Request, replica: Replica) -> Response | None:
    """The answer to a client that has the present version of a model; None if it does not."""
    tag = tag_of(replica)
    given = ",".join(request.headers.getlist("if-none-match"))
    return tagged(Response(status_code=304), tag) if given and matches(given, tag) else None


def tagged(answer: Response, tag: str) -> Response:
    """An answer with the tag of the version that it shows."""
    answer.headers.update({"ETag": tag, "Cache-Control": "private, no-cache"})
    return answer


def counted(document: bytes, tag: str, budget: StateBudget | None) -> Response:
    """The answer with a document; if it is large, ``budget`` (None: no budget) counts it until it has been sent.

    ``QueueFull`` if other answers hold too much: clients that do not read theirs could otherwise use up all memory.
    """
    if budget is None or len(document) <= LARGE_BYTES:
        return tagged(json_of(document), tag)
    with ExitStack() as held:
        held.enter_context(budget.held(len(document)))
        return tagged(held_answer(document, JSON, {}, held.pop_all().close), tag)


async def shown(replica: Replica, status: int = 200) -> Response:
    """The document of a model that GET returns; ``ModelDown`` if it is out of service."""
    async with replica.held():
        return json_of(await in_thread_if_large(_size(replica.model), model, replica), status)


async def conditional(
    request: Request,
    replica: Replica,
    budget: StateBudget | None,
    make: Callable[[Replica], bytes],
    size: int | None = None,
) -> Response:
    """The answer with a document of a model, or 304 for a client that has the present version.

    ``make`` builds the document while the model is held, in a thread if it is large: ``size`` is its assumed cost, in
    bytes of a body, by default that of metrics and features. The answer is ``counted`` in ``budget``. Raises what
    ``make`` raises, ``QueueFull``, and ``ModelDown`` if the model is out of service.
    """
    if (same := not_modified(request, replica)) is not None:
        return same
    async with replica.held():
        size = _size(replica.model) if size is None else size
        return counted(await in_thread_if_large(size, make, replica), tag_of(replica), budget)


def columns_of(model: Model) -> int:
    """How many columns a model has; each category is one."""
    return 0 if model.prediction_schema is None else model.prediction_schema.width


def _size(model: Model) -> int:
    """Assumed cost of a model's documents, in bytes of a body."""
    return FEATURE_BYTES * columns_of(model) + LEARNER_BYTES * (1 + len(model.challengers))


def model(replica: Replica) -> bytes:
    """``GET /models/{name}``."""
    model = replica.model
    return encode(
        {
            "name": replica.name,
            "incarnation": replica.incarnation,
            "config": model.present_config.to_json(),
            "version": replica.version,
            "rows": model.rows,
            "phase": model.phase,
            "metrics": read.metrics_report(model),
            "info": read.info(model),
            "created": iso(replica.created_ms),
            "updated": iso(replica.time_ms),
        }
    )


def metrics(replica: Replica) -> bytes:
    """``GET /models/{name}/metrics``."""
    model = replica.model
    unknown = read.unknown_categories(model)
    more = {"learner": read.learner_info(model.own), "unknown": unknown, **stamp(replica)}
    return encode({**read.metrics_report(model), **more})


def features(replica: Replica, *, means: bool = False) -> bytes:
    """``GET /models/{name}/features``; ``means`` adds the means of the features."""
    known = {"means": read.feature_means(replica.model.own)} if means else {}
    return encode({**changes.feature_state(replica.model), **known, **stamp(replica)})


def challenger_list(replica: Replica) -> bytes:
    """``GET /models/{name}/challengers``."""
    model = replica.model
    champion = {"algorithm": model.config.algorithm_id, "score": read.summary(model).score}
    found = [changes.challenger_shown(model, name) for name in model.challengers]
    return encode({"champion": champion, "challengers": found, **stamp(replica)})


def chosen(field: str, given: str, known: Collection[str], what: str) -> list[str]:
    """The names in a query, see ``names_in``; ``Invalid`` lists those that are not known. ``what`` is their kind."""
    names = names_in(field, given)
    strange = [f"{field}[{at}]" for at, name in enumerate(names) if name not in known]
    refuse([Problem(place, f"is not a {what}", [*known][:100]) for place in strange[:PROBLEMS_MAX]])
    return names


def stamp(replica: Replica) -> dict[str, Any]:
    """The version and incarnation that a document shows."""
    return {"version": replica.version, "incarnation": replica.incarnation}
