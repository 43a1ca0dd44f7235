"""The echo service that feedback is measured against: the same server, route, body and answer.

    python -m tests.benchmarks.echo PORT

What it lacks is what Onepass is for: checking the row against a model, the log, the model, the answer.

    /models/{name}/feedback    as the documentation of FastAPI writes an endpoint: pydantic models in and out
    /bare/{name}/feedback      a plain route of Starlette around msgspec, with nothing that an echo can do without
"""

import logging
import sys
from collections.abc import Awaitable, Callable

import msgspec
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.api.schemas import FeedbackRow, Learnt

ANSWER = Learnt("DOWN", 0.0, 12345, 123456, False, True, "everysec", "0123456789abcdef")


class Row(BaseModel):
    """What is sent."""

    features: dict[str, float]
    label: str | int | float
    id: str | None = None


class Answer(BaseModel):
    """What is answered: the fields of ``Learnt``."""

    prediction: str | int | float | None
    loss: float | None
    version: int
    rows: int
    duplicate: bool
    learned: bool
    durability: str
    incarnation: str


class Bare:
    """An endpoint as a plain ASGI application."""

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def create_app() -> FastAPI:
    """The two routes."""
    app = FastAPI()
    decoder = msgspec.json.Decoder(FeedbackRow)
    answer = Response(msgspec.json.encode(ANSWER), media_type="application/json")

    async def bare(request: Request) -> Response:
        decoder.decode(await request.body())
        return answer

    app.router.routes.append(Route("/bare/{name}/feedback", Bare(bare), methods=["POST"]))

    @app.post("/models/{name}/feedback")
    async def echo(name: str, row: Row) -> Answer:
        return Answer(**msgspec.structs.asdict(ANSWER))

    return app


def main() -> None:
    """Serve as ``onepass serve`` does."""
    logging.basicConfig(level="WARNING")
    uvicorn.Server(
        uvicorn.Config(
            create_app(),
            port=int(sys.argv[1]),
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=2048,
        )
    ).run()


if __name__ == "__main__":
    main()
