"""The guide and the pages of problems: what they show works, and nothing is left out."""

import re
import shutil
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from core.problems import Conflict, Invalid
from service import errors
from service.api.http import problems as api_problems
from service.pages import documents
from service.settings import Settings
from tests.service import sessions

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")
WITHOUT_CLASS = {"no-route": 404, "no-method": 405, "http": 400, "internal-error": 500}
"""Problems that are no errors of ours, and the status that their page shows."""
RAISED_BY_KINDS = {"onepass-error", "denied", "bad-body"}
"""Errors that only their kinds are raised of."""
PROBLEMS = documents.problems(api_problems.kinds())
RAISED = {api_problems._slug(kind): kind for kind in vars(errors).values() if isinstance(kind, type)}
OTHER_VARIABLES = {"ONEPASS_URL", "ONEPASS_API_KEY", "ONEPASS_API_KEYS_FILE"}
"""Of the command line, and of a file in place of a value."""
PARTS = ["On the model's page", "What can go wrong"]


@needs_curl
@pytest.mark.parametrize("slug", documents.GUIDE)
def test_every_call_of_the_guide_works_as_shown(empty, tmp_path, slug):
    """Each page in order, against one service, with the answers that it shows."""
    assert sessions.run(documents.guide()[slug].source, empty, tmp_path) > 3


def kinds(kind):
    """An error class and all below it."""
    return [kind, *(each for below in kind.__subclasses__() for each in kinds(below))]


def test_every_problem_has_a_page_and_every_page_a_problem():
    """By the slug in its type, with the status that it is answered with."""
    ours = [kind for kind in kinds(errors.OnepassError) if kind.__module__ == errors.__name__]
    named = {api_problems._slug(kind): kind for kind in [*ours, Conflict, Invalid]}
    expected = {
        slug: next(api_problems.STATUS[each] for each in kind.__mro__ if each in api_problems.STATUS)
        for slug, kind in named.items()
        if slug not in RAISED_BY_KINDS
    }
    expected |= WITHOUT_CLASS
    shown = {slug: int(page.rendered.lead[:3]) for slug, page in PROBLEMS.items()}
    assert expected == shown


@pytest.mark.parametrize("page", PROBLEMS.values(), ids=PROBLEMS)
def test_a_page_of_a_problem_says_what_it_means_and_what_to_do(page):
    """A title, its status, what has happened, and a step or more; of the errors' docstrings nothing is left over."""
    code = int(page.summary[:3])
    assert page.summary == f"{code} {HTTPStatus(code).phrase}"
    story, _, steps = page.source.partition("\n\n## What to do\n\n")
    title, status, text = story.split("\n\n")
    assert ["# " + page.title, page.summary] == [title, status]
    assert len(text) > 40
    assert re.fullmatch(r"(- .+(\n  .+)*\n)+", steps)
    again = issubclass(RAISED.get(page.slug, Exception), errors.Unavailable)
    assert again == ("Wait for `Retry-After` seconds and send the request again. Feedback with" in steps)
    assert not re.search("Args:|``", page.source)


