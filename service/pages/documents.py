"""The pages to read: the guide, from Markdown files, and a page for every kind of problem.

Pages of the guide link to each other by file name, so that the links also work on a forge. Other pages of a running
service are written as code, such as ``/ui/models/boiler``; in HTML they become relative links.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from importlib.resources import files

from service.pages import markdown

GUIDE = (
    "first-model",
    "which-algorithm",
    "late-labels",
    "strings-and-gaps",
    "drift",
    "change-of-features",
    "challengers",
    "your-model",
    "running-it",
    "papers",
)
"""In the order in which they are read."""
GUIDE_TEXT = """\
Ten pages of a few minutes each. Every call works unchanged against your own service, in the order of
the pages. In answers, ... marks parts that are left out or differ each time."""
PROBLEMS_TEXT = """\
Every error is an application/problem+json document (RFC 9457). Its type is the address of one of these pages; its
errors list the wrong fields and what is allowed."""

ADDRESS = re.compile(r"<code>/((?:docs|guide|problems|ui/models)\b[^<\s]*)</code>")
"""An address of this service in a page."""


@dataclass(frozen=True)
class Document:
    """A page to read, by the last part of its address: Markdown, rendered when it is first shown."""

    slug: str
    source: str

    @cached_property
    def rendered(self) -> markdown.Rendered:
        """The page as HTML."""
        return markdown.render(self.source)

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
        linked = ADDRESS.sub(rf'<a href="{root}\1"><code>/\1</code></a>', self.rendered.html)
        return linked.replace('.md">', '">')


@cache
def guide() -> dict[str, Document]:
    """The pages of the guide, in order."""
    sources = ((slug, files("service.pages") / "guide" / f"{slug}.md") for slug in GUIDE)
    return {slug: Document(slug, source.read_text("utf-8")) for slug, source in sources}


@cache
def problems(kinds: tuple[tuple[str, int, str], ...]) -> dict[str, Document]:
    """The pages of the problems by slug; the lead of each is its status.

    ``kinds`` has the slug, the status and the Markdown of each: a title, what has happened, a list of what to do.
    """
    found = {}
    for slug, status, text in sorted(kinds):
        title, _, rest = text.replace("``", "`").partition(".\n")
        story, _, steps = rest.partition("\n- ")
        lead = f"{status} {HTTPStatus(status).phrase}"
        found[slug] = Document(slug, f"# {title}\n\n{lead}\n{story}\n\n## What to do\n\n- {steps}\n")
    return found


def by_status(pages: Mapping[str, Document]) -> dict[str, list[Document]]:
    """The problems of each status, lowest first."""
    found: dict[str, list[Document]] = {}
    for page in sorted(pages.values(), key=lambda page: page.summary):
        found.setdefault(page.summary, []).append(page)
    return found


def llms_txt(root: str, problems: Mapping[str, Document]) -> str:
    """The overview for language models, as llmstxt.org describes it; links begin with ``root``."""
    return LLMS.format(
        root=root,
        pages="\n".join(f"- [{one.title}]({root}guide/{one.slug}.md): {one.summary}" for one in guide().values()),
        problems="\n".join(
            f"- [{slug}]({root}problems/{slug}.md): {one.summary}. {one.title}." for slug, one in problems.items()
        ),
    )


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
