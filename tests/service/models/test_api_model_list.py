"""GET /models: orders, pages and cursors; nothing is loaded, and every line is of one version."""

import asyncio
from collections import Counter

import pytest

from core.model import LastDrift, Summary, read
from service.api.models import model_list
from service.runtime import lists
from service.store import summaries
from service.store.summaries import StoredSummary, SummaryWrite
from tests.service.api_fixtures import columnar, features, problem

KEYS = "all:s3cret-all:admin,some:s3cret-some:read:sort.r*+sort.c1"
SOME = {"headers": {"X-API-Key": "s3cret-some"}}
ALL = {"headers": {"X-API-Key": "s3cret-all"}}
WAIT_S = 30.0
"""Bound of a wait that a failure would leave without an end."""

DRIFT = LastDrift(7, 1_700_000_000_003, "error_rate", None)


def judged(error, baseline_error, *figures, **more):
    """A summary with these errors of the window; the scores of all rows, among the figures, do not order models."""
    return Summary(*figures, **more, error=error, baseline_error=baseline_error)


FIGURES = {
    "sort.c1": judged(0.1, 0.2, "dfop", "classification", 300, 0.1, 0.8, "steady"),
    "sort.c2": judged(0.3, 0.2, "dfop", "classification", 200, 1.0, 0.8, "steady"),
    "sort.c3": judged(0.0, 0.0, "odm", "classification", 200, 1.0, 1.0, "overlap"),
    "sort.c4": judged(0.01, 0.0, "odm", "classification", 29, 0.99, 1.0, "steady"),  # of too few rows
    "sort.c5": judged(0.1, 0.4, "dfop", "classification", 100, 0.7, 0.8, "steady", None, 0, 0, 0.3, 0.2),
    "sort.new": Summary("dfop", "classification", 0, None, None, "steady"),
    "sort.r1": judged(5.0, 10.0, "rls", "regression", 500, 1e6, 10.0, "steady", paired_score=5.0),  # as sort.c1
    "sort.r2": judged(None, None, "rls", "regression", 1, 1e300, None, "steady"),
    "sort.r3": judged(8e299, 1e299, "rls", "regression", 30, 4e299, 1e299, "steady", DRIFT, 2, 1, paired_score=7e299),
}
ORDERS = {
    "rows": ["sort.r1", "sort.c1", "sort.c2", "sort.c3", "sort.c5", "sort.r3", "sort.c4", "sort.r2", "sort.new"],
    "updated": ["sort.r3", "sort.r2", "sort.r1", "sort.new", "sort.c5", "sort.c4", "sort.c3", "sort.c2", "sort.c1"],
    "worst": ["sort.r3", "sort.c2", "sort.c3", "sort.c1", "sort.r1", "sort.c5", "sort.c4", "sort.new", "sort.r2"],
    "name": sorted(FIGURES),
}


async def pages(api, limit, **query):
    """The names of all pages, one list for each."""
    found = await api.pages("/models", limit=limit, **query)
    return [[model["name"] for model in page["models"]] for page in found]


