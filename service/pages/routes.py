"""The routes of the pages ``/`` and ``/ui/models/NAME``, of their assets, and of the client ``/onepass.py``.

Pages are public and hold no data of models: their scripts ask the API, with the viewer's key.
"""

import json
from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from core.config.challengers import ChallengerBody
from core.config.changes import ModelChanges
from service.pages import assets, shell

router = APIRouter(include_in_schema=False)
METHODS = ["GET", "HEAD"]


@router.api_route("/", methods=METHODS)
async def all_models(request: Request) -> Response:
    """All models."""
    return shell.page(request, "models.html")


@router.api_route("/ui/models/{name}", methods=METHODS)
async def one_model(request: Request) -> Response:
    """One model; its name is read from the address by the page's script."""
    return shell.page(request, "model.html", **_schemas())


@router.api_route("/ui/assets/{file}", methods=METHODS)
@router.api_route("/ui/assets/{digest}/{file:path}", methods=METHODS)
async def asset(request: Request) -> Response:
    """A script, a style or an image of the pages."""
    return assets.answer(request)


@router.api_route("/onepass.py", methods=METHODS)
async def client_file(request: Request) -> Response:  # noqa: ARG001 (a page like the others)
    """A client in one Python file, of this service's version."""
    return Response(_client(), media_type="text/x-python", headers={"Cache-Control": "no-cache"})


@cache
def _client() -> bytes:
    return (files("service.pages") / "onepass.py").read_bytes()


@cache
def _schemas() -> dict[str, str]:
    """The JSON schemas of what the page's forms send, without the rest of the OpenAPI document."""
    changes, challenger = ModelChanges.model_json_schema(), ChallengerBody.model_json_schema()
    return {"changes": json.dumps(changes), "challenger": json.dumps(challenger)}
