"""A proxy that serves a service under a prefix and strips it: the service does not know the prefix."""

import contextlib
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.service.local_server import LocalServer, running


@contextlib.asynccontextmanager
async def proxied(url: str, prefix: str) -> AsyncIterator[str]:
    """Run the proxy of a service and yield its address; the prefix has a leading slash and no trailing one."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:

        async def forward(request: Request) -> StreamingResponse:
            there = httpx.URL(url, path=f"/{request.path_params['path']}", query=request.url.query.encode())
            sent = httpx.Request(request.method, there, headers=request.headers.raw, content=await request.body())
            answer = await client.send(sent, stream=True)
            close = BackgroundTask(answer.aclose)
            return StreamingResponse(answer.aiter_raw(), answer.status_code, answer.headers, background=close)

        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        app = Starlette(routes=[Route(f"{prefix}/{{path:path}}", forward, methods=methods)])
        async with running(LocalServer(app)) as server:
            yield f"http://127.0.0.1:{server.port}{prefix}"
