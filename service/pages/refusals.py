"""Refusals as pages, for people who open a wrong address: the same facts, and where to go from here.

Clients that accept HTML get the page, all others the problem itself, as application/problem+json.
"""

import json

from starlette.requests import Request
from starlette.responses import Response

from service.pages import shell

PROBLEM = "application/problem+json"
KEPT = ("allow",)  # headers of a problem that its page has as well


def shown(request: Request, answer: Response) -> Response:
    """A refusal that no route of the API made: as a page for a browser, if it is a problem document."""
    answer.headers["Vary"] = "Accept"
    reads_pages = request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("accept", "")
    if not reads_pages or answer.headers.get("content-type") != PROBLEM:
        return answer
    problem = json.loads(bytes(answer.body))
    explained = request.app.state.problems[problem["type"].rpartition("/")[2]]
    made = shell.page(request, "refusal.html", problem=problem, page=explained, path=request.scope["path"])
    made.status_code = answer.status_code
    made.headers.update({"Vary": "Accept", **{name: answer.headers[name] for name in KEPT if name in answer.headers}})
    return made
