"""Parts of the scripts by themselves, and what they do while nobody looks."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CALL = """([file, name, given]) => {
    const beside = document.querySelector("script[type=module]").src;
    return import(new URL(file, beside)).then((own) => own[name](...given));
}"""
COMPARED = """async (cases) => {
    const beside = document.querySelector("script[type=module]").src;
    const { comparison, judged } = await import(new URL("comparison.js", beside));
    return cases.map(([task, score, baseline, mean_cost, baseline_cost, rows = 30, paired_score = null]) => {
        const model = { task, score, baseline, mean_cost, baseline_cost, paired_score };
        const found = comparison(...judged(model).errors, rows);
        const part = found && found.part !== null ? Number(found.part.toFixed(6)) : null;
        return found && [part, found.kind, found.text.replaceAll("\\u202f", " ")];
    });
}"""
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_errors_are_compared_with_the_baselines(visits):
    """Shares of wrong answers, costs and squared errors alike: from -1, twice as much, over 0 to 1, none at all."""
    page = await visits.open("/guide")
    cases = {
        ("classification", 0.9, 0.8): [0.5, "good", "50 % less"],
        ("classification", 0.7, 0.8): [-0.5, "bad", "50 % more"],
        ("classification", 0.6, 0.8): [-1, "bad", "100 % more"],
        ("classification", 0.8, 0.8): [0, "", "equal"],
        ("classification", 1, 1): [0, "", "equal"],
        ("classification", 0.9, 1): [-1, "bad", "baseline never wrong"],
        ("classification", 1, 0.5): [1, "good", "100 % less"],
        ("regression", 1, 4): [0.75, "good", "75 % less"],
        ("regression", 5.1, 5): [-0.02, "bad", "2.0 % more"],
        ("regression", 100, 2): [-1, "bad", "50 × as much"],
        ("regression", 1e6, 4, None, None, 30, 1): [0.75, "good", "75 % less"],
        ("classification", 0.9, 0.97, 0.1, 0.4): [0.75, "good", "75 % less"],
        ("classification", 0.99, 0.97, 0, 0): [0, "", "equal"],
        ("classification", 0.99, 0.97, 0.1, 0): [-1, "bad", "baseline never wrong"],
        ("regression", 3782, 4.5, None, None, 29): [None, "", "too early to compare"],
        ("regression", 3782, None, None, None, 1): [None, "", "too early to compare"],
        ("regression", None, None, None, None, 0): None,
        ("regression", 5, None): None,
        ("classification", None, None): None,
    }
    found = await page.evaluate(COMPARED, [[*case] for case in cases])
    assert [*cases.values()] == found


async def test_scores_near_one_are_not_shown_as_one(visits):
    """With as many decimals as tell them from it, six at most; as the API has them, from 0 to 1."""
    page = await visits.open("/guide")
    shown = {0: "0.000", 0.873: "0.873", 0.995: "0.995", 0.9992: "0.9992", 0.99999: "0.999990", 1: "1.000"}
    shown |= {1 - 1e-9: "> 0.999999", None: "–", -0.25: "-0.250"}
    found = [await page.evaluate(CALL, ["format.js", "share", [score]]) for score in shown]
    assert [*shown.values()] == [text.replace("\u2009", " ") for text in found]


async def test_a_drift_is_one_line_whoever_found_it(visits):
    """Events of the model and of its challengers are joined within the rows of an episode, one of each at most."""
    page = await visits.open("/guide")
    found = [(None, 1033), ("dfop", 956), ("auto", 956), (None, 2040), ("dfop", 1700), ("dfop", 9000)]
    events = [{"challenger": who, "row": row, "version": row, "id": f"{who} {row}"} for who, row in found]
    joined = await page.evaluate(CALL, ["model/episodes.js", "episodes", [events, 1000]])
    rows = [[(event["challenger"], event["row"]) for event in episode] for episode in joined]
    assert [
        [("dfop", 9000)],
        [("dfop", 1700), (None, 2040)],
        [("dfop", 956), ("auto", 956), (None, 1033)],
    ] == rows
    said = [await page.evaluate(CALL, ["model/episodes.js", "finders", [episode]]) for episode in joined]
    assert [
        "challenger dfop",
        "the model and challenger dfop (row 1,700)",
        "the model, challenger dfop (row 956) and challenger auto (row 956)",
    ] == said


async def test_rows_that_can_stay_do_not_move(visits):
    """Who comes takes the place of who has gone, or stands at the end."""
    page = await visits.open("/guide")

    async def kept(shown, wanted):
        found = await page.evaluate(CALL, ["models/list.js", "kept", [[*shown], [*wanted]]])
        return "".join(found)

    assert "abc" == await kept("", "abc")
    assert "abc" == await kept("abc", "cba")
    assert "axc" == await kept("abc", "xca")
    assert "abcx" == await kept("abc", "xcab")
    assert "ac" == await kept("abc", "ca")
    assert "xyz" == await kept("ab", "xyz")


async def test_events_are_read_as_they_are_sent(visits):
    """Name, id and data, which are JSON; comments and unknown fields say nothing."""
    page = await visits.open("/guide")
    text = 'id: 18\nevent: model\nretry: 5\ndata: {"a":\ndata: "b: c"}'
    found = await page.evaluate(CALL, ["live.js", "parse", [text]])
    assert {"event": "model", "id": "18", "data": {"a": "b: c"}} == found
    assert "data" not in await page.evaluate(CALL, ["live.js", "parse", [": still here"]])


async def test_a_page_that_is_not_looked_at_closes_its_stream(visits):
    """After a while, as a browser has six connections for all its tabs; looked at again, it goes on."""
    page = await visits.open("/")
    await expect(page.locator("#live-text")).to_have_text("Live")
    await page.clock.install()
    async with page.expect_event("requestfailed", lambda request: "/stream" in request.url):
        await page.evaluate(HIDE, arg=True)
        await page.clock.fast_forward(6000)
    async with page.expect_request(lambda request: "/stream" in request.url):
        await page.evaluate(HIDE, arg=False)
    await expect(page.locator("#live-text")).to_have_text("Live")
