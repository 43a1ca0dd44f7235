"""The tail of a log is read ahead while it is applied; an error is that of the first entry it concerns."""

import json
from types import SimpleNamespace

import msgspec
import pytest

from service.errors import ModelDown, StoreDown
from service.runtime.replicas.loader import Loader
from service.runtime.stats import Stats
from service.store.catalog import ModelMeta
from service.store.log.entries import ReadOn
from tests.service.runtime.test_entry_runs import NARROW, narrow

ENTRIES = 6


async def load(*parts, head=ENTRIES, grows=0):
    """The replica of a log that is read in parts, an error in place of a part; and how far each reading had come.

    Others append ``grows`` entries between two readings.
    """
    found, asked = [*parts], []

    async def read_after(_name, _incarnation, version, *_limits):
        asked.append(version)
        part = found.pop(0)
        if isinstance(part, Exception):
            raise part
        return ReadOn("ok", head + grows * (len(asked) - 1), tuple(part))

    async def answer(value):
        return value

    meta = ModelMeta("m", "inc", json.dumps(NARROW.to_json()).encode(), head, "uid", 0, 0)
    store = SimpleNamespace(
        catalog=SimpleNamespace(read=lambda _name: answer(meta)),
        snapshots=SimpleNamespace(list=lambda *_model: answer([])),
        log=SimpleNamespace(read_after=read_after),
        states=None,
    )
    return await Loader(store, Stats()).load("m"), asked


async def test_a_tail_in_several_parts_is_applied_in_order():
    """The last part reaches the head, behind which nothing is asked for."""
    entries = narrow(ENTRIES)
    replica, asked = await load(entries[:2], entries[2:5], entries[5:])
    assert (ENTRIES, ENTRIES, [0, 2, 5]) == (replica.version, replica.model.rows, asked)


async def test_loading_ends_though_others_go_on_appending():
    """What they append meanwhile is left to the follower."""
    entries = narrow(12)
    replica, asked = await load(*(entries[at : at + 2] for at in range(0, 12, 2)), grows=2)
    assert (ENTRIES, [0, 2, 4]) == (replica.version, asked)


@pytest.mark.parametrize("left", [2, 4])
async def test_a_log_that_loses_its_tail_meanwhile_is_loaded_as_far_as_it_goes(left):
    """After a failover, say."""
    entries = narrow(left)
    replica, asked = await load(entries[:2], entries[2:], grows=left - ENTRIES)
    assert (left, [0, 2]) == (replica.version, asked)


async def test_a_log_that_ends_before_its_head_is_not_loaded():
    """The part behind the last entry is empty."""
    with pytest.raises(ModelDown, match="its log ends before its head"):
        await load(narrow(3), [])


@pytest.mark.parametrize("ahead", [StoreDown("gone"), []])
async def test_a_corrupt_entry_is_named_whatever_was_read_ahead(ahead):
    """Even if the store has failed meanwhile."""
    entries = narrow(ENTRIES)
    entries[1] = msgspec.structs.replace(entries[1], segments=((0, b"\x93rubbish", ()),))
    with pytest.raises(ModelDown, match="log entry 2: log segment is corrupt"):
        await load(entries[:3], ahead)


async def test_a_store_that_fails_ahead_fails_the_load():
    """Nothing is kept of it: the next load reads on."""
    with pytest.raises(StoreDown, match="gone"):
        await load(narrow(3), StoreDown("gone"))
