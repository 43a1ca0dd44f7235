"""A store started from a copy of its files that was taken while clients were learning."""

import shutil

import pytest

from core.model import save
from tests.faults.load import Load, rows
from tests.faults.processes import Store, eventually
from tests.faults.rebuild import config_of, rebuild, repeat, stamp, whole_log

NAMES = ["m", "n"]
WHOLE_LOG = {"SNAPSHOT_MIN_KB": 10**6}


@pytest.fixture
def second():
    """The store that starts from the copy."""
    made = Store()
    try:
        yield made
    finally:
        made.end()


def _rdb(store, second):
    """An RDB file, taken in the background."""
    taken = store.rdb()
    return lambda: second.begin_with(taken)


def _aof(store, second):
    """The append-only files, cut off wherever they happen to end, and not rewritten meanwhile."""
    with store.client() as client:
        assert 0 == eventually(0, lambda: store.rewrites(client))
    shutil.copytree(store.data, second.data, dirs_exist_ok=True)
    return second.start


def _tracked(service, row, name="m"):
    told = service.request("POST", f"/models/{name}/predict", {"features": row.features, "track": True}).json
    return told["prediction_id"]


def _late(service, identity, label):
    told = service.request("POST", "/models/m/feedback", {"prediction_id": identity, "label": label})
    assert 200 == told.status, told.body
    return told.json["duplicate"]


@pytest.mark.slow_but("_rdb")
@pytest.mark.parametrize("copied", [_rdb, _aof])
def test_a_copy_taken_under_load(serve, store, second, copied):
    """Models are at an earlier version, to the last bit; ids are known, labels of tracked predictions accepted."""
    first = serve(REDIS_URL=store.url, **WHOLE_LOG).start()
    tables = {name: rows(400, seed, name) for seed, name in enumerate(NAMES)}
    late = rows(3, 9)
    for name in NAMES:
        first.create(name)
        Load([first], tables[name][:20], clients=1, model=name).run()
    labelled, *waiting = [_tracked(first, row) for row in late]
    assert not _late(first, labelled, late[0].label)
    loads = {name: Load([first], tables[name][20:], model=name).start() for name in NAMES}
    for load in loads.values():
        load.acknowledged(60)
    start = copied(store, second)
    assert any(len(load.answers) < 380 for load in loads.values()), "the copy was taken after the load"
    for load in loads.values():
        load.finish()
    logs = {name: (config_of(store.url, name), whole_log(store.url, name)) for name in NAMES}
    first.stop()
    store.stop()

    start()
    service = serve(REDIS_URL=second.url, **WHOLE_LOG).start()
    for name, (config, entries) in logs.items():
        state, answers = service.state(name), loads[name].answers
        version = stamp(state)["version"]
        serial = rebuild(config, entries[:version])
        assert save.to_bytes(serial.model, stamp(state)) == state
        assert entries[version - 1].uid == stamp(state)["uid"]
        before = [row for row in tables[name][20:] if answers[row.id]["version"] <= version]
        assert 60 <= len(before)
        repeat(service, before, loads[name], name=name)
        after = [row for row in tables[name] if row not in before][20:]
        told = Load([service], after, model=name).run().answers.values()
        assert {False} >= {answer["duplicate"] for answer in told}
        assert 400 + (name == "m") == service.get(f"/models/{name}")["rows"]
    assert [True, False, False] == [
        _late(service, identity, row.label) for identity, row in zip([labelled, *waiting], late, strict=True)
    ]
