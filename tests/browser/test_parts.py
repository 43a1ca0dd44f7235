"""Single parts of the scripts, and the requests of pages while they are visible and while they are hidden."""

import pytest
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.model_pages import tab

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CALL = """([file, name, given]) => {
    const beside = document.querySelector("script[type=module]").src;
    return import(new URL(file, beside)).then((own) => own[name](...given));
}"""
COMPARED = """async (cases) => {
    const beside = document.querySelector("script[type=module]").src;
    const { comparison } = await import(new URL("comparison.js", beside));
    return cases.map(([own, other, rows = 30]) => {
        const found = comparison(own, other, rows);
        const part = found && found.part !== null ? Number(found.part.toFixed(6)) : null;
        return found && [part, found.kind, found.text.replaceAll("\\u202f", " ")];
    });
}"""
LIGHT = """async (model) => {
    const beside = document.querySelector("script[type=module]").src;
    const { light } = await import(new URL("comparison.js", beside));
    return light(model, "p").map((own) => own.textContent);
}"""
SPEED = """async (looks) => {
    const beside = document.querySelector("script[type=module]").src;
    const { ModelDocuments } = await import(new URL("model/documents.js", beside));
    const model = new ModelDocuments("any");
    const marked = (kind, row) => ({ kind, row });
    for (const [rows, mark] of looks) model.noteSpeed({ rows, metrics: { marks: mark ? [marked(...mark)] : [] } });
    return model.speed();
}"""
FONTS = """async () => {
    const { prototype } = CanvasRenderingContext2D, { fillText } = prototype, fonts = [];
    prototype.fillText = function (...given) {
        fonts.push(this.font.match(/[\\d.]+px/)[0]);
        return fillText.apply(this, given);
    };
    document.getElementById("theme-button").click(); // charts are drawn anew
    while (!fonts.length) await new Promise((drawn) => requestAnimationFrame(drawn));
    return fonts;
}"""
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_errors_are_compared_with_the_baselines(visits):
    """Error rates, costs and squared errors alike: from -1 (twice as much or more) over 0 to 1 (none)."""
    page = await visits.open("/guide")
    cases = {
        (0.1, 0.2): [0.5, "good", "50 % less"],
        (0.3, 0.2): [-0.5, "bad", "50 % more"],
        (0.4, 0.2): [-1, "bad", "100 % more"],
        (0.2, 0.2): [0, "", "equal"],
        (1 - 0.8, 0.2): [0, "", "equal"],
        (0, 0): [0, "", "equal"],
        (0.1, 0): [-1, "bad", "baseline never wrong"],
        (0, 0.5): [1, "good", "100 % less"],
        (5.1, 5): [-0.02, "bad", "2.0 % more"],
        (100, 2): [-1, "bad", "50 × as much"],
        (3782, 4.5, 29): [None, "", "too early to compare"],
        (3782, None, 1): [None, "", "too early to compare"],
        (None, None, 0): None,
        (5, None): None,
    }
    found = await page.evaluate(COMPARED, [[*case] for case in cases])
    assert [*cases.values()] == found


async def test_the_light_of_a_model_that_learns_nothing(visits):
    """The list says "down" of a model that is out of service, and of one that is lost but still predicts."""
    page = await visits.open("/guide")
    found = await page.evaluate(LIGHT, {"task": "regression", "rows": 0, "phase": "down", "score": None})
    assert ["Down", "It is out of service or lost, and learns nothing."] == found


async def test_rows_that_were_not_learned_are_no_speed(visits):
    """A reset, a restore and an import move the number of rows, down or up: measuring begins again."""
    page = await visits.open("/guide")
    assert [20, 20, None, None, None, 0] == [
        await page.evaluate(SPEED, looks)
        for looks in (
            [[5, None], [15, None]],
            [[5, ["restore", 5]], [15, ["restore", 5]]],
            [[500, None], [0, ["reset", 0]]],
            [[0, ["reset", 0]], [500, ["restore", 500]]],
            [[5, None], [500, ["import", 500]]],
            [[5, None], [500, ["import", 500]], [500, ["import", 500]]],
        )
    ]


async def test_scores_near_one_are_not_shown_as_one(visits):
    """They get as many decimals as it takes to tell them from one, at most six; equal to the API's from 0 to 1."""
    page = await visits.open("/guide")
    shown = {0: "0.000", 0.873: "0.873", 0.995: "0.995", 0.9992: "0.9992", 0.99999: "0.999990", 1: "1.000"}
    shown |= {1 - 1e-9: "> 0.999999", None: "–", -0.25: "-0.250"}
    found = [await page.evaluate(CALL, ["format.js", "share", [score]]) for score in shown]
    assert [*shown.values()] == [text.replace("\u2009", " ") for text in found]


