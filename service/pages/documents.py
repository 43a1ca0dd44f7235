"""What there is to read: the pages of the guide, and a page for every problem, from Markdown files in this package.

Links in them begin with ``/``, the service's root; they are made relative to the page they stand on.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from service.pages import markdown

GUIDE = (
    "first-model",
    "which-algorithm",
    "late-labels",
    "strings-and-gaps",
    "drift",
    "change-of-features",
    "challengers",
    "running-it",
)
"""In the order in which they are read."""
GUIDE_TEXT = """\
Eight pages, each read in a few minutes and best beside a running service: every call can be copied and works as it
stands, in the order of the pages. In answers ... stands for what is left out, or differs each time."""
PROBLEMS_TEXT = """\
Every error is answered as application/problem+json (RFC 9457). Its type is the address of one of these pages, its
errors name the fields that are wrong and what would be allowed."""


@dataclass(frozen=True)
class Document:
    """A page to read.

    Attributes:
        slug: the last part of its address.
        source: the Markdown.
        rendered: the same as HTML.
    """

    slug: str
    source: str
    rendered: markdown.Rendered

    @property
    def title(self) -> str:
        """Its title."""
        return self.rendered.title

    @property
    def summary(self) -> str:
        """What it is for: its first paragraph."""
        return self.rendered.lead

    def html(self, root: str) -> str:
        """As HTML, with links from a page whose root is at ``root``."""
        return self.rendered.html.replace('href="/', f'href="{root}')

    def text(self, root: str) -> str:
        """As Markdown, with such links."""
        return self.source.replace("](/", f"]({root}")


class Group(NamedTuple):
    """Problems of one status: ``422 Unprocessable Entity`` and their pages."""

    status: str
    pages: list[Document]


@cache
def guide() -> dict[str, Document]:
    """The pages of the guide, in order."""
    return {slug: _read("guide", slug) for slug in GUIDE}


@cache
def problems() -> dict[str, Document]:
    """The pages of the problems; the lead of each is its status."""
    names = sorted(own.name for own in (files("service.pages") / "problems").iterdir() if own.name.endswith(".md"))
    return {slug: _read("problems", slug) for slug in (name.removesuffix(".md") for name in names)}


def by_status() -> list[Group]:
    """The problems by their status, lowest first."""
    found: dict[str, list[Document]] = {}
    for page in problems().values():
        found.setdefault(page.rendered.lead, []).append(page)
    return [Group(status, found[status]) for status in sorted(found)]


def llms_txt(root: str) -> str:
    """The overview for language models, as llmstxt.org describes it.

    Args:
        root: what links begin with.
    """
    pages = "\n".join(f"- [{page.title}]({root}guide/{page.slug}.md): {page.summary}" for page in guide().values())
    kinds = "\n".join(
        f"- [{page.slug}]({root}problems/{page.slug}.md): {page.rendered.lead}. {page.title}."
        for page in problems().values()
    )
    return LLMS.format(root=root, pages=pages, problems=kinds)


LLMS = """\
# Onepass

> A prediction service that learns from every label, one row at a time, while the data drift and the features change.

A model is created with `PUT /models/NAME`, learns by `POST /models/NAME/feedback` and answers
`POST /models/NAME/predict`. Bodies and answers are JSON. Each row is predicted before it is learned, so every score is
prequential. Feedback with an `id` is learned once, however often it is sent: after a 503 or a broken connection, send
it again. Errors are `application/problem+json`: `type` is the address of a page that says what to do, `errors` names
the fields.

## Guide

{pages}

## API

- [OpenAPI document]({root}openapi.json): every route, body and answer.
- [Algorithms]({root}algorithms): the catalogue, with parameters as JSON Schema.

## Problems

{problems}
"""


def _read(folder: str, slug: str) -> Document:
    source = (files("service.pages") / folder / f"{slug}.md").read_text("utf-8")
    return Document(slug, source, markdown.render(source))
