"""Swagger UI and ReDoc, from the static files of a package: no CDN, and no script but from files."""

from functools import cache
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
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
    """Add ``/docs``, ``/redoc`` and what they load."""

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


@cache
def _redoc() -> bytes:
    return (STATIC / "redoc.standalone.js").read_bytes().replace(REDOC_LOGO, b"static/favicon.png")
