"""The list of models: scores with baselines, updated in place; sorting, search, an empty service."""

import re

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LABELS = ["UP", "DOWN"]
CLASSES = {"algorithm": "dfop", "task": "classification", "features": ["a"], "labels": LABELS}
RUNS = {"columns": ["a"], "data": [[0.0]] * 90, "labels": ["UP"] * 30 + ["DOWN"] * 30 + ["UP"] * 30}
"""Rows whose last label is nearly always right."""
LONG = "list-" + "a-name-as-long-as-a-name-can-be" + "." * 28


def teach(api, name, rows, *, turned=False):
    """Teach rows whose label follows from the feature, in one direction or the other."""
    labels = [LABELS[(row + turned) % 2] for row in range(rows)]
    data = [[float(row % 2)] for row in range(rows)]
    answer = api.post(f"/models/{name}/feedback/batch", json={"columns": ["a"], "data": data, "labels": labels})
    assert 200 == answer.status_code, answer.text


@pytest.fixture(scope="module")
def listed(api):
    """Models of known kinds: better than its baseline, worse, without rows, with a long name, and a regression."""
    for name in ("list-better", "list-worse", "list-new", LONG):
        assert 201 == api.put(f"/models/{name}", json=CLASSES).status_code
    assert 201 == api.put("/models/list-numbers", json={"task": "regression", "algorithm": "rls"}).status_code
    teach(api, "list-better", 200)
    assert 200 == api.post("/models/list-worse/feedback/batch", json=RUNS).status_code
    for row in range(20):
        api.post("/models/list-numbers/feedback", json={"features": {"a": row, "b": row % 3}, "label": 2.0 * row})
    return {model["name"]: model for model in api.get("/models", params={"search": "list-"}).json()["models"]}


def row_of(page, name):
    """The table row of a model."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


async def names(page):
    """The models in the order shown."""
    return await page.locator("tbody th a").all_text_contents()


async def test_each_model_is_shown_with_its_baseline(visits, listed):
    """Score, baseline and the difference of their errors equal the API's; unknown values are a dash."""
    page = await visits.open("/?search=list-")
    for name in ("list-better", "list-worse"):
        row, model = row_of(page, name), listed[name]
        await expect(row.get_by_role("cell").nth(1)).to_contain_text(f"{model['score']:.3f}")
        await expect(row.get_by_role("cell").nth(3)).to_contain_text(f"baseline {model['baseline']:.3f}")
        await expect(row.get_by_role("cell").nth(4)).to_contain_text(str(model["rows"]))
        await expect(row.get_by_role("img", name="Recent accuracy: ")).to_be_visible()
    for name, word in (("list-better", "Good"), ("list-worse", "Poor"), ("list-new", "New")):
        await expect(row_of(page, name).locator(".light")).to_have_text(word)
    own, other = (1 - listed["list-better"][key] for key in ("score", "baseline"))
    assert own < other
    await expect(row_of(page, "list-better").get_by_role("cell").nth(3)).to_contain_text("less")
    await expect(row_of(page, "list-worse").get_by_role("cell").nth(3)).to_contain_text("more")
    await expect(row_of(page, "list-numbers").get_by_role("cell").nth(1)).to_contain_text("MSE")
    await expect(row_of(page, "list-numbers").get_by_role("cell").nth(3)).to_contain_text("too early to compare")
    await expect(row_of(page, "list-numbers").locator(".good, .bad")).to_have_count(0)
    new = (await row_of(page, "list-new").get_by_role("cell").all_text_contents())[1:5]
    assert ["–", "–", "–", "0"] == new


@pytest.mark.slow
async def test_values_change_in_place(visits, listed, api):
    """A model that learns changes its row without a reload, and no row moves until the list is sorted again."""
    page = await visits.open("/?search=list-&sort=rows")
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    before = await names(page)
    await page.evaluate("window.kept = [...document.querySelectorAll('tbody tr')]")
    rows = listed["list-better"]["rows"]
    assert before.index("list-new") > before.index("list-better")
    teach(api, "list-new", rows + 10)
    await expect(row_of(page, "list-new").get_by_role("cell").nth(4)).to_contain_text(str(rows + 10), timeout=20_000)
    assert before == await names(page)
    assert await page.evaluate("window.kept.every((row, at) => row === document.querySelectorAll('tbody tr')[at])")
    await page.get_by_role("button", name="Sort again").click(timeout=20_000)
    after = await names(page)
    assert after.index("list-new") < after.index("list-better")
    await expect(page.get_by_role("button", name="Sort again")).to_be_hidden()


@pytest.mark.slow
async def test_the_worst_stays_first(visits, api):
    """A model that becomes the worst moves up by itself, but not while the pointer is on the list."""
    for name in ("first-a", "first-b"):
        api.put(f"/models/{name}", json=CLASSES).raise_for_status()
    teach(api, "first-a", 60)
    page = await visits.open("/?search=first-")
    await expect(page.locator("tbody th a")).to_have_text(["first-a", "first-b"])
    await page.locator("tbody tr").first.hover()
    api.post("/models/first-b/feedback/batch", json=RUNS).raise_for_status()
    await expect(page.get_by_role("button", name="Sort again")).to_be_visible()
    await expect(page.locator("tbody th a")).to_have_text(["first-a", "first-b"])
    await page.locator("h1").hover()
    await expect(page.locator("tbody th a")).to_have_text(["first-b", "first-a"])