def test_pages_name_settings_that_there_are():
    """Each ONEPASS_... of the guide, of the pages of problems and of llms.txt."""
    texts = [page.source for page in (*documents.guide().values(), *PROBLEMS.values())]
    named = set(re.findall(r"ONEPASS_[A-Z_]+", "\n".join([*texts, documents.LLMS])))
    there = {f"ONEPASS_{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    assert len(named) > 15
    assert set() == named - there


def test_slugs_without_a_class_are_those_that_the_service_answers():
    """What is rendered with a word instead of an error."""
    source = Path(api_problems.__file__).read_text()
    words = set(re.findall(r"Refusal\(\d+, \"([a-z-]+)\"", source)) | set(re.findall(r"\d+: \"(no-[a-z]+)\"", source))
    assert set(WITHOUT_CLASS) == words | {"http"} == {slug for slug, _ in api_problems.OTHERS} - {"invalid"}


def test_pages_of_the_guide_are_built_alike():
    """A title, a text of its own before the first heading, what the model's page shows, what can go wrong."""
    for slug, page in documents.guide().items():
        headings = [heading.text for heading in page.rendered.headings]
        assert PARTS == headings[-2:], slug
        assert len(page.summary) > 40, slug
        assert "`/ui/models/" in page.source, slug
        assert len(set(headings)) == len(headings), slug
        assert "`/problems/" in page.source.partition(PARTS[1])[2], slug


async def test_links_lead_somewhere(api):
    """From every page, to the heading that is named; also under a prefix that the server is told."""
    for prefix in ("", "/some/where"):
        transport = httpx.ASGITransport(api.app, root_path=prefix)
        async with httpx.AsyncClient(transport=transport, base_url="http://onepass") as client:
            seen: dict[str, int] = {}
            for path in ["/guide", "/problems", *addresses()]:
                answer = await client.get(prefix + path)
                assert 200 == answer.status_code, path
                assert not re.search(r'"[^"]*\.md">', answer.text.partition("<h1>")[2].partition("<footer")[0]), path
                for link in re.findall(r"href=\"([^\"#]+)(?:#[^\"]*)?\"", answer.text):
                    target = httpx.URL(f"http://onepass{prefix}{path}").join(link)
                    assert target.path.startswith(f"{prefix}/"), (path, link)
                    if target.path not in seen:
                        seen[target.path] = (await client.get(target)).status_code
            assert {200} == set(seen.values()), [path for path, status in seen.items() if status != 200]


def addresses() -> list[str]:
    return [f"/guide/{slug}" for slug in documents.guide()] + [f"/problems/{slug}" for slug in PROBLEMS]


async def test_every_page_is_there_as_markdown(api):
    """Under its address with .md behind it, with links to others of these."""
    for path in addresses():
        answer = await api.ask("GET", f"{path}.md")
        assert (200, "text/markdown; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
        assert answer.text.startswith("# ")
        for link in re.findall(r"\]\(([^)]+)\)", answer.text):
            assert 200 == (await api.ask("GET", f"{path.rpartition('/')[0]}/{link}")).status_code
        assert 200 == (await api.ask("HEAD", f"{path}.md")).status_code


async def test_llms_txt_has_the_form_of_llmstxt_org(api):
    """A title, a quoted summary, sections of links that work, with a note each."""
    text = (await api.ask("GET", "/llms.txt")).text
    assert re.match(r"# Onepass\n\n> [^\n]+\n\n", text)
    links = re.findall(r"^- \[[^\]]+\]\(\./([^)]+)\): \S", text, re.MULTILINE)
    assert len(links) == sum(line.startswith("- ") for line in text.splitlines())
    assert {f"guide/{slug}.md" for slug in documents.GUIDE} <= set(links)
    assert {f"problems/{slug}.md" for slug in PROBLEMS} | {"openapi.json"} <= set(links)
    for link in links:
        assert 200 == (await api.ask("GET", f"/{link}")).status_code


@pytest.mark.parametrize(
    "path", ["/guide/none", "/guide/first-model.html", "/problems/none", "/problems/..%2fguide.md"]
)
async def test_other_pages_are_not_there(api, path):
    """No page, and no way to another file."""
    assert 404 == (await api.ask("GET", path)).status_code


def test_markdown_holds_no_html_of_its_own():
    """Marks of HTML in a text, in code and in an answer are shown as they are."""
    found = documents.markdown.render("# T\n\nlead <b>\n\n```console\n$ a <i>\n<u>...\n```\n\n<script>1</script>\n")
    assert "T" == found.title
    assert "lead <b>" == found.lead
    assert [] == re.findall(r"<(b|i|u|script)>", found.html)
    assert "&lt;u&gt;" + documents.markdown.GAP in found.html


@pytest.mark.parametrize(
    ("slug", "said"),
    [
        ("clash", "with ``incarnation=`` of an earlier model"),
        ("not-json", "``NaN`` and ``Infinity`` are"),
        ("head-too-large", "100 headers"),
    ],
)
def test_problems_name_what_decides(slug, said):
    """``min_version`` alone is no conflict, a repeated name is 422, and the request line is no header."""
    (text,) = (" ".join(kind.text.split()) for kind in api_problems.kinds() if kind.slug == slug)
    assert said in text
