"""Parts of the scripts by themselves, and what they do while nobody looks."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CALL = """([file, name, given]) => {
    const beside = document.querySelector("script[type=module]").src;
    return import(new URL(file, beside)).then((own) => own[name](...given));
}"""
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_errors_are_compared_with_the_baselines(visits):
    """Shares of wrong answers and squared errors alike: from -1, twice as much or more, over 0 to 1, none at all."""
    page = await visits.open("/guide")

    async def compared(task, score, baseline):
        model = {"task": task, "score": score, "baseline": baseline}
        found = await page.evaluate(CALL, ["models/figures.js", "comparison", [model]])
        return found and (round(found["part"], 6), found["kind"], found["text"].replace("\u202f", " "))

    assert (0.5, "good", "50 % less") == await compared("classification", 0.9, 0.8)
    assert (-0.5, "bad", "50 % more") == await compared("classification", 0.7, 0.8)
    assert (-1, "bad", "100 % more") == await compared("classification", 0.6, 0.8)
    assert (0, "", "equal") == await compared("classification", 0.8, 0.8)
    assert (0, "", "equal") == await compared("classification", 1, 1)
    assert (-1, "bad", "baseline never wrong") == await compared("classification", 0.9, 1)
    assert (1, "good", "100 % less") == await compared("classification", 1, 0.5)
    assert (0.75, "good", "75 % less") == await compared("regression", 1, 4)
    assert (-0.02, "bad", "2.0 % more") == await compared("regression", 5.1, 5)
    assert (-1, "bad", "50 × as much") == await compared("regression", 100, 2)
    assert await compared("regression", 5, None) is None
    assert await compared("classification", None, None) is None


async def test_accuracies_near_one_are_not_shown_as_one(visits):
    """With as many decimals as tell them from it, four at most."""
    page = await visits.open("/guide")

    async def shown(score):
        found = await page.evaluate(CALL, ["models/figures.js", "scoreText", [{"task": "classification"}, score]])
        return found.replace("\u202f", " ").replace("\u2009", " ")

    accuracies = {0: "0.0 %", 0.873: "87.3 %", 0.995: "99.5 %", 0.9992: "99.92 %", 0.99999: "99.9990 %", 1: "100.0 %"}
    for accuracy, text in (accuracies | {1 - 1e-9: "> 99.9999 %"}).items():
        assert text == await shown(accuracy)


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
