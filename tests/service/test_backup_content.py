"""Backups whose frames are whole and whose content is not as it should be: refused, nothing of the model is there."""

import msgspec
import numpy as np
import pytest

from core.entry import ServedPrediction
from core.machine import STATE_VERSION
from core.state import arrays, envelope
from service.store import tracked
from service.store.backup import parts
from service.store.backup.frames import MAGIC, FrameWriter
from service.store.backup.parts import End, Events, Page
from service.store.pieces import digest
from tests.core.state.samples import SAMPLES, SETTLED
from tests.service.api_fixtures import RLS, STATE, features, problem
from tests.service.backup_fixtures import backup, other, other_url, parts_of, restore

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("other_url")]
__all__ = ["other", "other_url"]


async def a_backup(api):
    """The parts of a backup of a model with an id, a tracked prediction, and no event; and the model's name."""
    path = await api.learnt(RLS, rows=3)
    await api.post(f"{path}/feedback", {"features": features(1), "label": 1.0, "id": "one"})
    await api.post(f"{path}/predict", {"features": features(1), "track": True})
    name = path.rpartition("/")[2]
    return name, [(kind, part) for kind, part, _ in parts_of(await backup(api, name)) if kind]


def sealed(found):
    """Parts as a backup."""
    frames = FrameWriter()
    return b"".join(frames.frame(kind, part if isinstance(part, bytes) else parts.encode(part)) for kind, part in found)


def with_part(found, kind, change):
    return [(one, change(part) if one == kind else part) for one, part in found]


def standing(**changes):
    return lambda found: with_part(found, b"S", lambda part: msgspec.structs.replace(part, **changes))


def with_state(change):
    """Another state, said to be of its own length and digest."""

    def changed(found):
        state = change(b"".join(part for kind, part in found if kind == b"C"))
        told = standing(state_bytes=len(state), state_digest=digest(state))(found)
        return with_part(told, b"C", lambda _: state)

    return changed


def stamped(state):
    """A state of another version than the backup's."""
    held, header = envelope.load(state)
    header.pop("format")
    header["stamp"]["version"] += 1
    return envelope.dump(held, header)


def page(kind, *items):
    return lambda found: with_part(found, kind, lambda part: Page([items[0] if items else part.items[0]]))


def row(*numbers, space="none"):
    return tracked.encode(space, np.array([numbers]), ServedPrediction(1.0, None), 1)


def of_its_space(found):
    """A tracked row of more numbers than its space has."""
    held = next(part for kind, part in found if kind == b"P").items[0]
    wide = row(1.0, 2.0, 3.0, 4.0, space=tracked.decode(held[2]).space)
    return page(b"P", (held[0], held[1], wide))(found)


def an_event(place, body):
    """An event that the model has not had."""

    def changed(found):
        events = [(b"D", Events([(place, 1, body, False, b"")]))]
        at = [kind for kind, _ in found].index(b"E")
        own = with_part(found, b"E", lambda part: msgspec.structs.replace(part, events=1))
        return own[:at] + events + own[at:]

    return changed


