"""Templates rendered as pages, with the headers that every page has.

Links are relative to the page's own address (``root``: "./", "../", "../../"), so that a proxy may put the service
under any prefix.
"""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from service.pages import assets

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Of every page: scripts and styles come from our own files, nothing else is fetched, and no site may frame a page."""


def page(request: Request, template: str, **shown: Any) -> HTMLResponse:
    """A template of templates/ as a page; links are relative to the request's path, text in ``shown`` is escaped."""
    root = root_of(request.scope)
    text = _templates().get_template(template).render(root=root, version=request.app.version, **shown)
    return HTMLResponse(text, headers=HEADERS)


def root_of(scope: Scope) -> str:
    """The relative address of the service's root: "./" for ``/``, "../../" for ``/ui/models/m``."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return "../" * (path.count("/") - 1) or "./"


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {"asset": assets.address, "modules": assets.modules}
    return found
