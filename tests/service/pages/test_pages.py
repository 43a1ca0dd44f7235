"""The pages for people: public, strict about what they may fetch, and under any prefix."""

import hashlib
import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.pages import assets
from tests.service.api_fixtures import problem

PAGES = ["/", "/ui/models/demo"]
FOLDER = Path(assets.__file__).resolve().parent
VENDORED = FOLDER / "assets/vendor"
SCRIPTS = [path for path in sorted(FOLDER.rglob("assets/**/*.js")) if path.parent != VENDORED]
READ_AS_MODULES = """
const [fs, vm] = [require("fs"), require("vm")];
for (const file of process.argv.slice(1)) new vm.SourceTextModule(fs.readFileSync(file, "utf8"), { identifier: file });
"""
"""For Node, whose --check passes over whatever imports something (20)."""
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
    "connect-src": "'self'", "form-action": "'none'", "base-uri": "'none'", "frame-ancestors": "'none'",
}  # fmt: skip


def addresses(text: str) -> list[str]:
    """Everything that a page links to or loads."""
    return re.findall(r"(?:src|href)=\"([^\"#]+)\"", text)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_says_what_it_may_fetch(api, path):
    """Scripts and styles are ours and in files, nothing else is fetched, nobody frames it."""
    answer = await api.ask("GET", path)
    assert (200, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    said = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    assert POLICY == said
    assert "nosniff" == answer.headers["x-content-type-options"]
    assert "no-referrer" == answer.headers["referrer-policy"]
    assert [] == re.findall(r"<style|style=|<script(?![^>]*src=)|\son\w+=|https?:", answer.text)


async def test_a_browser_is_shown_a_page_where_there_is_nothing(api):
    """Of the same status, with the same facts and ways back; everybody else is answered with the problem itself."""
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    for path, slug in (("/nonsense", "no-route"), ("/some/<b>", "no-route"), ("/guide/none", "not-found")):
        told = problem(await api.ask("GET", path), 404)
        shown = await api.ask("GET", path, headers=browser)
        assert (404, "Accept") == (shown.status_code, shown.headers["vary"])
        assert "text/html; charset=utf-8" == shown.headers["content-type"]
        root = "../" * (path.count("/") - 1) or "./"
        assert {root, f"{root}guide", f"{root}docs", f"{root}problems/{slug}"} <= set(addresses(shown.text))
        assert told["detail"] in html.unescape(shown.text)
        assert "<b>" not in shown.text
        assert 404 == (await api.ask("HEAD", path, headers=browser)).status_code
    for method, path, status in (("POST", "/nonsense", 404), ("GET", "/v2/nonsense", 404), ("GET", "/models/no", 404)):
        assert status == (answer := await api.ask(method, path, headers=browser)).status_code
        assert "json" in answer.headers["content-type"]
    wrong = await api.ask("GET", "/models/no/predict", headers=browser)
    assert (405, "POST") == (wrong.status_code, wrong.headers["allow"])
    assert "text/html; charset=utf-8" == wrong.headers["content-type"]


async def test_an_asset_is_kept_for_good_under_its_digest_only(api):
    """Under no digest, or another version's, it is asked for again, and not sent again if it is the same."""
    fixed = await api.ask("GET", f"/{assets.address('api.js')}")
    assert ((FOLDER / "assets/api.js").read_bytes(), assets.FOREVER) == (fixed.content, fixed.headers["cache-control"])
    for path in ("/ui/assets/api.js", "/ui/assets/000000000000/api.js"):
        answer = await api.ask("GET", path)
        assert (fixed.content, "no-cache") == (answer.content, answer.headers["cache-control"])
        again = await api.ask("GET", path, headers={"If-None-Match": answer.headers["etag"]})
        assert (304, b"") == (again.status_code, again.content)


@pytest.mark.parametrize("file", ["nothing.js", "..%2froutes.py", "%2e%2e/routes.py", "routes.py", "onepass.css%00"])
async def test_nothing_else_is_an_asset(api, file):
    """No other file, and no way out of the folder."""
    problem(await api.ask("GET", f"/ui/assets/{file}"), 404)


async def test_scripts_name_assets_that_exist():
    """Each module that a script imports, and each file that a template names."""
    folder = FOLDER / "assets"
    for path in SCRIPTS:
        imported = re.findall(r"(?:from|import) \"(\.[^\"]+)\"", path.read_text())
        names = [(path.parent / address).resolve().relative_to(folder).as_posix() for address in imported]
        assert [] == [name for name in names if name not in assets.load().contents], path.name
    named = [
        name for path in FOLDER.glob("templates/*") for name in re.findall(r"asset\(\"(.*?)\"\)", path.read_text())
    ]
    assert {"theme.js", "onepass.css"} <= set(named) <= set(assets.load().contents)


async def test_vendored_files_are_those_of_their_notice():
    """The README beside them names each with its SHA-256, and nothing else is there."""
    notice = (VENDORED / "README.md").read_text()
    told = dict(re.findall(r"^\| `(.+?)` \| .* \| `([0-9a-f]{64})` \|$", notice, re.MULTILINE))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDORED.iterdir()}
    assert told == {name: digest for name, digest in found.items() if name != "README.md"}


async def test_scripts_set_text_and_never_markup():
    """Names of models and labels come from users."""
    for path in SCRIPTS:
        assert [] == re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), (
            path
        )


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_and_what_it_loads_are_small(api, path):
    """Less than 300 KB; and it names every module that its scripts import, so that all are fetched at once."""
    text = (await api.ask("GET", path)).text
    loaded = {address.partition("/assets/")[2].partition("/")[2] for address in addresses(text) if "ui/" in address}
    assert len(text) + sum(len(assets.load().contents[name]) for name in loaded) < 300_000
    folder = FOLDER / "assets"
    for name in (name for name in loaded if name.endswith(".js")):
        imported = re.findall(r"(?:from|import) \"(\.[^\"]+)\"", (folder / name).read_text())
        assert {(folder / name / ".." / one).resolve().relative_to(folder).as_posix() for one in imported} <= loaded


async def test_scripts_are_sound_javascript():
    """As far as Node can tell without running them; no file is about more than one thing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    how = ["--no-warnings", "--experimental-vm-modules", "--eval", READ_AS_MODULES]
    done = subprocess.run([node, *how, *map(str, SCRIPTS)], capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


async def test_no_script_is_too_long():
    """Less than 400 lines, of at most 120 characters."""
    for path in SCRIPTS:
        lines = path.read_text().splitlines()
        assert (True, []) == (len(lines) < 400, [line for line in lines if len(line) > 120]), path.name
