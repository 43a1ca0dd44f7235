"""The page of a model: marks, downloads, empty states and everything else that only make test-all checks."""

import json

import pytest
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.model_pages import LIVE, downloaded, drawn, refusal, tab

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def refused(route, how):
    """Refuse the page's requests to the API, but not the page itself."""
    await (route.fallback() if "/ui/" in route.request.url else route.fulfill(**how))


async def test_a_mark_opens_its_event(seen, api, shown):
    """The drift above the chart is a button that shows the event of its row below the chart."""
    row, *_ = streams.drifts(api, shown["classes"])
    events = api.get(f"/models/{shown['classes']}/drift").json()["events"]
    (event,) = [event for event in events if event["row"] == row and event["challenger"] is None]
    page = await seen("classes")
    await page.get_by_role("button", name=f"drift, row {row:,}").click()
    await expect(page.locator("#score .event")).to_contain_text(f"Row {row:,}")
    await expect(page.locator("#score .event-detail")).to_contain_text(f"version {event['version']}")
    mark = page.get_by_role("button", name=f"drift, row {row:,}")
    await expect(mark).to_have_attribute("aria-expanded", "true")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator("#score .event")).to_be_hidden()
    await expect(mark).to_have_attribute("aria-expanded", "false")


async def test_the_numbers_behind_a_chart_are_one_click_away(seen, api, shown):
    """Table, CSV and JSON have every point of the history, not only those drawn. Arrow keys read single points."""
    history = api.get(f"/models/{shown['classes']}/metrics").json()["history"]
    page = await seen("classes")
    lines = (await downloaded(page, "Score over rows: numbers as CSV")).splitlines()
    assert [str(point["row"]) for point in history] == [line.split(",")[0] for line in lines[1:]]
    records = json.loads(await downloaded(page, "Score over rows: numbers as JSON"))
    assert [point["accuracy"] for point in history] == [record["Last 1,000 rows"] for record in records]
    await page.locator("#score").get_by_role("button", name="Table").click()
    table = page.get_by_role("table", name="Score over rows")
    await expect(table.get_by_role("row")).to_have_count(len(history) + 1)

    await page.get_by_role("group", name="Score over rows: arrow keys show values").focus()
    await page.keyboard.press("Home")
    await expect(page.locator("#score .crosshair-box")).to_contain_text("row 10")
    await page.get_by_role("button", name="All rows", exact=True).first.click()
    await expect(page.get_by_role("button", name="All rows", exact=True).first).to_have_attribute(
        "aria-pressed", "false"
    )
    await page.locator("#score").get_by_role("button", name="Table").click()
    await expect(table).to_be_hidden()


async def test_marks_never_overlap(seen):
    """Every label has enough room, none is lost, and promotions are above all others."""
    page = await seen("classes")
    overlaps, marks, promotions = await page.evaluate(
        """async () => {
            const here = document.querySelector('script[src*="model/page.js"]').src;
            const { placed } = await import(new URL("../charts/marks.js", here));
            const xs = Array.from({ length: 100 }, (_, at) => (at * at) % 997).sort((one, other) => one - other);
            const [drift, promotion] = ["drift", "promotion"].map((kind) => ({ kind, label: kind }));
            const chips = placed(xs.map((x, at) => ({ x, ...(at % 50 ? drift : promotion) })), (x) => x / 2, 500);
            const overlaps = chips.filter((one) => chips.some((other) => one !== other && one.lane === other.lane
                && one.left < other.left + other.width && other.left < one.left + one.width));
            const top = chips.filter(({ lane }) => lane === 0).map(({ label }) => label);
            return [overlaps.length, chips.flatMap((chip) => chip.marks).length, top];
        }"""
    )
    assert (0, 100, ["promotion"] * 2) == (overlaps, marks, promotions)


async def test_a_regression_shows_errors_intervals_and_weights(seen, api, shown):
    """It shows coverage of every level, an interval for a prediction, contributions, and weights of the features."""
    coverage = api.get(f"/models/{shown['numbers']}/metrics").json()["window"]["coverage"]
    page = await seen("numbers")
    await tab(page, "Quality")
    levels = page.get_by_role("list", name="Coverage by level").get_by_role("listitem")
    await expect(levels).to_have_count(len(coverage))
    await tab(page, "Overview")
    await expect(page.get_by_role("table", name="Features in use").locator(".weight")).to_have_count(3)
    await page.get_by_label("day", exact=True).select_option("tue")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.get_by_text("Interval, 90 %")).to_be_visible()
    await expect(page.get_by_role("list", name="What each feature adds").get_by_text("day = tue")).to_be_visible()
    await page.get_by_label("True label").fill("-1.5")
    await page.get_by_role("button", name="Teach").click()
    await expect(page.get_by_text("Learned, as row 251. Before that, the model predicted")).to_be_visible()
    await expect(page.locator("#model-rows")).to_have_text("251")