async def test_what_has_happened_is_never_yet_to_come(visits):
    """A browser's clock may be behind the service's; only what may be ahead, as the end of a wait, is shown so."""
    page = await visits.open("/guide")
    later = "2100-01-01T00:00:00Z"
    assert "now" == await page.evaluate(CALL, ["format.js", "ago", [later]])
    assert (await page.evaluate(CALL, ["format.js", "ago", [later, True]])).startswith("in ")
    assert (await page.evaluate(CALL, ["format.js", "ago", ["2020-01-01T00:00:00Z"]])).endswith(" days ago")


async def test_the_texts_of_an_axis_are_as_large_on_a_dense_screen(visits, api):
    """Two of its pixels are one of the page, also where somebody zooms in."""
    streams.classes(api, "parts-dense")
    page = await visits.open("/ui/models/parts-dense", device_scale_factor=2)
    await expect(page.locator("#score canvas")).to_be_visible()
    fonts = await page.evaluate(FONTS)
    assert {"24px"} == set(fonts)


async def test_an_axis_has_few_round_ticks_whatever_its_size(visits):
    """Equal steps on a linear axis; powers of ten on a logarithmic one, with 2 and 5 in between where there is room."""
    page = await visits.open("/guide")
    linear = {
        (0, 43_000): ["0", "10,000", "20,000", "30,000", "40,000"],
        (0.43, 0.98): ["0.5", "0.6", "0.7", "0.8", "0.9"],
        (-0.06, 1): ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"],
        (1e289, 2.1e290): ["5.0e+289", "1.0e+290", "1.5e+290", "2.0e+290"],
        (0, 2.1e-16): ["0", "5.0e-17", "1.0e-16", "1.5e-16", "2.0e-16"],
    }
    logarithmic = {
        (87, 580_000): ["100", "1,000", "10,000", "100,000"],
        (0.013, 1.9): ["0.02", "0.05", "0.1", "0.2", "0.5", "1"],
        (120, 480): ["200", "300", "400"],
        (1e-149, 3e150): ["1.0e-100", "1.0e-50", "1", "1.0e+50", "1.0e+100", "1.0e+150"],
    }
    for log, cases in ((False, linear), (True, logarithmic)):
        for (low, high), texts in cases.items():
            ticks = await page.evaluate(CALL, ["charts/ticks.js", "powers" if log else "steps", [low, high, 6]])
            found = await page.evaluate(CALL, ["charts/ticks.js", "tickTexts", [ticks, log]])
            assert texts == found


async def test_an_axis_is_logarithmic_where_a_linear_one_would_hide_the_model(visits):
    """Where the largest value, of a baseline perhaps, is more than 30 times the model's median."""
    page = await visits.open("/guide")

    async def wide(model, baseline):
        series = [{"points": [[row, value] for row, value in enumerate(values)]} for values in (model, baseline)]
        return await page.evaluate(CALL, ["charts/line.js", "wide", [series]])

    assert await wide([5.0] + [0.1] * 9, [None] * 10)
    assert await wide([0.1] * 10, [None] + [4.0] * 9)
    assert not await wide([0.2] * 10, [4.0] * 10)
    assert not await wide([None, 0.1], [4.0, 4.0])


async def test_one_drift_is_one_line_for_all_models(visits):
    """Events of the model and of its challengers within the rows of an episode are joined, at most one of each."""
    page = await visits.open("/guide")
    found = [(None, 1033), ("dfop", 956), ("auto", 956), (None, 2040), ("dfop", 1700), ("dfop", 9000)]
    events = [{"challenger": who, "row": row, "version": row, "id": f"{who} {row}"} for who, row in found]
    joined = await page.evaluate(CALL, ["model/drift.js", "episodes", [events, 1000]])
    rows = [[(event["challenger"], event["row"]) for event in episode] for episode in joined]
    assert [[("dfop", 9000)], [("dfop", 1700), (None, 2040)], [("dfop", 956), ("auto", 956), (None, 1033)]] == rows
    said = [await page.evaluate(CALL, ["model/drift.js", "finders", [episode]]) for episode in joined]
    assert [
        "challenger dfop",
        "the model and challenger dfop (row 1,700)",
        "the model, challenger dfop (row 956) and challenger auto (row 956)",
    ] == said


async def test_a_drift_names_the_features_that_moved(visits):
    """The feature that moved most with its means, then up to three others by name."""
    page = await visits.open("/guide")
    moved = [{"name": name, "before": 1, "after": 2.5} for name in "abcde"]
    event = {"kind": "class_mean", "class": "UP", "features": moved[:3]}
    found = [
        await page.evaluate(CALL, ["model/words.js", "eventSentence", [{**event, "features": moved[:n]}]])
        for n in (1, 3, 5)
    ]
    first = "The mean of a in class UP moved from 1 to 2.500"
    assert [f"{first}.", f"{first}; so did b and c.", f"{first}; so did 4 more features."] == found


