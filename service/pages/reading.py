"""The routes of the pages to read: ``/guide``, ``/problems`` and ``/llms.txt``.

Every page is also available as Markdown, under its address plus ``.md``.
"""

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.errors import NotFound
from service.pages import documents, shell
from service.pages.documents import Document

router = APIRouter(include_in_schema=False)
MARKDOWN = "text/markdown; charset=utf-8"
SUFFIX = ".md"


@router.get("/guide")
async def guide(request: Request) -> Response:
    """The contents of the guide."""
    return shell.page(request, "guide.html", text=documents.GUIDE_TEXT, pages=[*documents.guide().values()])


@router.get("/guide/{slug}")
async def guide_page(request: Request, slug: str) -> Response:
    """A page of the guide, with links to the pages before and after it."""
    pages = documents.guide()
    page = _found(pages, slug)
    if slug.endswith(SUFFIX):
        return _markdown(page)
    order = [*pages.values()]
    at = order.index(page)
    return shell.page(
        request,
        "guide_page.html",
        page=page,
        html=page.html(shell.root_of(request.scope)),
        pages=order,
        before=order[at - 1] if at else None,
        behind=order[at + 1] if at + 1 < len(order) else None,
    )


@router.get("/problems")
async def problems(request: Request) -> Response:
    """All problems, by status."""
    groups = documents.by_status(request.app.state.problems)
    return shell.page(request, "problems.html", text=documents.PROBLEMS_TEXT, groups=groups)


@router.get("/problems/{slug}")
async def problem_page(request: Request, slug: str) -> Response:
    """What a problem means, and what to do about it."""
    page = _found(request.app.state.problems, slug)
    if slug.endswith(SUFFIX):
        return _markdown(page)
    return shell.page(request, "problem.html", page=page, html=page.html(shell.root_of(request.scope)))


@router.get("/llms.txt")
async def llms_txt(request: Request) -> Response:
    """An overview of the pages for language models."""
    text = documents.llms_txt(shell.root_of(request.scope), request.app.state.problems)
    return Response(text, media_type="text/plain; charset=utf-8", headers=shell.HEADERS)


def _found(pages: Mapping[str, Document], slug: str) -> Document:
    page = pages.get(slug.removesuffix(SUFFIX))
    if page is None:
        raise NotFound("there is no such page; /guide and /problems list all pages")
    return page


def _markdown(page: Document) -> Response:
    return Response(page.source, media_type=MARKDOWN, headers=shell.HEADERS)