async def test_a_drift_appears_while_the_page_is_open(look, api):
    """The mark and the line in the list appear without a reload."""
    streams.classes(api, "seen-drifting")
    page = await look("seen-drifting")
    await page.evaluate("document.body.dataset.same = 'yes'")
    row = streams.teach_until_drift(api, "seen-drifting")
    await expect(page.locator(f"#score .chip[data-rows~='{row}']")).to_be_visible()
    await tab(page, "Drift")
    await expect(page.locator("#drift").get_by_text(f"Row {row:,}", exact=True).first).to_be_visible()
    assert "yes" == await page.locator("body").get_attribute("data-same")


async def test_the_rows_of_a_younger_learner_are_shown(look, api):
    """After the promotion of a challenger without rows, its own rows are shown apart from the model's, which go on."""
    streams.classes(api, "seen-fewer")
    api.put("/models/seen-fewer/challengers/new", json={"algorithm": "rls"}).raise_for_status()
    page = await look("seen-fewer")
    await expect(page.locator("#model-rows")).to_have_text("1,750")
    await expect(page.locator("#model-stats")).not_to_contain_text("Rows of this learner")
    api.post("/models/seen-fewer/challengers/new/promote", json={"force": True}).raise_for_status()
    await expect(page.locator("#model-stats div", has_text="Rows of this learner").locator("dd")).to_have_text("0")
    await expect(page.locator("#model-rows")).to_have_text("1,750")


async def test_challengers_of_one_colour_are_told_apart_by_dashes(visits, api):
    """There are seven colours for eight challengers; the last one repeats the first one's, dashed."""
    api.put("/models/page-eight", json={"task": "regression", "algorithm": "rls", "features": ["a"]})
    for at in range(8):
        api.put(f"/models/page-eight/challengers/number-{at}", json={"algorithm": "rls"}).raise_for_status()
    page = await drawn(visits, "page-eight")
    await tab(page, "Challengers")
    await expect(page.locator("#challengers .chart-key")).to_have_count(9)
    dashed = page.locator("#challengers .chart-key", has=page.locator(".key-dashed"))
    await expect(dashed).to_have_text("number-7 (rls)")
    api.delete("/models/page-eight")


async def test_a_single_row_is_called_one_row(visits, api):
    """The score, its note and the empty chart agree, and there is no verdict yet."""
    api.put("/models/page-one", json={"task": "regression"})
    api.post("/models/page-one/feedback", json={"features": {"a": 1.0}, "label": 61.5})
    page = await drawn(visits, "page-one")
    part = page.locator("#score")
    await expect(part).to_contain_text("last 1 row")
    await expect(part.locator(".badge")).to_have_text("too early to compare")
    await expect(part.locator(".chart-empty")).to_have_text("1 row; the chart begins at row 10")


async def test_a_first_row_far_from_zero_does_not_count_against_a_regression(visits, api):
    """Score, bars, chart and badge cover rows that the last value predicted; the page says how many it leaves out."""
    x = [(7 * at % 11) / 11 for at in range(40)]
    rows = {"columns": ["a"], "data": [[one] for one in x], "labels": [1000 + 5 * one for one in x]}
    streams.taught(api, "page-far", {"task": "regression", "algorithm": "rls", "features": ["a"]}, rows)
    metrics = api.get("/models/page-far/metrics").json()
    (listed,) = api.get("/models", params={"search": "page-far"}).json()["models"]
    own, last = metrics["paired"]["window"]["mse"], metrics["window"]["baselines"]["last_value"]["mse"]
    assert (own, last) == pytest.approx((listed["paired_score"], listed["baseline"]))
    assert own < last < listed["score"]
    page = await drawn(visits, "page-far")
    part = page.locator("#score")
    await expect(part.locator(".badge.good")).to_contain_text("less error than last value over the last 40 rows")
    await expect(part).to_contain_text("last 40 rows, without 1 that the baseline could not predict")
    drawn_points = json.loads(await downloaded(page, "Score over rows: numbers as JSON"))
    assert [point["paired"] for point in metrics["history"]] == [point["Last 1,000 rows"] for point in drawn_points]
    assert [point["paired_overall"] for point in metrics["history"]] == [point["All rows"] for point in drawn_points]
    await tab(page, "Quality")
    await expect(page.get_by_text("Mean squared error, rows of last value")).to_be_visible()


