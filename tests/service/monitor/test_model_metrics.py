"""What Prometheus is told of single models, and of models by tag."""

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest

from service.monitor.model_metrics import HALF_LIFE_S, Activity
from service.monitor.tag_metrics import TAGS_SHOWN
from tests.service.api_fixtures import DFOP, RLS, features


def of_model(found, name):
    """The single numbers of one model."""
    start = "onepass_model_"
    return {key[0].removeprefix(start): value for key, value in found.items() if key[1:] == (name,)}


def name_of(path):
    return path.removeprefix("/models/")


async def test_a_classifier_has_its_quality(api):
    """Rows, score, baseline, ratio, calibration; what its own pages tell as well."""
    path = await api.learnt(rows=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    labels = ["UP" if up else "DOWN" for up in X[:, 0] > 0.3]
    await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": X.tolist(), "labels": labels})
    tracked = await api.post(f"{path}/predict", {"features": features(0), "track": True})
    found, told = await api.scraped(), await api.get(f"{path}/metrics")
    one = of_model(found, name_of(path))
    counted = ("rows_total", "pending_labels", "expired_labels_total", "challengers_ahead")
    assert [400.0, 1.0, 0.0, 0.0] == [one[name] for name in counted]
    window = told["window"]
    assert (window["accuracy"], window["ece"], told["unscored"]) == pytest.approx(
        (one["score"], one["calibration_error"], one["unscored_rows_total"])
    )
    best = max(baseline["accuracy"] for baseline in window["baselines"].values())
    assert best == one["baseline"]
    assert pytest.approx((1 - one["score"]) / (1 - best)) == one["error_ratio"]
    assert 1.0 == found["onepass_model_info", "dfop", name_of(path), "steady", "classification"]
    await api.post(f"{path}/feedback", {"prediction_id": tracked["prediction_id"], "label": "UP"})
    one = of_model(await api.scraped(), name_of(path))
    assert (401.0, 0.0) == (one["rows_total"], one["pending_labels"])


async def test_a_regression_has_its_coverage(api):
    """Squared errors, and the share of labels within their intervals; no calibration error."""
    path = await api.learnt(RLS, rows=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    labels = (X[:, 0] + 0.1 * rng.normal(size=300)).tolist()
    await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": X.tolist(), "labels": labels})
    found, metrics = await api.scraped(), await api.get(f"{path}/metrics")
    told, paired = metrics["window"], metrics["paired"]["window"]
    one = of_model(found, name_of(path))
    last = told["baselines"]["last_value"]["mse"]
    assert (told["mse"], last) == pytest.approx((one["score"], one["baseline"]))
    assert (299, pytest.approx(one["error_ratio"])) == (paired["rows"], paired["mse"] / last)
    assert "calibration_error" not in one
    assert told["coverage"]["0.9"] == found["onepass_model_coverage", "0.9", name_of(path)]


async def test_a_model_without_rows_has_no_score(api):
    """What is not known is left out, not 0."""
    path = await api.new()
    one = of_model(await api.scraped(), name_of(path))
    assert 0.0 == one["rows_total"]
    assert not {"score", "baseline", "error_ratio", "calibration_error"} & {*one}


async def test_only_the_most_active_models_are_shown(start):
    """As many as the setting says: those that have learned most since they were first seen."""
    api = await start(metrics_models=2)
    paths = [await api.new() for _ in range(4)]
    await api.scraped()
    for path, rows in zip(paths, (1, 3, 0, 2), strict=True):
        for row in range(rows):
            await api.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    shown = {key[1] for key in await api.scraped() if key[0] == "onepass_model_rows_total"}
    assert {name_of(paths[1]), name_of(paths[3])} == shown


async def test_tags_add_up(api):
    """Rows that models of a tag have learned between scrapes; how many there are, and how many err too often."""
    first, other = [await api.new({**DFOP, "tags": {"team": "ads"}}) for _ in range(2)]
    await api.new()
    await api.scraped()
    for row, path in enumerate((first, first, other)):
        await api.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    found = await api.scraped()
    assert (2.0, 3.0) == (found["onepass_tag_models", "team", "ads"], found["onepass_tag_rows_total", "team", "ads"])
    await api.ask("DELETE", first)
    found = await api.scraped()
    assert (1.0, 3.0) == (found["onepass_tag_models", "team", "ads"], found["onepass_tag_rows_total", "team", "ads"])


async def test_rows_are_a_counter(api, start):
    """An import changes it only where there was none; a reset begins it again, not that of a tag; a load keeps it."""
    path = await api.new({**DFOP, "tags": {"team": "books"}})
    await api.post(f"{path}/feedback", {"features": features(9), "label": "UP"})
    early, counted = await api.state(path), []

    async def counts():
        found = await api.scraped()
        counted.append(
            (found["onepass_model_rows_total", name_of(path)], found["onepass_tag_rows_total", "team", "books"])
        )

    await counts()
    for row in range(5):
        await api.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    await counts()
    late = await api.state(path)
    for change in (early, late):
        await api.imports(path, change, 200)
        await counts()
    await api.post(f"{path}/reset")
    await counts()
    await api.post(f"{path}/feedback", {"features": features(0), "label": "UP"})
    await counts()
    await api.imports("/models/imported", late, 201)
    await api.post("/models/imported/snapshots", status=201)
    other = await start()
    for client in (api, other):
        await client.get("/models/imported")
        assert 6 == (await client.scraped())["onepass_model_rows_total", "imported"]
    assert [(1, 0), (6, 5), (6, 5), (6, 5), (0, 5), (1, 6)] == counted


async def test_rows_count_that_a_reload_brings(start):
    """A service that is too far behind goes on from a snapshot of another one, which has learned them."""
    api, other = await start(), await start()
    path = await api.new()
    for row in range(5):
        await api.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
        if row == 1:
            behind = await other.engine.models.get(name_of(path))
            other.engine.follower._note = lambda *_: None
    assert behind.learned < 5
    await other.engine.loader.reload(behind)
    assert (5, 5) == (behind.version, behind.learned)


async def test_models_worse_than_their_baselines_are_counted(api):
    """Labels that stay for long are repeated by no_change, and told by no column; young models are not judged."""
    rng = np.random.default_rng(0)
    for tag, rows, told in (("bad", 80, False), ("good", 80, True), ("young", 10, False)):
        X = rng.normal(size=(rows, 2))
        labels = np.where(X[:, 0] > 0 if told else np.arange(rows) < rows // 2, "UP", "DOWN").tolist()
        path = await api.new({**DFOP, "tags": {"of": tag}})
        await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": X.tolist(), "labels": labels})
    found = await api.scraped()
    assert [1.0, 0.0, 0.0] == [found["onepass_tag_models_worse", "of", tag] for tag in ("bad", "good", "young")]


async def test_tags_are_bounded(start):
    """Of more tags those of most models have metrics of their own."""
    api = await start()
    for of in range(3):
        tags = {f"t{of}-{at}": "x" for at in range(45)} | {"common": "yes"}
        await api.new({**DFOP, "tags": tags})
    tags = {key[1:] for key in await api.scraped() if key[0] == "onepass_tag_models"}
    assert TAGS_SHOWN == len(tags)
    assert ("common", "yes") in tags


async def test_a_key_of_some_models_sees_no_others(start):
    """Neither their numbers nor sums that they are part of."""
    api = await start(api_keys="ops:admin-secret:admin,some:tenant-secret:read:t-*")
    ops, some = ({"headers": {"Authorization": f"Bearer {secret}"}} for secret in ("admin-secret", "tenant-secret"))
    for name in ("t-one", "other"):
        await api.ask("PUT", f"/models/{name}", json={**DFOP, "tags": {"team": name}}, **ops)
    told = await api.scraped(**some)
    assert {"t-one"} == {key[1] for key in told if key[0] == "onepass_model_rows_total"}
    assert not [key for key in told if "other" in key or key[0].startswith("onepass_tag_")]
    assert {"t-one", "other"} <= {key[1] for key in await api.scraped(**ops) if key[0] == "onepass_model_rows_total"}


async def test_keys_that_expire_are_told(start):
    """When a name has no valid key any more; other names and other callers are told nothing."""
    keys = (
        "ops:admin-secret:admin,some:tenant-secret:read:t-*:2100-01-01,two:first-secret:read::2099-01-01,"
        "two:other-secret:read::2099-01-31,kept:third-secret:read::2099-01-01,kept:fourth-secret:read"
    )
    api = await start(api_keys=keys)
    ops, some = ({"headers": {"Authorization": f"Bearer {secret}"}} for secret in ("admin-secret", "tenant-secret"))
    name = "onepass_key_expires_timestamp_seconds"
    found = {key[1]: value for key, value in (await api.scraped(**ops)).items() if key[0] == name}
    assert {"some", "two"} == {*found}
    assert datetime(2099, 2, 1, tzinfo=UTC).timestamp() == found["two"]
    assert not [key for key in await api.scraped(**some) if key[0] == name]


async def test_a_store_that_is_frozen_holds_nobody_up(api):
    """What a frozen or failing store would tell is left out, until it tells it again."""
    path = await api.learnt()
    pending, hung = api.engine.pending, _Hung()
    own, pending._connection = pending._connection, hung
    for _ in range(2):
        async with asyncio.timeout(20):
            one = of_model(await api.scraped(), name_of(path))
        assert 3.0 == one["rows_total"]
        assert "pending_labels" not in one
    hung.answers.set()
    assert "pending_labels" not in of_model(await api.scraped(), name_of(path))  # it answers, and fails
    pending._connection = own
    assert 0.0 == of_model(await api.scraped(), name_of(path))["pending_labels"]


class _Hung:
    """A connection to a store that does not answer before it is let."""

    def __init__(self):
        self.answers = asyncio.Event()

    async def run(self, calls):
        await self.answers.wait()
        return [ConnectionError("late") for _ in calls]


async def test_scrapes_at_the_same_time_agree(api):
    """They wait for each other; nothing is counted twice."""
    path = await api.new({**DFOP, "tags": {"team": "games"}})
    await api.scraped()
    for row in range(5):
        await api.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    found = await asyncio.gather(*(api.scraped() for _ in range(4)))
    assert {5.0} == {one["onepass_tag_rows_total", "team", "games"] for one in found}


class _Model:
    """As much of a loaded model as activity looks at."""

    def __init__(self, name, rows):
        self.name, self.incarnation, self.model = name, "1", self
        self.learned, self.outbox, self.total = rows, self, 0


async def test_activity_fades():
    """A model that has learned a lot, long ago, gives way to one that learns now."""
    activity, before, now = Activity(), _Model("before", 10), _Model("now", 10)
    await activity.look(0.0, [before, now])
    before.learned += 100
    await activity.look(10.0, [before, now])
    assert ["before"] == activity.most(1, ["before", "now"])
    now.learned += 30
    gains = await activity.look(10.0 + 2 * HALF_LIFE_S, [before, now])
    assert (0, 30) == (gains["before"].rows, gains["now"].rows)
    assert ["now"] == activity.most(1, ["before", "now"])
    before.learned = 0
    assert 0 == (await activity.look(20.0, [before]))["before"].rows
