"""What single rows are measured against: ``python -m tests.benchmarks.harness.echo PORT``.

    /models/{name}/feedback    an echo as the documentation of FastAPI writes an endpoint: pydantic models in and out
    /plain                     a plain ASGI answer: the same bytes to whatever is sent, without a framework

Both run on the server that Onepass runs on. They lack what Onepass is for: checking a row, the log, the model.
"""

import logging
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send


class Row(BaseModel):
    """What is sent."""

    features: dict[str, float]
    label: str | int | float
    id: str | None = None


class Answer(BaseModel):
    """What a feedback is answered, with the usual lengths."""

    prediction: str | int | float | None = "DOWN"
    loss: float | None = 0.0
    version: int = 12345
    rows: int = 123456
    duplicate: bool = False
    learned: bool = True
    durability: str = "everysec"
    incarnation: str = "0123456789abcdef"


ANSWER = Answer().model_dump_json().encode()
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
framework = FastAPI()


@framework.post("/models/{name}/feedback")
async def echo(name: str, row: Row) -> Answer:
    return Answer(durability="everysec" if row.id else "always")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The plain answer, or the framework's."""
    if scope.get("path") != "/plain":
        await framework(scope, receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False, server_header=False, backlog=2048)