async def test_a_model_without_features_takes_its_first_row(look, api):
    """It accepts JSON with a new label; then there are controls for its features."""
    api.put("/models/seen-first", json={"task": "classification", "algorithm": "dfop"}).raise_for_status()
    page = await look("seen-first")
    await page.get_by_label("The row's features, as JSON").fill('{"age": 41, "plan": "gold"}')
    await page.get_by_label("Another label").fill("stays")
    await page.get_by_role("button", name="Teach").click()
    said = "Learned, as row 1. No label was known before it. “stays” is a new class of this model."
    await expect(page.get_by_text(said)).to_be_visible()
    await expect(page.get_by_label("age", exact=True)).to_have_count(1)


async def test_integers_that_a_browser_rounds_are_not_offered(visits, api):
    """Labels and categories from 2^53 on: there is no button for them, and what is typed is not sent as another one."""
    large = 2**53 + 1
    features = [{"name": "shop", "categories": [1, large]}]
    rows = {"columns": ["shop"], "data": [[1], [large]], "labels": [7, large]}
    streams.taught(api, "page-integers", {"task": "classification", "algorithm": "dfop", "features": features}, rows)
    page = await drawn(visits, "page-integers", statuses=[422])
    await expect(page.get_by_label("shop", exact=True).get_by_role("option")).to_have_text(["1"])
    await expect(page.locator("#hand .label-button")).to_have_text(["7"])
    await expect(page.locator("#hand").get_by_text("Browsers round integers from 2^53 on")).to_have_count(2)
    await page.get_by_label("Another label").fill(str(large))
    await page.get_by_role("button", name="Teach", exact=True).click()
    await expect(page.locator("[data-path=label] .error")).to_contain_text(f"looks in answers like the integer {large}")
    assert [7, large] == api.get("/models/page-integers").json()["info"]["labels"]


async def test_a_wide_model_offers_a_typical_row(visits, api):
    """With too many features for controls the JSON has the mean of each; a refusal does not list all their names."""
    names = [f"f{at}" for at in range(50)]
    data = [[1000.0 * row + at for at in range(50)] for row in range(3)]
    rows = {"columns": names, "data": data, "labels": [1.0, 2.0, 3.0]}
    streams.taught(api, "page-wide", {"task": "regression", "algorithm": "rls", "features": names}, rows)
    page = await drawn(visits, "page-wide", statuses=[422])
    area = page.get_by_label("The row's features, as JSON")
    await expect(area).to_have_value(json.dumps({name: 1000 + at for at, name in enumerate(names)}, indent=1))
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator(".prediction-value")).to_be_visible()
    await area.fill("{}")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator("#hand .error").first).to_contain_text("allowed: f0, f1")
    await expect(page.locator("#hand .error").first).to_contain_text("f19 and 30 more")


async def test_a_row_as_json_is_refused_and_kept_where_it_is_entered(look):
    """What is wrong is said below the JSON, not at the hidden form; a look at the form does not undo what was typed."""
    page = await look("numbers", statuses=[422])
    how = page.get_by_role("group", name="How the row is entered")
    await how.get_by_role("button", name="JSON").click()
    area = page.get_by_label("The row's features, as JSON")
    typed = '{"size": "x", "day": "mon", "open": false}'
    await area.fill(typed)
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator("#hand .error:visible")).to_contain_text("features.size: is not a number")
    await how.get_by_role("button", name="Form").click()
    await how.get_by_role("button", name="JSON").click()
    await expect(area).to_have_value(typed)
    await how.get_by_role("button", name="Form").click()
    await page.get_by_label("size", exact=True).fill("2.5")
    await how.get_by_role("button", name="JSON").click()
    assert 2.5 == json.loads(await area.input_value())["size"]


async def test_an_observer_is_compared_with_simple_rules_and_offers_no_prediction(visits, api):
    """Its score is that of the model outside, no baseline of itself; it has no weights and takes no challengers."""
    body = {"task": "classification", "algorithm": "observer", "features": ["a"], "labels": ["yes", "no"]}
    labels = ["yes", "no", "no"] * 20
    rows = {"columns": ["a"], "data": [[1.0]] * 60, "labels": labels, "served": [*labels[:-1], "yes"]}
    streams.taught(api, "page-observer", body, rows)
    page = await drawn(visits, "page-observer", statuses=[409])
    await expect(page.locator("#score .badge.good")).to_contain_text("less error than majority class")
    await expect(page.locator("#hand")).to_contain_text("An observer predicts and learns nothing")
    await expect(page.get_by_role("button", name="Predict", exact=True)).to_have_count(0)
    await page.get_by_text("Which features matter").click()
    await expect(page.get_by_text("an observer predicts nothing: there are no effects", exact=True)).to_be_visible()
    await tab(page, "Challengers")
    await expect(page.get_by_text("There are no challengers.")).to_be_visible()
    await expect(page.get_by_text("Add a challenger")).to_be_hidden()