@pytest.mark.slow
async def test_a_drift_is_shown_and_read_out(visits, api):
    """As soon as the list knows: how long ago, which test, and a sentence for screen readers."""
    api.put("/models/list-drift", json={**CLASSES, "algorithm": "rls"})
    teach(api, "list-drift", 600)
    page = await visits.open("/?search=list-drift")
    drift = row_of(page, "list-drift").get_by_role("cell").nth(5)
    await expect(drift).to_have_text("–")
    teach(api, "list-drift", 200, turned=True)
    await expect(drift).to_contain_text("error rate", timeout=20_000)
    await expect(drift).to_contain_text(re.compile(r"now|\d s ago"))
    await expect(page.locator("#said")).to_have_text("drift in list-drift, error rate")
    api.delete("/models/list-drift")
    await expect(page.locator("tbody tr")).to_have_count(0, timeout=20_000)


@pytest.mark.slow
async def test_order_and_search_are_in_the_address(visits, listed):
    """Going back restores them, and the address can be opened again."""
    page = await visits.open("/?search=list-")
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    await page.get_by_role("button", name="Name", exact=True).click()
    await expect(page.locator("tbody th a").first).to_have_text(min(listed))
    assert sorted(listed) == await names(page)
    await page.get_by_label("Search by name").fill("LIST-b")
    await expect(page.locator("tbody th a")).to_have_text(["list-better"])
    await expect(page).to_have_url(re.compile(r"\?sort=name&search=LIST-b$"))
    await page.go_back()
    await expect(page.get_by_role("button", name="Worst first")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    await page.get_by_label("Search by name").fill("no such model")
    await expect(page.get_by_text("No model’s name contains “no such model”.")).to_be_visible()
    await page.get_by_role("button", name="Show all models").click()
    await expect(page.locator("tbody tr").first).to_be_visible()


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)], ids=["light desk", "dark phone"])
async def test_the_list_is_accessible(visits, listed, axe, dark, phone):
    """In light and dark colours, at a desk and on a phone, where nothing is wider than the screen."""
    page = await visits.open("/?search=list-", dark=dark, phone=phone)
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await axe(page)
    table = page.get_by_role("table", name="Models")
    assert 8 == await table.get_by_role("columnheader").count()
    assert len(listed) == await table.get_by_role("rowheader").count()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_first_calls_stay_within_reach(visits, listed, axe, dark):
    """They are folded below the list, and the keyboard reaches them."""
    page = await visits.open("/?search=list-", dark=dark)
    calls = page.get_by_text("Calls that create a model, teach it and predict with it")
    await expect(page.get_by_text("-X PUT")).to_have_count(0)
    await expect(calls).to_be_visible()  # a hidden element takes no focus
    await calls.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".calls pre")).to_have_count(3)
    await expect(page.get_by_text("-X PUT")).to_be_visible()
    await axe(page)


@pytest.mark.slow
async def test_costs_are_explained_if_a_model_has_them(visits, listed, api):
    """The explanation is below the list, where it can be tapped as well; without costs there is none."""
    page = await visits.open("/?search=list-")
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    await expect(page.locator("#costs")).to_be_hidden()
    api.put("/models/dear", json={**CLASSES, "class_costs": {"UP": 5}}).raise_for_status()
    teach(api, "dear", 40)
    page = await visits.open("/?search=dear")
    await expect(page.locator("#costs")).to_contain_text("the one label that would have cost least")
    await expect(row_of(page, "dear").get_by_role("cell").nth(1)).to_contain_text("cost per row")


async def test_keys_are_asked_for(visits, locked_url, secrets):
    """Without a key and with a wrong one the dialog explains; the right key is kept in this tab."""
    page = await visits.open("/", url=locked_url, statuses=[401])
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("This service needs a key.")
    await expect(page.get_by_label("Key", exact=True)).to_be_focused()
    await page.get_by_label("Key", exact=True).fill("wrong")
    await page.keyboard.press("Enter")
    await expect(dialog).to_contain_text("does not know this key")
    await page.get_by_label("Key", exact=True).fill(secrets["admin"])
    await page.keyboard.press("Enter")
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")
    await page.reload()
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")
    await expect(page.get_by_role("button", name="API key")).to_be_visible()


@pytest.mark.slow
async def test_a_refusal_without_a_key_stays(visits, axe, locked_url):
    """The message offers to enter a key after all."""
    page = await visits.open("/", url=locked_url, statuses=[401])
    await expect(page.get_by_role("dialog")).to_be_visible()
    await axe(page)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("alert")).to_contain_text("You need a key")
    await page.get_by_role("button", name="Enter a key").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def test_a_key_only_shows_its_models_and_rights(visits, locked_url, locked_api, secrets):
    """A key for some models lists only those; without the right to create models there is no help for that."""
    for name in ("shop-1", "bank-1"):
        locked_api.put(f"/models/{name}", json=CLASSES)
    page = await visits.open("/?sort=name", url=locked_url, key=secrets["some"])
    await expect(page.locator("tbody th a")).to_have_text(["shop-1"])
    for name in ("shop-1", "bank-1"):
        locked_api.delete(f"/models/{name}")
    await expect(page.get_by_text("This key covers no models yet")).to_be_visible(timeout=20_000)
    await expect(page.get_by_text("curl")).to_have_count(0)


@pytest.mark.slow
async def test_an_error_is_shown_until_it_is_over(visits, listed):
    """If the service is unreachable, the last contents stay; afterwards the page continues without a reload."""
    page = await visits.open("/?search=list-")
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    visits.offline = True
    await page.context.set_offline(True)
    await expect(page.locator("#live-text")).to_have_text("Reconnecting", timeout=20_000)
    await expect(page.get_by_role("alert")).to_have_text("The service cannot be reached.", timeout=20_000)
    await expect(page.locator("tbody tr")).to_have_count(len(listed))
    await page.context.set_offline(False)
    await expect(page.locator("#live-text")).to_have_text("Live", timeout=20_000)
    await expect(page.get_by_role("alert")).to_have_count(0)
