"""The document of the API, and Swagger UI and ReDoc, which show it: no CDN, and scripts from files only."""

import asyncio
from functools import cache
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from service.pages import shell

STATIC = Path(fastapi_offline.__file__).parent / "static"
REDOC_LOGO = b"https://cdn.redoc.ly/redoc/logo-mini.svg"  # what ReDoc would fetch from elsewhere
STYLED = shell.HEADERS | {
    "Content-Security-Policy": shell.HEADERS["Content-Security-Policy"]
    .replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace("connect-src", "worker-src blob:; connect-src")
}
"""Headers of ReDoc's page: it writes its styles into the document, and searches in a worker made of a blob."""


def install(app: FastAPI) -> None:
    """Add ``/openapi.json``, ``/docs``, ``/redoc`` and what they load."""
    building: asyncio.Task[bytes] | None = None

    @app.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:
        nonlocal building
        if building is None:  # it takes half a second: in a thread, so that rows do not wait
            building = asyncio.create_task(asyncio.to_thread(_document, app))
        return Response(await asyncio.shield(building), media_type=JSONResponse.media_type)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return shell.page(request, "docs.html")

    @app.get("/redoc", include_in_schema=False)
    async def redoc(request: Request) -> Response:
        answer = shell.page(request, "redoc.html")
        answer.headers.update(STYLED)
        return answer

    @app.get("/static/redoc.standalone.js", include_in_schema=False)
    async def redoc_script() -> Response:
        return Response(_redoc(), media_type="text/javascript")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _document(app: FastAPI) -> bytes:
    return bytes(JSONResponse(app.openapi()).body)


@cache
def _redoc() -> bytes:
    return (STATIC / "redoc.standalone.js").read_bytes().replace(REDOC_LOGO, b"static/favicon.png")