async def test_parts_of_a_learner_are_named_by_their_labels(visits, api):
    """Gaussians are named by their classes; without a moved feature there is no column of moves."""
    body = {"task": "classification", "algorithm": "vigo", "features": ["a"], "labels": ["low", "high"]}
    rows = {"columns": ["a"], "data": [[-1.0], [-2.0], [3.0]], "labels": ["low", "low", "high"]}
    streams.taught(api, "page-parts", body, rows)
    page = await drawn(visits, "page-parts")
    heads = page.get_by_role("table", name="Features in use").get_by_role("columnheader")
    await expect(heads).to_have_text(["Feature", "Kind"])
    await tab(page, "Quality")
    facts = page.locator("#learner .stats > div")
    await expect(facts).to_have_text(["Gaussian of low, rows2", "Gaussian of high, rows1"])


async def test_the_score_fits_a_tablet(visits, shown):
    """Its figures and the tools of its chart wrap within the card; the names of models in the list are not broken."""
    page = await drawn(visits, shown["numbers"], viewport={"width": 768, "height": 900})
    overflow = await page.locator("#score .score-now").evaluate("(own) => own.scrollWidth - own.clientWidth")
    assert 0 >= overflow
    title, tools = page.locator("#score .chart-title"), page.locator("#score .chart-tools")
    for width in (768, 640):
        await page.set_viewport_size({"width": width, "height": 900})
        above, below = await title.bounding_box(), await tools.bounding_box()
        assert above["y"] + above["height"] <= below["y"]
    page = await visits.open(f"/?search={shown['classes']}", viewport={"width": 768, "height": 900})
    name = page.get_by_role("rowheader").get_by_role("link")
    assert 25 > (await name.bounding_box())["height"]


async def test_a_printed_page_has_the_score_without_its_controls(look):
    """The head, the score and its chart are printed; what is there to be pressed or filled in is not."""
    page = await look("numbers")
    await page.emulate_media(media="print")
    await expect(page.locator("#score-value")).to_be_visible()
    for part in ("header.bar", "#hand", "#score .chart-actions"):
        await expect(page.locator(part)).to_be_hidden()


async def test_a_drift_before_the_labels_shows_in_the_head(visits, api):
    """A drift of unlabelled rows counts as one of the last rows, as it has no mark of the labelled ones."""
    body = {"task": "classification", "algorithm": "dfop", "features": ["a"], "labels": ["up", "down"]}
    values = [(7 * at % 11) / 11 for at in range(500)]
    labels = ["up" if one > 0.5 else "down" for one in values]
    rows = {"columns": ["a"], "data": [[one] for one in values], "labels": labels}
    streams.taught(api, "page-early", {**body, "watch": {"class_mean": {}, "unlabelled": True}}, rows)
    page = await drawn(visits, "page-early")
    await expect(page.locator("#model-status .light")).to_have_text("Good")
    for shift in (0, 0, 0, 5, 5):
        data = [[one + shift] for one in values]
        asked = {"columns": ["a"], "data": data, "track": True}
        api.post("/models/page-early/predict/batch", json=asked).raise_for_status()
    await expect(page.locator("#model-status .light")).to_have_text("Drift")
    await tab(page, "Drift")
    await expect(page.locator("#drift")).to_contain_text("The mean of a of unlabelled rows moved")


async def test_a_drift_that_only_a_challenger_finds_shows_in_the_head_as_in_the_list(visits, api):
    """The status of the page is that of the list: both go by the newest event, whoever has found it."""
    values = [(7 * at % 11) / 11 for at in range(500)]
    labels = ["up" if one > 0.5 else "down" for one in values]
    body = {"task": "classification", "algorithm": "dfop", "features": ["a"], "labels": ["up", "down"], "watch": None}
    api.put("/models/page-contested", json=body).raise_for_status()
    api.put("/models/page-contested/challengers/own", json={"algorithm": "rls", "watch": {"class_mean": {}}})
    for shift in (0, 0, 0.4):
        rows = {"columns": ["a"], "data": [[one + shift] for one in values], "labels": labels}
        api.post("/models/page-contested/feedback/batch", json=rows).raise_for_status()
    page = await drawn(visits, "page-contested")
    await expect(page.locator("#model-status .light")).to_have_text("Drift")
    page = await visits.open("/?search=page-contested")
    await expect(page.locator("tbody .light")).to_have_text("Drift")