REFUSED = {
    "format": (standing(state_version=STATE_VERSION + 1), "update the service"),
    "digest": (standing(state_digest="0" * 32), "length and digest"),
    "size": (standing(state_bytes=5), "longer than it says"),
    "limit": (standing(state_bytes=2**40), "ONEPASS_MODEL_LIMIT_MB"),
    "rows": (standing(rows=77), "another model or version"),
    "version": (standing(version=99), "another model or version"),
    "configuration": (standing(config=b"[]"), "configuration is corrupt"),
    "origin": (standing(origin=b"nothing"), "not enough values"),
    "stamp": (with_state(stamped), "another model or version"),
    "no state": (with_state(lambda state: b"x" * len(state)), ""),
    "torn state": (with_state(lambda state: state[:-8]), ""),
    "id of later": (page(b"I", (b"i:two", 2**50, b"9:0:0:d:")), "a version that its state does not have"),
    "no id": (page(b"I", (b"", 2**50, b"1:0:0:d:")), "empty, or too long"),
    "no record": (page(b"I", (b"i:two", 2**50, b"x")), ""),
    "no answer": (page(b"I", (b"i:two", 2**50, b"1:0:0:d:nonsense")), "corrupt"),
    "no text": (page(b"I", (b"\xff\xfe", 2**50, b"1:0:0:d:")), "decode"),
    "infinite": (page(b"P", (b"p", 2**50, row(np.inf, 1.0))), "infinite"),
    "no prediction": (page(b"P", (b"p", 2**50, b"\x90")), "corrupt"),
    "wide": (of_its_space, "number of features"),
    "event of later": (an_event((50, 0), b"{}"), "out of order, or after"),
    "event of another": (an_event((1, 0), b'{"id":"a","model":"b","time":"","kind":""}'), "another model or place"),
    "no event": (an_event((1, 0), b"[" * 5000), ""),
    "too few": (lambda found: with_part(found, b"E", lambda _: End(1, 2, 0, 0)), "not as much as its end says"),
    "no pieces": (lambda found: [one for one in found if one[0] != b"C"], "not as much as its end says"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_model_that_is_not_as_it_should_be_is_refused(api, other, case):
    """The answer names it and says why; nothing of it is in the store, and it is restored by the backup as it was."""
    change, why = REFUSED[case]
    name, found = await a_backup(api)
    told = await restore(other, sealed(change(found)), 422)
    assert ([f"models.{name}"], []) == ([error["field"] for error in told["errors"]], told["restored"])
    assert why in told["errors"][0]["problem"]
    problem(await other.ask("GET", f"/models/{name}"), 404)
    store = other.app.state.context.engine.store.connection
    assert [] == (await store.ask(("KEYS", f"*{{{name}}}*")))[0]
    assert [name] == (await restore(other, sealed(found)))["restored"]


BROKEN = {
    "order": lambda found: [*found[:2], *found[3:], found[2]],
    "two headers": lambda found: [found[0], *found],
    "no header": lambda found: found[1:],
    "count": lambda found: [*found[:-1], (b"T", parts.Trailer(2, 0))],
    "behind": lambda found: [*found, found[1]],
    "unknown": lambda found: [*found[:-1], (b"X", b"\x90"), found[-1]],
    "again": lambda found: [*found[:-1], *found[1:]],
    "name": lambda found: with_part(found, b"M", lambda part: msgspec.structs.replace(part, name="a/b")),
    "broken off": lambda found: [*found[:-1], (b"F", parts.BrokenOff("the store is away"))],
}


@pytest.mark.parametrize("case", BROKEN)
async def test_parts_out_of_order_are_refused(api, other, case):
    """As a damaged backup is: what stands before that place counts."""
    _, found = await a_backup(api)
    told = await restore(other, sealed(BROKEN[case](found)), 422)
    assert "cannot be read" in told["detail"]


async def test_another_container_is_told(api):
    """One of a later version."""
    _, found = await a_backup(api)
    body = sealed(found).replace(MAGIC, MAGIC[:-1] + b"\x02", 1)
    told = problem(await api.ask("POST", "/restore", content=body, headers=STATE), 422)
    assert "version 2 of the container" in told["detail"]


@pytest.mark.parametrize("written", range(envelope.OLDEST, SETTLED + 1))
async def test_a_state_of_every_format_is_restored(api, other, written):
    """It learns on; the ids of its backup are known."""
    name, found = await a_backup(api)
    told = {kind: part for kind, part in found if kind in (b"M", b"S")}
    held, header = arrays.unpack((SAMPLES / str(written) / "rls.safetensors").read_bytes())
    stamp = {"incarnation": told[b"M"].incarnation, "version": told[b"S"].version, "uid": told[b"S"].uid}
    header = {**header, "stamp": stamp}
    header.pop("digest")
    state = arrays.pack(held, {**header, "digest": envelope._digest(held, header)})
    rows = header["state"]["rows"]
    old = with_state(lambda _: state)(standing(state_version=written, rows=rows)(found))
    old = with_part([one for one in old if one[0] != b"P"], b"E", lambda part: msgspec.structs.replace(part, pending=0))
    assert [name] == (await restore(other, sealed(old)))["restored"]
    model = await other.get(f"/models/{name}")
    assert (rows, told[b"S"].version) == (model["rows"], model["version"])
    row = {"features": features(1), "label": 1.0, "id": "one"}
    assert (await other.post(f"/models/{name}/feedback", row))["duplicate"]
    names = [
        one if isinstance(one, str) else one["name"] for one in (await other.get(f"/models/{name}/features"))["current"]
    ]
    learnt = await other.post(f"/models/{name}/feedback", {"features": dict.fromkeys(names, 0.5), "label": 1.0})
    assert rows + 1 == learnt["rows"]
