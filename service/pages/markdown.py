"""Markdown as HTML: CommonMark with tables, without raw HTML; fenced code holds calls to copy, and their answers.

The word after a fence says what it holds:

    console   lines that begin with ``$ `` are calls (and those after one that ends inside quotes); others are answers
    python    a program to copy; sh likewise
    output    what the program above prints; json, text: an answer without a call

An answer shows ``...`` for what is left out or differs each time.
"""

import re
from collections.abc import MutableMapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

COPIED = ("python", "sh")
GAP = '<span class="gap">...</span>'


class Heading(NamedTuple):
    """A heading of the second level: where it can be linked to, and its text."""

    anchor: str
    text: str


class Step(NamedTuple):
    """A call of a session, and the lines of its answer."""

    call: str
    answer: str


class Rendered(NamedTuple):
    """A text as HTML."""

    title: str  # the heading of the first level, which ``html`` leaves out
    lead: str  # the first paragraph after it, as text
    html: str  # everything after the title
    headings: list[Heading]  # those of the second level


def session(text: str) -> list[Step]:
    """The calls of a ``console`` fence; a call continues while a single quote is open."""
    found: list[Step] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], ""))
        elif found and not found[-1].answer and found[-1].call.count("'") % 2:
            found[-1] = Step(f"{found[-1].call}\n{line}", "")
        else:
            found[-1] = found[-1]._replace(answer=f"{found[-1].answer}{line}\n")
    return found


def render(text: str) -> Rendered:
    """A text whose first line is its title."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    for kind, rule in RULES.items():
        parser.add_render_rule(kind, rule)
    tokens = parser.parse(text)
    title, tokens = tokens[1].content, tokens[3:]
    lead = next((token for token in tokens if token.type == "inline"), None)
    headings = _with_anchors(tokens)
    for token in tokens:
        if token.attrs.pop("style", None) == "text-align:right":  # the pages' policy forbids inline styles
            token.attrSet("class", "num")
    html = parser.renderer.render(tokens, parser.options, {})
    return Rendered(title, "" if lead is None else plain(lead), html, headings)


def plain(inline: Token) -> str:
    """The text of a paragraph, without marks."""
    return "".join(" " if own.type == "softbreak" else own.content for own in inline.children or ())


def _with_anchors(tokens: Sequence[Token]) -> list[Heading]:
    found = []
    for opened, inline in pairwise(tokens):
        if opened.type == "heading_open":
            text = plain(inline)
            anchor = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
            opened.attrSet("id", anchor)
            if opened.tag == "h2":
                found.append(Heading(anchor, text))
    return found


# ------------------------------------------------------------------------------------------------ HTML of our own

Environment = MutableMapping[str, Any]


def _code(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: Environment) -> str:
    kind, text = tokens[at].info.strip(), tokens[at].content
    if kind == "console":
        return "".join(_call(step.call) + (_answer(step.answer) if step.answer else "") for step in session(text))
    is_copied = kind in COPIED or tokens[at].type == "code_block"  # indented code, without a fence
    return _call(text.rstrip("\n")) if is_copied else _answer(text)


def _call(text: str) -> str:
    button = '<button type="button" class="button small copy" hidden>Copy</button>'
    return f'<div class="code"><pre tabindex="0"><code>{escapeHtml(text)}</code></pre>{button}</div>\n'


def _answer(text: str) -> str:
    shown = escapeHtml(text.rstrip("\n")).replace("...", GAP)
    return f'<pre class="answer" tabindex="0"><code>{shown}</code></pre>\n'


def _table_open(*_: Any) -> str:
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="data">\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _heading_close(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: Environment) -> str:
    anchor = tokens[at - 2].attrGet("id")
    link = f'<a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
    return f"{link}</{tokens[at].tag}>\n"


RULES = {
    "fence": _code,
    "code_block": _code,
    "table_open": _table_open,
    "table_close": _table_close,
    "heading_close": _heading_close,
}
