"""The page of a model: its contents, its controls, and its messages when something is missing."""

import json

import pytest
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.model_pages import downloaded, drawn, tab

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


PARTS = {
    "Overview": None,
    "Quality": None,
    "Drift": None,
    "Challengers": "Add a challenger",
    "Settings": "Change settings",
}
"""The tabs, and what to unfold in each."""


async def test_a_classification_is_shown_with_its_baselines(seen, api, shown):
    """Score, classes and confusion equal the API's; the chart has a description in words."""
    metrics = api.get(f"/models/{shown['classes']}/metrics").json()
    page = await seen("classes")
    await expect(page.locator("h1")).to_have_text(shown["classes"])
    await expect(page.locator("#score-value")).to_have_text(f"{metrics['window']['accuracy']:.3f}")
    bars = page.get_by_role("list", name="Accuracy beside baselines").get_by_role("listitem")
    assert ["This model", "No change", "Majority class"] == [
        (await bar.inner_text()).split("\n")[0] for bar in await bars.all()
    ]
    await expect(page.get_by_role("img", name="Score over rows, row ")).to_be_visible()
    await tab(page, "Quality")
    classes = page.get_by_role("table", name="Scores by class").get_by_role("rowheader")
    assert [*metrics["window"]["per_class"]] == await classes.all_inner_texts()
    counts = page.locator(".heat-count")
    assert [str(n) for row in metrics["window"]["confusion"]["counts"] for n in row] == await counts.all_inner_texts()
    await expect(page.get_by_role("img", name="Reliability: ")).to_be_visible()
    await tab(page, "Overview")


@pytest.mark.slow
async def test_the_status_is_that_of_the_last_rows(visits, api):
    """A model that is wrong in its whole window is poor, on its page and in the list, however well it began."""
    body = {"task": "classification", "algorithm": "observer", "features": ["a"], "labels": ["up", "down"]}
    api.put("/models/page-ruined", json={**body, "watch": None}).raise_for_status()
    for rows, served in ((3000, ["up", "down"]), (1000, ["down", "up"])):
        labels = ["up", "down"] * (rows // 2)
        batch = {"columns": ["a"], "data": [[0]] * rows, "labels": labels, "served": served * (rows // 2)}
        api.post("/models/page-ruined/feedback/batch", json=batch).raise_for_status()
    page = await drawn(visits, "page-ruined")
    await expect(page.locator("#model-status .light")).to_have_text("Poor")
    page = await visits.open("/?search=page-ruined")
    await expect(page.locator("tbody .light")).to_have_text("Poor")
    await expect(page.locator("tbody tr")).to_contain_text("baseline 0.500 over the last rows")


@pytest.mark.slow
async def test_long_names_of_classes_leave_room_for_the_confusion(visits, api):
    """They are cut, whole as titles; the matrix stays narrower than its card."""
    names = ["a class with a name that goes on and on " * 4, "another one, which is no shorter at all " * 4]
    rows = {"columns": ["a"], "data": [[0], [1]], "labels": names}
    streams.taught(api, "page-wordy", {"task": "classification", "algorithm": "rls", "features": ["a"]}, rows)
    page = await drawn(visits, "page-wordy", viewport={"width": 1280, "height": 900})
    await tab(page, "Quality")
    table = page.locator("table.confusion")
    await expect(table.locator("thead [title]").nth(1)).to_have_attribute("title", names[0])
    assert (await table.bounding_box())["width"] < 600


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "numbers", "classes on a phone, dark"])
async def test_a_model_page_is_accessible_and_fits_a_phone(look, axe, kind):
    """No serious finding and nothing wider than the screen, with everything unfolded: tables, events, forms."""
    name, *phone = kind.split(" ", 1)
    page = await look(name, dark=bool(phone), phone=bool(phone))  # a separate page, because nothing is folded again
    await page.get_by_role("button", name="Table").first.click()
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator(".prediction-value")).to_be_visible()
    if name == "classes":
        await page.get_by_role("button", name="drift, row").first.click()
    for part, unfolded in PARTS.items():
        await tab(page, part)
        if unfolded:
            await page.get_by_text(unfolded).click()
        await axe(page)
        assert page.viewport_size["width"] >= await page.evaluate("document.documentElement.scrollWidth")
    await tab(page, "Overview")


