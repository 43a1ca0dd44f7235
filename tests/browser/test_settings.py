"""The forms of the settings and of a new challenger: what they offer, and what they send."""

import json

import pytest
from playwright.async_api import expect

from tests.browser.model_pages import drawn, tab

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CLASSES = {"task": "classification", "algorithm": "dfop", "features": ["a"]}


async def settings(visits, api, name, **config):
    """The page of a new model, its settings unfolded."""
    api.put(f"/models/{name}", json={**CLASSES, **config}).raise_for_status()
    page = await drawn(visits, name)
    await tab(page, "Settings")
    await page.get_by_text("Change settings").click()
    return page


async def change(page):
    """Press the button; returns what is sent."""
    async with page.expect_request(lambda sent: sent.method == "PATCH") as sent:
        await page.get_by_role("button", name="Change", exact=True).click()
    return json.loads((await sent.value).post_data)


async def test_no_cost_is_lost_when_another_one_changes(visits, api):
    """Costs of labels that no row has had yet, or beyond the labels offered, are in the form and stay."""
    unseen = await settings(visits, api, "set-unseen", class_costs={"fraud": 10})
    await unseen.get_by_label("fraud", exact=True).fill("11")
    assert {"class_costs": {"fraud": 11}} == await change(unseen)
    labels = [f"k{at:02}" for at in range(60)]
    many = await settings(visits, api, "set-many", labels=labels, class_costs={"k01": 2, "k55": 50})
    await expect(many.locator("[data-path^='class_costs.']")).to_have_count(50)
    await many.get_by_label("k02", exact=True).fill("3")
    assert {"class_costs": {"k01": 2, "k55": 50, "k02": 3}} == await change(many)
    costs = dict.fromkeys(labels[5:], 4)
    dear = await settings(visits, api, "set-dear", labels=labels, class_costs=costs)
    await dear.get_by_label("k59", exact=True).fill("5")
    assert {"class_costs": costs | {"k59": 5}} == await change(dear)


async def test_names_of_a_list_stay_as_they_are_when_another_one_is_added(visits, api):
    """Spaces around a new name are left out; those of a name that is ignored already are part of it."""
    page = await settings(visits, api, "set-ignored", ignore=["id", " pad"])
    await page.get_by_label("Ignore").fill("id\n pad\n row ")
    assert {"ignore": ["id", " pad", "row"]} == await change(page)


async def test_the_label_of_overdue_rows_is_a_setting(visits, api):
    """It is shown as it is, and sent as a label or, where the field is left empty, as the word drop."""
    labels_due = {"after_s": 60, "then": {"label": True}}
    page = await settings(visits, api, "set-due", labels=[True, False], labels_due=labels_due)
    then = page.locator("[data-path='labels_due.then']").get_by_role("textbox")
    await expect(then).to_have_value("true")
    for entered, sent in (("false", {"label": False}), ("", "drop")):
        await then.fill(entered)
        await change(page)
        await expect(page.get_by_text("Changed: labels_due.")).to_be_visible()
        assert {"after_s": 60, "then": sent} == api.get("/models/set-due").json()["config"]["labels_due"]
        await expect(then).to_have_value(entered)


async def test_labels_are_added_where_they_are_declared(visits, api):
    """Without declared labels every row may bring one, and the service refuses to add any."""
    page = await settings(visits, api, "set-open")
    await expect(page.get_by_label("Retire labels")).to_be_visible()
    await expect(page.get_by_label("Add labels")).to_have_count(0)
    page = await settings(visits, api, "set-declared", labels=["ok", "late"])
    await page.get_by_label("Add labels").fill("lost")
    assert {"add_labels": ["lost"]} == await change(page)


async def test_each_choice_is_a_value(visits, api):
    """There is none without a name; the present one, or else the default, is chosen."""
    page = await settings(visits, api, "set-choices", on_drift="reset")
    on_drift = page.get_by_label("On drift")
    await expect(on_drift.get_by_role("option")).to_have_text(["report", "reset", "forget"])
    await expect(on_drift.locator("option:checked")).to_have_text("reset")
    await tab(page, "Challengers")
    await page.get_by_text("Add a challenger").click()
    for name, default, choices in (("Size", "medium", 3), ("Promote", "never", 2)):
        await expect(page.get_by_label(name).get_by_role("option")).to_have_count(choices)
        await expect(page.get_by_label(name).locator("option:checked")).to_have_text(default)
    assert "" not in await page.get_by_label("Algorithm").get_by_role("option").all_text_contents()


async def test_challengers_are_read_again_after_new_costs(visits, api):
    """Costs restart their comparison; the page shows that although it knows of the change already."""
    api.put("/models/set-costly", json=CLASSES | {"labels": ["ok", "late"]}).raise_for_status()
    api.put("/models/set-costly/challengers/other", json={"algorithm": "vigo"}).raise_for_status()
    rows = {"columns": ["a"], "data": [[at % 7] for at in range(60)], "labels": ["ok", "late", "ok"] * 20}
    api.post("/models/set-costly/feedback/batch", json=rows).raise_for_status()
    page = await drawn(visits, "set-costly")
    difference = page.locator("tr[data-challenger=other] .num").last
    await tab(page, "Challengers")
    await expect(difference).to_contain_text(" to ")
    await tab(page, "Settings")
    await page.get_by_text("Change settings").click()
    await page.get_by_label("Class costs").check()
    await page.get_by_label("late", exact=True).fill("20")
    await change(page)
    await tab(page, "Challengers")
    await expect(difference).to_contain_text("0 rows")