async def test_a_drift_before_a_reset_or_a_restore_is_none_of_the_rows_since(visits, api):
    """The status of the page and of the list is that of the present rows, once they reach the number of the drift."""
    body = {"task": "classification", "algorithm": "dfop", "features": ["a"], "labels": ["up", "down"]}
    api.put("/models/page-anew", json=body).raise_for_status()
    values = [(7 * at % 11) / 11 for at in range(500)]
    labels = ["up" if one > 0.5 else "down" for one in values]

    def teach(*shifts):
        for shift in shifts:
            rows = {"columns": ["a"], "data": [[one + shift] for one in values], "labels": labels}
            api.post("/models/page-anew/feedback/batch", json=rows).raise_for_status()

    async def status(word):
        page = await drawn(visits, "page-anew")
        await expect(page.locator("#model-status .light")).to_have_text(word)
        page = await visits.open("/?search=page-anew")
        await expect(page.locator("tbody .light")).to_have_text(word)

    teach(0, 0)
    version = api.post("/models/page-anew/snapshots").raise_for_status().json()["version"]
    teach(5)
    await status("Drift")
    api.post("/models/page-anew/restore", json={"version": version}).raise_for_status()
    teach(0)
    await status("Good")
    api.post("/models/page-anew/reset").raise_for_status()
    teach(0, 0, 0)
    await status("Good")
    teach(5)
    await status("Drift")


async def test_a_missing_or_deleted_model_is_reported(look, visits, api):
    """The page of a model that never existed is empty; that of a deleted one keeps its last contents."""
    page = await visits.open("/ui/models/nobody", statuses=[404])
    await expect(page.get_by_text("There is no model nobody.")).to_be_visible()
    await expect(page.locator("#live")).to_be_hidden()
    await expect(page.locator("#parts")).to_be_hidden()
    streams.numbers(api, "seen-going")
    page = await look("seen-going", statuses=[404])
    api.delete("/models/seen-going").raise_for_status()
    await expect(page.get_by_text("Model seen-going was deleted.")).to_be_visible()
    await expect(page.locator("#model-rows")).to_have_text("250")


async def test_a_page_follows_the_rights_of_its_key(visits, locked_url, locked_api, secrets):
    """A read-only key gets no buttons that change anything; a key for other models gets a message."""
    streams.numbers(locked_api, "seen-locked")
    page = await visits.open("/ui/models/seen-locked", url=locked_url, key=secrets["read"])
    await expect(page.get_by_text("Teaching needs a key with the scope learn.")).to_be_visible()
    await expect(page.get_by_role("button", name="Predict", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Teach", exact=True)).to_be_hidden()
    await tab(page, "Settings")
    await expect(page.get_by_role("button", name="Take a snapshot")).to_be_hidden()
    await expect(page.get_by_text("Change settings")).to_be_hidden()
    await tab(page, "Challengers")
    await expect(page.get_by_text("Add a challenger")).to_be_hidden()
    page = await visits.open("/ui/models/seen-locked", url=locked_url, key=secrets["some"], statuses=[403])
    await expect(page.get_by_text("Your key does not cover model seen-locked")).to_be_visible()


async def test_a_model_out_of_service_is_reported_until_it_is_back(seen):
    """The page shows the reason while it retries by itself, and removes it once the model is back."""
    page = await seen("classes")
    answer = refusal("model-down", "out of service")
    await page.route("**/models/seen-classes", lambda route: refused(route, answer))
    await page.reload()
    await expect(page.get_by_text("out of service. The page will try again.")).to_be_visible()
    await expect(page.locator("#live")).to_have_attribute("data-state", "reconnecting")
    await page.unroute("**/models/seen-classes")
    await expect(page.locator(LIVE)).to_be_visible()
    await expect(page.locator("#banner")).to_be_hidden()


async def test_a_new_model_with_the_same_name_gets_a_new_page(seen):
    """A page of one incarnation reloads when the service reports another."""
    page = await seen("numbers")
    told = {"incarnation": "another", "snapshots": []}
    async with page.expect_event("load"):
        await page.route("**/snapshots", lambda route: route.fulfill(json=told))
    await page.unroute("**/snapshots")
    await expect(page.locator("#model-rows")).not_to_be_empty()
