"""Tasks of a person without a terminal: create a model from a file, see what matters, export, reset and delete it."""

import re

import pytest
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.model_pages import tab

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ROWS = [(at % 10, at % 3, "leaves" if at % 10 > 5 else "stays") for at in range(120)]


async def test_a_model_is_created_from_a_file(visits, api, axe, tmp_path):
    """Name, task and a file with semicolons; if the name is taken by a different model, the dialog says so."""
    file = tmp_path / "churn.csv"
    file.write_text("calls;visits;label\n" + "".join(f"{a};{b};{label}\n" for a, b, label in ROWS))
    api.put("/models/care-taken", json={"task": "regression"}).raise_for_status()
    page = await visits.open("", statuses=(409,))
    await page.get_by_role("button", name="New model").first.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Label column")).to_be_hidden()
    await expect(dialog).to_contain_text("decimal points")
    await axe(page)
    await dialog.get_by_label("Name", exact=True).fill("care-taken")
    await dialog.get_by_role("button", name="Create").click()
    name = dialog.locator("[data-path=name]")
    await expect(name).to_contain_text("exists with another configuration")
    await dialog.get_by_label("Name", exact=True).fill("care-churn")
    await dialog.get_by_label("Labels", exact=True).fill("stays\nleaves")
    await dialog.get_by_label("Learn a file first").set_input_files(file)
    await expect(dialog.get_by_label("Label column")).to_have_value("label")
    await dialog.get_by_role("button", name="Create").click()
    await page.wait_for_url("**/ui/models/care-churn")
    await expect(page.locator("#model-rows")).to_have_text("120")
    found = api.get("/models/care-churn").json()
    assert (["stays", "leaves"], 120) == (found["config"]["labels"], found["rows"])
    assert ["calls", "visits"] == [one if isinstance(one, str) else one["name"] for one in found["info"]["features"]]


async def test_a_file_is_never_taught_to_a_model_that_has_rows(visits, api, tmp_path):
    """A copy is at version 0, an imported model at its first version: both are no new models."""
    file = tmp_path / "more.csv"
    file.write_text("calls,visits,label\n1,2,leaves\n")
    body = {"columns": ["calls", "visits"], "data": [row[:2] for row in ROWS], "labels": [row[2] for row in ROWS]}
    streams.taught(api, "care-first", {"task": "classification"}, body)
    api.post("/models/care-first/copy", json={"name": "care-copy"}).raise_for_status()
    state, how = api.get("/models/care-first/state").content, {"Content-Type": "application/octet-stream"}
    api.put("/models/care-imported/state", content=state, headers=how).raise_for_status()
    page = await visits.open("")
    await page.get_by_role("button", name="New model").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Learn a file first").set_input_files(file)
    for name in ("care-copy", "care-imported"):
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog).to_contain_text(f"{name} exists already. Choose another name.")
        assert 120 == api.get(f"/models/{name}").json()["rows"]


async def test_a_wrong_row_of_a_large_file_is_named_by_its_place_in_the_file(visits, tmp_path):
    """The file is sent in parts, whose refusals count rows from the first of a part."""
    file, rows = tmp_path / "large.csv", 80_000
    file.write_text("calls,visits,label\n" + "".join(f"{at},{at % 7},stays\n" for at in range(rows)) + "1,x,stays\n")
    page = await visits.open("", statuses=(422,))
    await page.get_by_role("button", name="New model").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("care-large")
    await dialog.get_by_label("Learn a file first").set_input_files(file)
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog).to_contain_text(f"row {rows + 1}, column visits: is not a number")


async def test_a_file_is_read_as_it_is_or_refused(visits, tmp_path):
    """A quoted name may hold the delimiter; letters of another encoding are not replaced by others unasked."""
    file, latin = tmp_path / "quoted.csv", tmp_path / "latin.csv"
    file.write_text('"a, b","c ""d""",y\n1,2,u\n')
    latin.write_bytes("a,city,y\n1,Köln,u\n".encode("latin-1"))
    page = await visits.open("")
    await page.get_by_role("button", name="New model").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("care-read")
    chosen = dialog.get_by_label("Learn a file first")
    await chosen.set_input_files(file)
    await expect(dialog.get_by_label("Label column").get_by_role("option")).to_have_text(["a, b", 'c "d"', "y"])
    await chosen.set_input_files(latin)
    await dialog.get_by_role("button", name="Create").click()
    assert "This file is not in UTF-8." == await chosen.evaluate("own => own.validationMessage")
    await expect(dialog).to_be_visible()


async def test_important_features_are_shown(look, api):
    """The page lists the features by effect, and shows the curves of an additive model."""
    rows = {"columns": ["calls", "visits"], "data": [row[:2] for row in ROWS], "labels": [row[2] for row in ROWS]}
    streams.taught(api, "care-curves", {"task": "classification", "algorithm": "ga2m"}, rows)
    page = await look("care-curves")
    await page.get_by_text("Which features matter").first.click()
    bars = page.get_by_role("list", name="Which features matter").get_by_role("listitem")
    await expect(bars).to_have_count(2)
    await expect(bars.first).to_contain_text("calls")
    await expect(page.get_by_role("img", name="Curve of calls")).to_be_visible()


async def test_a_model_is_exported_reset_and_deleted(look, api):
    """The file is the state; reset and delete ask first, and delete requires typing the name."""
    rows = {"columns": ["a"], "data": [[at] for at in range(30)], "labels": [*range(30)]}
    streams.taught(api, "care-gone", {"task": "regression"}, rows)
    page = await look("care-gone")
    await tab(page, "Settings")
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Export", exact=True).click()
    download = await saved.value
    assert "care-gone.safetensors" == download.suggested_filename
    assert api.get("/models/care-gone/state").content == (await download.path()).read_bytes()
    await page.get_by_role("button", name="Reset", exact=True).click()
    await page.locator("dialog [data-confirm]").click()
    await expect(page.locator("#model-rows")).to_have_text("0")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.locator("dialog [data-confirm]")).to_be_disabled()
    await page.get_by_label("Type care-gone to confirm").fill("care-gon")
    await expect(page.locator("dialog [data-confirm]")).to_be_disabled()
    await page.get_by_label("Type care-gone to confirm").fill("care-gone")
    await page.locator("dialog [data-confirm]").click()
    await page.wait_for_url(re.compile(r"/$"))
    assert 404 == api.get("/models/care-gone").status_code


async def test_a_button_has_the_focus_again_after_its_question(look):
    """It is disabled while the question is open, which takes the focus from it."""
    page = await look("numbers")
    await tab(page, "Settings")
    reset = page.locator("#care").get_by_role("button", name="Reset")
    await reset.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(reset).to_be_focused()
