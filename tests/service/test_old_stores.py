"""A service on stores that the code of every format of states has left: each model goes on where it was.

``old_stores/write.py`` makes such a store by the code of an old commit. A new format costs one more sample, of the
format before it; nothing here changes.
"""

from contextlib import AsyncExitStack

import httpx
import numpy as np
import pytest
import pytest_asyncio
from numpy.testing import assert_allclose

from core.state import envelope
from service.app import build
from service.settings import Settings
from service.store.entries import NEWER
from service.store.keys import ModelKeys
from service.store.redis.connection import Connection
from tests.service.api_fixtures import STATE, Api, problem
from tests.service.backup_fixtures import restore
from tests.service.old_stores.samples import TIMEOUT_S, Sample, names
from tests.service.old_stores.stories import STORIES, stories

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOLD = {story.name: story for story in STORIES}
SAMPLES = {name: Sample.read(name) for name in names()}
EARLIER = [name for name, sample in SAMPLES.items() if sample.format < envelope.FORMAT]
LAST = [name for name in EARLIER if name.isdigit()]
"""Of each format the sample of its last code."""
ANSWERED = ("prediction", "predictions", "loss", "losses", "version", "rows", "learned", "durability")
"""What a retry is told as it was told first; metrics of a batch are those of its rows alone."""
PROBABILITY_WITHIN = {3: 0.15, 4: 0.01}
"""States of format 3 have no calibration of probabilities yet, and that of format 4 did not weigh a class by its rows:
what was learned is the same, what is said of a probability is not. Of later formats it is, to round-off."""
AFTER_SNAPSHOT_WITHIN = {("ensemble", 3): 0.01}
"""Its log holds the rows that taught the mapping between the features, whose ridge code of format 3 did not choose."""
ROUND_OFF = 1e-6


class Site:
    """The store of a sample, and services on it."""

    def __init__(self, name, url, stack):
        self.sample, self.url, self._stack = SAMPLES[name], url, stack
        self.version = self.sample.format

    async def fill(self):
        await self.empty()
        await self.sample.fill(self.url)

    async def empty(self):
        connection = Connection(self.url, TIMEOUT_S)
        await connection.ask(("FLUSHALL",))
        await connection.close()

    async def service(self):
        app = build(Settings(redis_url=self.url))
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://onepass")
        return Api(app, await self._stack.enter_async_context(client))

    @property
    def models(self):
        return self.sample.models.items()


@pytest_asyncio.fixture(loop_scope="module", params=EARLIER)
async def site(request, store_url):
    """Each sample of an earlier format, in a store of its own; no service is up yet."""
    async with AsyncExitStack() as stack:
        made = Site(request.param, store_url, stack)
        await made.fill()
        yield made


def _engine(service):
    return service.app.state.context.engine