async def test_a_challenger_is_added_promoted_and_removed(look, api):
    """Each action has a button and asks first if it cannot be undone; the interval of the difference is drawn."""
    streams.classes(api, "seen-contest")
    page = await look("seen-contest", statuses=[409])
    await tab(page, "Challengers")
    await expect(page.locator("#challengers .interval[role=img]")).to_have_count(1)
    await expect(page.locator("#challengers")).to_contain_text("a young challenger’s since it was added")
    await page.get_by_text("Add a challenger").click()
    await page.get_by_label("Name", exact=True).fill("candidate")
    await page.get_by_role("button", name="Add challenger").click()
    await expect(page.locator("[data-path=name] .error")).to_contain_text("candidate exists with another configuration")
    await page.get_by_label("Name", exact=True).fill("second")
    await expect(page.get_by_label("Algorithm").get_by_role("option", name="observer")).to_have_count(0)
    await page.get_by_label("Algorithm").select_option("rls")
    await expect(page.locator("[data-path=name] .error")).not_to_be_empty()  # it stays beside the name it is about
    await page.get_by_role("button", name="Add challenger").click()
    await expect(page.locator("tr[data-challenger=second]")).to_contain_text("rls")
    await page.get_by_role("button", name="Promote second").click()
    await expect(page.locator("dialog[open]")).to_contain_text("Learned by the model1,750 rows")
    await expect(page.locator("dialog[open]")).to_contain_text("second is not proven to be better")
    await page.get_by_role("button", name="Cancel").last.click()
    (candidate, _) = api.get("/models/seen-contest/challengers").json()["challengers"]
    await page.get_by_role("button", name="Promote candidate").click()
    await expect(page.locator("dialog[open]")).to_contain_text(f"Compared{candidate['difference']['rows']:,} rows")
    await expect(page.locator("dialog[open] .interval[role=img]")).to_be_visible()
    async with page.expect_request("**/candidate/promote") as sent:
        await page.get_by_role("button", name="Promote anyway").click()
    assert {"force": True} == (await sent.value).post_data_json
    await expect(page.locator("#model-badges")).to_contain_text("vigo")
    await expect(page.locator("tr[data-challenger=previous]")).to_contain_text("dfop")
    await tab(page, "Overview")
    await expect(page.get_by_role("button", name="promotion: candidate")).to_be_visible()
    await tab(page, "Challengers")
    await page.get_by_role("button", name="Delete challenger second").click()
    await page.get_by_role("button", name="Cancel").last.click()
    await page.get_by_role("button", name="Delete challenger second").click()
    await page.locator("dialog [data-confirm]").click()
    await expect(page.locator("tr[data-challenger=second]")).to_have_count(0)
    names = [own["name"] for own in api.get("/models/seen-contest/challengers").json()["challengers"]]
    assert ["previous"] == names


async def test_only_changed_settings_are_sent(seen, api, shown):
    """The message about a refused value is at its field, and nothing changes; then only the changed field is sent."""
    page = await seen("numbers")
    await tab(page, "Settings")
    await page.locator("#configuration details").first.evaluate("own => { own.open = true; }")
    delta = page.locator("[data-path='watch.error_rate.delta']")
    await delta.get_by_role("spinbutton").fill("7")
    await page.get_by_role("button", name="Change", exact=True).click()
    await expect(delta.get_by_text("is out of range; allowed: > 0 and < 1")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_label("Description").fill("Of the north wing")
    async with page.expect_request(lambda sent: sent.method == "PATCH") as sent:
        await page.get_by_role("button", name="Change", exact=True).click()
    assert {"description": "Of the north wing"} == json.loads((await sent.value).post_data)
    await expect(page.locator("#model-description")).to_have_text("Of the north wing")
    assert "Of the north wing" == api.get(f"/models/{shown['numbers']}").json()["config"]["description"]
    await tab(page, "Overview")


async def test_a_row_is_predicted_then_taught(seen, api, shown):
    """Problems of the row are shown at its fields; a tracked prediction is taught by its id."""
    page = await seen("classes")
    price = page.get_by_label("price", exact=True)
    await price.fill("")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator("[data-path='features.price'] .error")).to_have_text("Enter a number")
    await price.fill("0.3")
    await page.get_by_label("Keep it until its label arrives").check()
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.get_by_role("list", name="Probabilities").get_by_role("listitem")).to_have_count(2)
    await expect(page.locator("#hand-inside")).to_contain_text("Waiting for its label as")
    assert 1 == len(api.get(f"/models/{shown['classes']}/pending").json()["pending"])
    await page.get_by_role("button", name="Teach: UP").click()
    await expect(page.get_by_text("Learned, as row 1,751.")).to_be_visible()
    assert [] == api.get(f"/models/{shown['classes']}/pending").json()["pending"]
    await tab(page, "Settings")
    await expect(page.locator("#log").get_by_role("row").nth(1)).to_contain_text("rows")
    await tab(page, "Overview")


