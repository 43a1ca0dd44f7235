"""The echo service that feedback is measured against: the same server, framework, route, decoder and answer size.

    python -m tests.benchmarks.echo PORT

What it lacks is what Onepass is for: checking the row against a model, the log, the model, the answer.
"""

import logging
import sys

import msgspec
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.schemas import FeedbackRow, Learnt

ANSWER = Learnt("DOWN", 0.0, 12345, 123456, False, True, "everysec", "0123456789abcdef")


def create_app() -> FastAPI:
    """One route."""
    app = FastAPI()
    decoder = msgspec.json.Decoder(FeedbackRow)
    answer = Response(msgspec.json.encode(ANSWER), media_type="application/json")

    async def echo(request: Request) -> Response:
        decoder.decode(await request.body())
        return answer

    app.add_api_route("/models/{name}/feedback", echo, methods=["POST"], response_model=None)
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