async def test_a_drift_of_errors_says_which_errors(visits):
    """Those of a class; in a regression those that are large, as it has no wrong rows."""
    page = await visits.open("/guide")
    event = {"kind": "error_rate", "features": [], "before": 0.071, "after": 0.3}
    said = [
        await page.evaluate(CALL, ["model/words.js", "eventSentence", [{**event, "class": label}]])
        for label in ("UP", None)
    ]
    end = "rose from 0.071 to 0.300."
    assert [f"The share of errors in class UP {end}", f"The share of large errors {end}"] == said


async def test_rows_do_not_move_unless_they_must(visits):
    """A new row takes the place of a removed one, or goes to the end."""
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


async def test_a_hidden_page_sends_no_requests(visits, api):
    """Neither the list nor a model's page does; shown again, each sends one at once."""
    api.put("/models/hidden", json={"task": "regression"}).raise_for_status()
    for path, live in (("/", "#live-text"), ("/ui/models/hidden", "#live [role=status]")):
        page, asked = await visits.open(path, statuses=[404]), []  # it may ask once more when the model is gone
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        await expect(page.locator(live)).to_have_text("Live")
        await page.evaluate(HIDE, arg=True)
        await page.wait_for_load_state("networkidle")
        asked.clear()
        await page.wait_for_timeout(5000)
        assert [] == [url for url in asked if "/models" in url]
        async with page.expect_request(lambda request: "/models" in request.url, timeout=1000):
            await page.evaluate(HIDE, arg=False)
        await expect(page.locator(live)).to_have_text("Live")
    api.delete("/models/hidden")


async def test_a_page_asks_every_two_seconds_and_less_often_while_that_fails(visits):
    """The pause doubles, with jitter, up to 15 seconds; after a success it is two seconds again."""
    page = await visits.open("/", statuses=[503])
    await expect(page.locator("#live-text")).to_have_text("Live")
    await page.route("**/models?*", lambda route: route.fulfill(status=503, json={"detail": "The test says so."}))
    await expect(page.get_by_role("alert")).to_have_text("The test says so.")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/models?" in request.url else None)
    await page.wait_for_timeout(8000)
    assert 1 <= len(asked) <= 4
    await page.unroute("**/models?*")
    await expect(page.locator("#live-text")).to_have_text("Live")
    asked.clear()
    await page.wait_for_timeout(6500)
    assert 2 <= len(asked) <= 4


async def test_a_page_does_without_weights_that_are_too_many(visits, api):
    """Its features are shown, it stays live, and it does not ask for the weights again."""
    streams.classes(api, "seen-wide")
    page, asked = await visits.open("/ui/models/seen-wide", statuses=[413]), []
    features = page.get_by_role("table", name="Features in use")
    await expect(features.locator(".weight").first).to_be_visible()

    async def refuse(route):
        asked.append(route.request.url)
        await route.fulfill(status=413, json={"detail": "The test says so."})

    await page.route("**/models/seen-wide/weights", refuse)
    await page.reload()
    await expect(features).to_be_visible()
    await expect(features.locator(".weight")).to_have_count(0)
    await page.wait_for_timeout(5000)
    await expect(page.locator("#live-text")).to_have_text("Live")
    assert 1 == len(asked)


async def test_events_appear_without_a_reload(visits, api):
    """A row, a drift and a promotion appear on the model's page and in the list."""
    streams.classes(api, "seen-live")
    page = await visits.open("/ui/models/seen-live", statuses=[409])  # weights are requested while vigo is promoted
    listed = await visits.open("/?search=seen-live")
    await expect(page.locator("#live[data-state=live]")).to_be_visible()
    line = listed.locator("tbody tr")
    await page.evaluate("window.seen = true")
    await listed.evaluate("window.seen = true")
    row = {"features": {"load": 1.0, "price": 0.0}, "label": "UP"}
    rows = api.post("/models/seen-live/feedback", json=row).raise_for_status().json()["rows"]
    await expect(page.locator("#model-rows")).to_have_text(f"{rows:,}")
    drifted = streams.teach_until_drift(api, "seen-live")
    await tab(page, "Drift")
    await expect(page.locator("#drift").get_by_text(f"Row {drifted:,}", exact=True)).to_be_visible()
    await tab(page, "Challengers")
    api.post("/models/seen-live/challengers/candidate/promote", json={"force": True}).raise_for_status()
    await expect(page.locator("#model-badges")).to_contain_text("vigo")
    await expect(page.locator("#challengers").get_by_role("rowheader", name="previous")).to_be_visible()
    rows = api.post("/models/seen-live/feedback", json=row).raise_for_status().json()["rows"]
    await expect(line).to_contain_text("vigo")
    await expect(line).to_contain_text(f"{rows:,}")
    await expect(line.locator("[data-label='Last drift'] .badge")).to_be_visible()
    assert [True, True] == [await one.evaluate("window.seen") for one in (page, listed)]