async def test_a_watch_that_is_switched_on_again_has_its_tests(look, api):
    """They are on where it was off, so that what is sent switches it on; a test that was off alone stays off."""
    body = {"task": "regression", "algorithm": "dfop", "features": ["a"], "watch": None}
    api.put("/models/seen-watched", json=body).raise_for_status()
    page = await look("seen-watched")
    await tab(page, "Settings")
    await page.get_by_text("Change settings").click()
    for switched, expected in (("Watch", {"class_mean", "error_rate"}), ("Class mean", {"error_rate"})):
        await page.get_by_label(switched, exact=True).click()
        await page.get_by_role("button", name="Change", exact=True).click()
        await expect(page.get_by_text("Changed: watch.")).to_be_visible()
        assert expected == set(api.get("/models/seen-watched").json()["config"]["watch"])
        await expect(page.get_by_label("Class mean", exact=True)).to_be_checked(checked="class_mean" in expected)


async def test_a_retired_label_is_no_true_label(look, api):
    """Where labels are declared it is refused."""
    body = {"task": "classification", "algorithm": "dfop", "features": ["a"], "labels": ["x", "y", "z"]}
    rows = {"columns": ["a"], "data": [[1.0], [2.0], [3.0]], "labels": ["x", "y", "z"]}
    streams.taught(api, "seen-retired", body, rows)
    api.patch("/models/seen-retired", json={"retire_labels": ["z"]}).raise_for_status()
    page = await look("seen-retired")
    await expect(page.locator("#hand .label-button")).to_have_text(["x", "y"])


async def test_an_empty_label_is_seen(look, api):
    """On its button, in the probabilities and as a row and a column of the tables."""
    body = {"task": "classification", "algorithm": "dfop", "features": ["a"], "labels": ["", "x"]}
    streams.taught(api, "seen-empty", body, {"columns": ["a"], "data": [[-1.0], [2.0]] * 9, "labels": ["", "x"] * 9})
    page = await look("seen-empty")
    await page.get_by_label("a", exact=True).fill("-1")
    await page.get_by_role("button", name="Teach: (empty)").click()
    await expect(page.get_by_text("Learned, as row 19.")).to_be_visible()
    await expect(page.locator(".prediction-value")).to_have_text("(empty)")
    await expect(page.get_by_role("list", name="Probabilities").get_by_text("(empty)")).to_be_visible()
    await tab(page, "Quality")
    await expect(page.get_by_role("table", name="Scores by class").get_by_role("rowheader")).to_have_text(
        ["(empty)", "x"]
    )
    heads = page.get_by_role("table", name="Rows by label").locator("thead th")
    await expect(heads).to_contain_text(["prediction", "(empty)", "x"])


async def test_names_labels_and_texts_are_never_markup(look):
    """They appear exactly as sent, in tables, controls and downloads, and none of them runs."""
    page = await look("hostile", phone=True)
    assert 360 >= await page.evaluate("document.documentElement.scrollWidth")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator(".prediction-value")).to_be_visible()
    await expect(page.locator("#model-description")).to_have_text(streams.HOSTILE)
    await expect(page.get_by_label(streams.QUOTED, exact=True)).to_be_visible()
    await tab(page, "Quality")
    await expect(page.get_by_role("table", name="Scores by class").get_by_text(streams.HOSTILE)).to_be_visible()
    assert 0 == await page.locator("main img, main b, main script").count()
    assert None is await page.evaluate("window.hit")
    assert "'=1+1," in await downloaded(page, "Classes: numbers as CSV")


async def test_controls_in_use_survive_a_redraw(look, api):
    """A focused button, an opened event and the scroll position of a wide table survive new data."""
    streams.classes(api, "seen-steady")
    page = await look("seen-steady", viewport={"width": 280, "height": 740})
    await tab(page, "Drift")
    await page.locator("#drift summary").first.click()
    await tab(page, "Challengers")
    await page.locator("#challengers .scroll").evaluate("own => { own.scrollLeft = 60; }")
    promote = page.get_by_role("button", name="Promote candidate")
    await promote.focus(timeout=5000)
    place = await page.locator("#challengers .scroll").evaluate("own => own.scrollLeft")
    streams.teach(api, "seen-steady", 50, turned=True)
    await expect(page.locator("#challengers tbody tr").first).to_contain_text("2,000")
    await expect(promote).to_be_focused()
    await expect(page.locator("#drift details").first).to_have_attribute("open", "")
    assert place == await page.locator("#challengers .scroll").evaluate("own => own.scrollLeft") > 0


