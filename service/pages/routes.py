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


@router.get("/")
async def all_models(request: Request) -> Response:
    """All models."""
    return shell.page(request, "models.html")


@router.get("/ui/models/{name}")  # noqa: FAST003  the page's script reads the name from the address
async def one_model(request: Request) -> Response:
    """One model."""
    return shell.page(request, "model.html", **_schemas())


@router.get("/ui/assets/{file}")  # noqa: FAST003  assets.answer reads the path
@router.get("/ui/assets/{digest}/{file:path}")
async def asset(request: Request) -> Response:
    """A script, a style or an image of the pages."""
    return assets.answer(request)


@router.get("/onepass.py")
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