@pytest.fixture(scope="module")
async def sorted_models(start):
    """A service with keys, and models of known figures."""
    api = await start(api_keys=KEYS)
    engine = api.engine
    for at, (name, figures) in enumerate(FIGURES.items()):
        await engine.store.catalog.create(name, f"inc-{name}", b"{}")
        record = summaries.encode(StoredSummary(0, 1_700_000_000_000 + at, figures))
        write = SummaryWrite(name, f"inc-{name}", 0, f"inc-{name}", 1, record)
        assert [0] == await engine.store.catalog.write_summaries([write])
    return api


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limit", [1, 3, 8, 1000])
async def test_each_order_is_what_it_says(sorted_models, order, limit):
    """Equals by name, what is not known last; the pages together are the whole list, whatever their length."""
    found = await pages(sorted_models, limit, sort=order, **ALL)
    assert ORDERS[order] == [name for page in found for name in page]
    assert all(limit == len(page) for page in found[:-1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("text", ["C", ".c", "sort.r1", "t.new", "nothing"])
async def test_a_search_keeps_the_order_and_fills_pages(sorted_models, order, text):
    """A part of the name, upper or lower case; of those that the key may touch, and cursors name no others."""
    own = [name for name in ORDERS[order] if text.lower() in name]
    assert [own[at : at + 2] for at in range(0, len(own) or 1, 2)] == await pages(
        sorted_models, 2, sort=order, search=text, **ALL
    )
    seen = [name for name in own if name.startswith("sort.r") or name == "sort.c1"]
    assert [seen[at : at + 2] for at in range(0, len(seen) or 1, 2)] == await pages(
        sorted_models, 2, sort=order, search=text, **SOME
    )


async def test_a_search_for_nothing_is_refused(sorted_models):
    """Neither an empty text nor one that is longer than any name; it is not echoed."""
    problem(await sorted_models.ask("GET", "/models?search=", **ALL), 422, "search")
    long = await sorted_models.ask("GET", f"/models?search={'x' * 65}", **ALL)
    (why,) = problem(long, 422, "search", secret="xxx")["errors"]
    assert {"field": "search", "problem": "is too long", "allowed": "at most 64 characters"} == why


async def test_a_line_has_the_figures_of_the_summary(sorted_models):
    """In every order the same; the age of the table is told in all but the order of names."""
    by_name, by_rows = [await sorted_models.get("/models", params={"sort": order}, **ALL) for order in ("name", "rows")]
    assert ({"models", "next"}, {"models", "next", "age_s"}) == (set(by_name), set(by_rows))
    assert 0 <= by_rows["age_s"] < WAIT_S
    assert by_name["models"] == sorted(by_rows["models"], key=lambda model: model["name"])
    assert {
        "name": "sort.r3", "algorithm": "rls", "task": "regression", "version": 0, "rows": 30, "score": 4e299,
        "baseline": 1e299, "phase": "steady", "updated": "2023-11-14T22:13:20.008Z",
        "drift": {"row": 7, "time": "2023-11-14T22:13:20.003Z", "kind": "error_rate", "class": None},
        "challengers": 2, "ahead": 1, "rows_per_s": None, "mean_cost": None, "baseline_cost": None,
        "paired_score": 7e299, "recent": [], "error": 8e299, "baseline_error": 1e299,
    } == by_name["models"][-1]  # fmt: skip


NO_PLACES = ["", "sort.c1", "~", "~rows", "~rows:-1.0", "~rows:-1.0:", "~rows:-1.0:no name", "~rows:-1.0:" + "a" * 65]
NO_KEYS = ["~rows:one", "~rows:nan", "~rows:-٣.0", "~updated:-1.0", "~score:-1.0", "rows:-1.0"]


@pytest.mark.parametrize("cursor", [*NO_PLACES, *(f"{key}:sort.c1" for key in NO_KEYS)])
async def test_a_cursor_that_no_page_has_given_is_422(sorted_models, cursor):
    """Also one of another order."""
    problem(await sorted_models.ask("GET", "/models", params={"sort": "rows", "cursor": cursor}, **ALL), 422, "cursor")


async def test_a_cursor_of_another_order_is_not_one_of_names(sorted_models):
    """And an order that does not exist is 422, as is freshness: summaries are as they are."""
    cursor = (await sorted_models.get("/models", params={"sort": "rows", "limit": 1}, **ALL))["next"]
    problem(await sorted_models.ask("GET", "/models", params={"cursor": cursor}, **ALL), 422, "cursor")
    for query in ({"sort": "score"}, {"sort": ""}, {"consistency": "strong"}, {"min_version": 1}, {"incarnation": "x"}):
        (field,) = query
        problem(await sorted_models.ask("GET", "/models", params=query, **ALL), 422, field)


async def test_a_cursor_goes_on_where_its_model_was(sorted_models):
    """The model may have been deleted meanwhile, and others may have taken its place."""
    for name in ("sort.c2", "sort.gone", "sort.a"):
        following = [other for other in ORDERS["rows"] if (-(FIGURES[other].rows or 0), other) > (-200.0, name)]
        params = {"sort": "rows", "cursor": f"~rows:-200.0:{name}"}
        found = (await sorted_models.get("/models", params=params, **ALL))["models"]
        assert following == [model["name"] for model in found]


async def test_totals_are_of_the_models_that_a_key_may_touch(sorted_models):
    """Whatever is searched for; without being asked for they are left out."""
    for who, total in ((ALL, len(FIGURES)), (SOME, 4)):
        for query in ({}, {"sort": "worst", "limit": 1, "search": "c1"}):
            found = await sorted_models.get("/models", params={**query, "totals": "true"}, **who)
            assert total == found["total"]
            left = await sorted_models.get("/models", params=query, **who)
            assert {"models", "next"} == left.keys() - {"age_s"} == found.keys() - {"age_s", "total", "rows_per_s"}


async def test_rows_a_second_are_told_by_who_learns_them(start):
    """Of a model in memory, once that has been looked at for a second; not of one that is not."""
    api = await start()
    path = await api.new()
    name = path.rpartition("/")[2]

    async def line():
        found = await api.get("/models", params={"search": name, "totals": "true"})
        (own,) = found["models"]
        return own["rows_per_s"], found.get("rows_per_s")

    for _ in range(2):
        await api.post(f"{path}/feedback/batch", {**columnar(300), "labels": ["UP"] * 300})
        await line()
        async with asyncio.timeout(WAIT_S):
            while None in await line():
                await asyncio.sleep(0.05)
    own, whole = await line()
    assert min(own, whole) > 0
    listing = api.engine.listing
    listing._table.until = 0.0
    count, rate = await listing.totals(lambda other: other == name)
    assert (1, True) == (count, rate > 0)
    assert (0, None) == await listing.totals(lambda _: False)
    api.engine.models._drop(name)
    assert None is (await line())[0]


async def test_a_summary_is_computed_once_for_each_version(api, monkeypatch):
    """Lists and metrics do not compute those of models that have learned nothing since, however many there are."""
    path = await api.learnt()
    model, computed, summary = api.engine.models.peek(path.removeprefix("/models/")).model, [], read.summary

    def counted(one):
        if one is model:
            computed.append(one.rows)
        return summary(one)

    monkeypatch.setattr(read, "summary", counted)
    for rows in (4, 5):
        await api.post(f"{path}/feedback", {"features": features(rows), "label": "UP"})
        for _ in range(3):
            listed = await api.get("/models", params={"search": path.removeprefix("/models/"), "limit": 1000})
            assert rows in [one["rows"] for one in listed["models"]]
    assert [4, 5] == sorted(set(computed))
    assert len(computed) <= 3  # an append may carry one of the version before


async def test_concurrent_requests_share_one_table(start, monkeypatch):
    """It is read in steps, at most once in some seconds, and again when it is older."""
    api = await start()
    catalog, reads = api.engine.store.catalog, []
    read = catalog.summaries

    async def counted(limit, after=None, wanted=None):
        reads.append(after)
        return await read(limit, after, wanted)

    monkeypatch.setattr(catalog, "summaries", counted)
    monkeypatch.setattr(lists, "READ_AT_ONCE", 2)
    monkeypatch.setattr(lists, "REFRESH_S", 3600.0)
    monkeypatch.setattr(lists, "REFRESH_S_MIN", 3600.0)
    orders = ["rows", "updated", "worst"] * 3
    await asyncio.gather(*(api.get("/models", params={"sort": order}) for order in orders))
    assert (1, len(set(reads))) == (reads.count(None), len(reads))
    assert 2 < len(reads)
    await api.get("/models", params={"sort": "rows"})
    assert 1 == reads.count(None)
    listing = api.engine.listing
    assert 3600.0 == pytest.approx(listing._table.until - listing._table.began)
    listing._table.until = 0.0
    await api.get("/models", params={"sort": "rows"})
    assert 2 == reads.count(None)


@pytest.mark.parametrize("order", ["name", "worst"])
async def test_lists_at_once_leave_turns_to_others(sorted_models, monkeypatch, order):
    """Between two turns of the event loop one part of one list is rendered, also of lists that waited together."""
    api, render, turns, rendered = sorted_models, model_list._summary, 0, []
    whole = await api.get("/models", params={"sort": order}, **ALL)

    def noted(listed):
        rendered.append(turns)
        return render(listed)

    async def other_task():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(model_list, "RENDERED_AT_ONCE", 2)
    monkeypatch.setattr(model_list, "_summary", noted)
    api.engine.listing._table.until = 0.0
    other = asyncio.create_task(other_task())
    found = await asyncio.gather(*(api.get("/models", params={"sort": order}, **ALL) for _ in range(5)))
    other.cancel()
    assert [whole["models"]] * 5 == [one["models"] for one in found]
    assert 5 * len(whole["models"]) == len(rendered)
    assert max(Counter(rendered).values()) <= 4  # a part after the other task in a turn, one before it in the next


@pytest.mark.parametrize("key", [lists.LAST, 0.0, -0.0, -0.5, -1 / 3, -1e-5, -5e-324, -1.7e12, -float(2**53)])
async def test_every_place_is_read_from_its_cursor(key):
    """However small or large the number that the models are sorted by."""
    place = lists.ListPosition(key, "a.b-c_9")
    assert place == model_list._place("worst", model_list._cursor("worst", place))
    assert lists.ListPosition() == model_list._place("worst", None)


async def test_the_key_of_the_worst_increases_with_the_ratio_of_errors():
    """Both tasks on one scale; errors near the largest numbers do not overflow."""
    known = judged(1.0, 1.0, "x", "regression", 30, 1.0, 1.0, "steady")

    def place(**figures):
        return lists.key("worst", StoredSummary(1, 1, known._replace(**figures)))

    ratios = [(0.0, 1.0), (1.0, 1e300), (1.0, 2.0), (1.0, 1.0), (1e300, 9e299), (3.0, 1.0), (1e-300, 0.0)]
    keys = [place(error=a, baseline_error=b) for a, b in ratios]
    assert sorted(keys, reverse=True) == keys
    assert len(set(keys)) == len(keys)
    assert -0.5 == place(error=0.0, baseline_error=0.0)
    assert place(error=2.0) == place(task="classification", error=0.5, baseline_error=0.25)
    assert lists.LAST == place(rows=29)