async def test_each_tab_has_an_address(visits, shown):
    """Arrow keys and clicks change tab and fragment; a fragment opens its tab or the tab that contains the part."""
    page = await visits.open(f"/ui/models/{shown['classes']}#log")
    await expect(page.get_by_role("tab", selected=True)).to_have_text("Settings")
    await page.get_by_role("tab", name="Settings").press("ArrowRight")
    await expect(page.get_by_role("tab", name="Overview")).to_be_focused()
    assert page.url.endswith(shown["classes"])
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("tabpanel", name="Quality")).to_be_visible()
    assert page.url.endswith("#quality")
    await expect(page.get_by_role("tabpanel")).to_have_count(1)
    await page.evaluate("location.hash = 'drift'")
    await expect(page.get_by_role("tabpanel", name="Drift")).to_be_visible()
    page = await visits.open(f"/ui/models/{shown['classes']}#50%")  # names no part, and is not a percent-encoding
    await expect(page.get_by_role("tab", selected=True)).to_have_text("Overview")
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")


async def test_a_term_is_explained_in_place(seen):
    """It also works by keyboard; Escape closes the bubble and returns the focus."""
    page = await seen("classes")
    await page.get_by_role("button", name="What is Kappa?").press("Enter")
    await expect(page.get_by_role("note")).to_contain_text("0 is chance, 1 is perfect")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("note")).to_be_hidden()
    await expect(page.get_by_role("button", name="What is Kappa?")).to_be_focused()


async def test_the_first_click_on_predict_works(look, api):
    """The row of a model without rows is filled in for each type of feature."""
    kinds = ["number", {"name": "text", "type": "categorical"}, {"name": "at", "type": "time"}]
    api.put("/models/seen-form", json={"task": "regression", "features": kinds}).raise_for_status()
    page = await look("seen-form")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator(".prediction-value")).to_be_visible()


async def test_a_value_that_is_no_number_or_time_is_neither_predicted_nor_taught(look, api):
    """To scripts, such a field is empty: what is wrong is said there, unless the row is entered as JSON."""
    body = {"task": "classification", "algorithm": "dfop", "labels": ["yes", "no"], "missing": "mean"}
    body["features"] = ["a", {"name": "t", "type": "time"}]
    api.put("/models/seen-unreadable", json=body).raise_for_status()
    page = await look("seen-unreadable", statuses=[422])
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    number = page.get_by_label("a", exact=True)
    await number.press_sequentially("1-2e")
    for name in ("Predict", "Teach: yes"):
        await page.get_by_role("button", name=name, exact=True).click()
        await expect(number).to_be_focused()
        await expect(page.locator("[data-path='features.a'] .error")).to_have_text("Enter a number")
    assert [] == sent
    await page.get_by_role("button", name="JSON", exact=True).click()
    await page.get_by_role("button", name="Teach: yes").click()
    await expect(page.get_by_text("Learned, as row 1.")).to_be_visible()
    await page.get_by_role("button", name="Form", exact=True).click()
    await number.fill("1")
    await page.get_by_label("t", exact=True).fill("12024-01-01T00:00:00")
    await page.get_by_role("button", name="Teach: no").click()
    await expect(page.locator("[data-path='features.t'] .error")).to_contain_text("is not a time")
    assert 1 == api.get("/models/seen-unreadable").json()["rows"]


async def test_a_new_classification_by_auto_predicts_that_no_label_is_known_yet(look, api):
    """So do its experts, which have no probabilities before the first label."""
    api.put("/models/seen-blank", json={"task": "classification", "features": ["a"]}).raise_for_status()
    page = await look("seen-blank")
    await page.get_by_role("button", name="Predict", exact=True).click()
    await expect(page.locator(".prediction-value")).to_have_text("no label is known yet")
    experts = page.locator(".prediction .bars-value", has_text="no label is known yet")
    await expect(experts.first).to_be_attached()


async def test_what_nobody_entered_teaches_no_mapping(visits, api):
    """While features change, the new ones are empty: a row goes with the old ones. Afterwards, the status is usual."""
    api.put("/models/page-changing", json={"task": "regression", "algorithm": "dfop", "features": ["a"]})
    rows = [[at % 7] for at in range(100)]
    batch = {"columns": ["a"], "data": rows, "labels": [2 * row[0] for row in rows]}
    api.post("/models/page-changing/feedback/batch", json=batch).raise_for_status()
    begin = {"action": "begin", "features": ["a", "f", {"name": "plan", "categories": ["gold", "tin"]}]}
    api.post("/models/page-changing/features/switch", json=begin).raise_for_status()
    page = await drawn(visits, "page-changing")
    await expect(page.locator("#model-status .light")).to_have_text("Changing")
    await expect(page.get_by_label("f", exact=True)).to_have_value("")
    await page.get_by_label("True label").fill("3")
    await page.get_by_role("button", name="Teach").click()
    await expect(page.get_by_text("Learned with the old features only, as row 101")).to_be_visible()
    api.post("/models/page-changing/features/switch", json={"action": "complete", "force": True}).raise_for_status()
    await expect(page.locator("#model-status .light")).not_to_have_text("Changing")
    await expect(page.get_by_text("New features, for learning")).to_have_count(0)