def _holds(before, now):
    """Whether everything that was there is there still; newer code may tell more."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_holds(value, now.get(name)) for name, value in before.items())
    return before == now


async def _asks_again(service, path, told):
    """Send what it had learned with an id, which is answered as it was then; how often."""
    for way, body, answer in told.asked:
        again = await service.post(f"{path}/{way}", body)
        first = {part: answer[part] for part in ANSWERED if part in answer}
        assert {**first, "duplicate": True} == {part: again[part] for part in (*first, "duplicate")}
    return len(told.asked)


async def _as_it_was(service, name, told, *, snapshots=True):
    path = f"/models/{name}"
    shown = await service.get(path)
    for part in ("version", "rows", "phase", "incarnation", "created", "config"):
        assert _holds(told.model[part], shown[part]), (name, part)
    assert told.pending == (await service.get(f"{path}/pending"))["pending"]
    if snapshots:
        assert told.snapshots == (await service.get(f"{path}/snapshots"))["snapshots"]
    events = (await service.get(f"{path}/drift"))["events"]
    assert len(told.drift) == len(events)
    assert all(map(_holds, told.drift, events))
    if told.features:
        features = await service.get(f"{path}/features")
        assert all(told.features[part] == features[part] for part in ("phase", "current", "next", "overlap_rows"))


async def _predicts(service, path, told, name, version, after_snapshot=AFTER_SNAPSHOT_WITHIN):
    """As the sample says, finite and sensible."""
    for probe, before in zip(TOLD[name].probes, told.predictions, strict=True):
        now = await service.post(f"{path}/predict", {"features": probe})
        if "probabilities" not in before:
            assert np.isfinite(now["prediction"])
            within = after_snapshot.get((name, version), ROUND_OFF)
            assert_allclose(before["prediction"], now["prediction"], rtol=within, atol=1e-9)
            continue
        within = PROBABILITY_WITHIN.get(version, ROUND_OFF)
        assert pytest.approx(before["probabilities"], abs=within) == now["probabilities"]
        assert 1.0 == pytest.approx(sum(now["probabilities"].values()))
        ranked = sorted(before["probabilities"].values())
        if "class_costs" not in TOLD[name].config and ranked[-1] - ranked[-2] > 2 * within:
            assert before["prediction"] == now["prediction"]


async def test_there_is_a_sample_of_every_earlier_format():
    """The format is raised with a sample of the one before it; each tells all that its code could do."""
    assert {*range(envelope.OLDEST, envelope.FORMAT)} <= {sample.format for sample in SAMPLES.values()}
    for sample in SAMPLES.values():
        assert {story.name for story in stories(sample.format)} == {*sample.models}


async def test_models_are_what_they_were(site):
    """Documents, features, drift events, tracked predictions, snapshots, and what is predicted; lists have them all."""
    service = await site.service()
    for name, told in site.models:
        await _as_it_was(service, name, told)
        await _predicts(service, f"/models/{name}", told, name, site.version)
    listed = (await service.get("/models?limit=1000"))["models"]
    rows = {name: told.model["rows"] for name, told in site.models}
    assert rows == {model["name"]: model["rows"] for model in listed}
    assert any(told.drift for _, told in site.models)
    stats = _engine(service).stats
    assert (0, 0) == (stats.corrupt_snapshots, stats.models_down)


async def test_what_was_learned_with_an_id_is_not_learned_again(site):
    """It is answered as it was then, by the code before the update; another label under the id is refused."""
    service, asked = await site.service(), 0
    for name, told in site.models:
        path = f"/models/{name}"
        asked += await _asks_again(service, path, told)
        for way, body, _ in [one for one in told.asked if "label" in one[1]][:1]:
            label = {"UP": "DOWN", "DOWN": "UP"}.get(body["label"], 77.0)
            problem(await service.ask("POST", f"{path}/{way}", json={**body, "label": label}), 409)
        shown = await service.get(path)
        assert told.model["rows"] == shown["rows"]
        assert shown["version"] - told.model["version"] in {0, 1}  # at most the state is named, as this code has it
    assert asked > 20


@pytest.mark.parametrize("site", LAST, indirect=True)
async def test_labels_of_predictions_before_the_update_are_learned_once(site):
    """What is scored is what the older code has said; the label sent again is known."""
    service = await site.service()
    for name, told in site.models:
        for predicted in told.tracked:
            label = predicted["prediction"] if "probabilities" in predicted else predicted["prediction"] + 1.0
            body = {"prediction_id": predicted["prediction_id"], "label": label}
            answer = await service.post(f"/models/{name}/feedback", body)
            assert (False, predicted["prediction"]) == (answer["duplicate"], answer["prediction"])
            assert pytest.approx(0.0 if "probabilities" in predicted else 1.0) == answer["loss"]
            assert {**answer, "duplicate": True} == await service.post(f"/models/{name}/feedback", body)
        assert [] == (await service.get(f"/models/{name}/pending"))["pending"]


async def test_models_go_on_learning_on_every_service(site):
    """Rows are learned, snapshots are of this format; a second service, and one that starts then, have equal bytes."""
    one, other = await site.service(), await site.service()
    older = site.version < envelope.FORMAT
    for name, told in site.models:
        path, version = f"/models/{name}", told.model["version"]
        made = version + (1 if older and version else 0)  # what older code has left is named first
        for number, body in enumerate(TOLD[name].more[:2], start=1):
            row = {**body, "id": f"after-{number}"}
            answer = await (one if number % 2 else other).post(f"{path}/feedback", row)
            assert (made + number, told.model["rows"] + number) == (answer["version"], answer["rows"])
        assert {**answer, "duplicate": True} == await one.post(f"{path}/feedback", row)
        kinds = [entry["kind"] for entry in (await one.get(f"{path}/log"))["entries"]]
        assert (1 if older and version else 0) == kinds.count("upgrade")
        await one.post(f"{path}/snapshots", status=201)
        (newest, *_) = await _engine(one).store.snapshots.list(name, told.model["incarnation"])
        assert (answer["version"], envelope.FORMAT) == (newest.version, newest.state_version)
    third = await site.service()
    for name in site.sample.models:
        states = [await service.state(f"/models/{name}") for service in (one, other, third)]
        assert states[0] == states[1] == states[2]
        assert envelope.FORMAT == envelope.load(states[0])[1]["format"]
    assert [0, 0, 0] == [_engine(service).stats.diverged for service in (one, other, third)]


@pytest.mark.parametrize("site", LAST, indirect=True)
async def test_exports_of_older_code_are_imported(site):
    """Into a new model, which predicts as the one that was exported; the next export is of this format."""
    service = await site.service()
    for name, told in site.models:
        path = f"/models/imported-{name}"
        await service.ask("PUT", path, json=TOLD[name].config)
        answer = await service.ask("PUT", f"{path}/state", content=told.state, headers=STATE)
        assert (200, told.model["rows"]) == (answer.status_code, (await service.get(path))["rows"]), answer.text
        await _predicts(service, path, told, name, site.version, after_snapshot={})
        assert envelope.FORMAT == envelope.load(await service.state(path))[1]["format"]


@pytest.mark.parametrize("site", [name for name in LAST if SAMPLES[name].backup], indirect=True)
async def test_a_backup_of_older_code_is_restored(site):
    """Into an empty store: models, ids, tracked predictions and events are those of the backup."""
    await site.empty()
    service = await site.service()
    told = await restore(service, site.sample.backup)
    assert {*site.sample.models} == {*told["restored"]}
    for name, before in site.models:
        await _as_it_was(service, name, before, snapshots=False)  # it begins with one of its own
        await _predicts(service, f"/models/{name}", before, name, site.version)
        await _asks_again(service, f"/models/{name}", before)


@pytest.mark.parametrize("site", [*SAMPLES][-1:], indirect=True)
async def test_what_newer_code_has_written_is_refused(site):
    """A model that it has appended to is out of service here, untouched, and the others go on; so is its export."""
    connection = Connection(site.url, TIMEOUT_S)
    meta = ModelKeys("numbers", "").meta
    await connection.ask(("HSET", meta, "code", envelope.FORMAT + 1))
    (before,) = await connection.ask(("HGETALL", meta))
    service = await site.service()
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/predict", {"features": TOLD["numbers"].probes[0]}),
        ("POST", "/feedback", TOLD["numbers"].more[0]),
    ):
        answer = await service.ask(method, f"/models/numbers{path}", json=body)
        assert NEWER in problem(answer, 503)["detail"]
        assert "Retry-After" not in answer.headers
    assert [before] == await connection.ask(("HGETALL", meta))
    await connection.close()
    assert (await service.post("/models/restored/feedback", TOLD["restored"].more[0]))["learned"]
    arrays, header = envelope.load(site.sample.models["restored"].state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "FORMAT", envelope.FORMAT + 1)
        newer = envelope.dump(arrays, {name: value for name, value in header.items() if name != "format"})
    answer = await service.ask("PUT", "/models/restored/state", content=newer, headers=STATE)
    assert f"this version reads {envelope.OLDEST} to {envelope.FORMAT}" in str(problem(answer, 422))
