"""One serial log explains what clients of concurrent services see; the judge notices violations."""

import os
import re
from pathlib import Path

import pytest

from tests.faults import judge
from tests.faults.histories import CONFIG, MODEL, P0, Historians
from tests.faults.judge import Call, Judge, Row, State
from tests.faults.plants import PLANTS
from tests.faults.storm import calm, kill_service, kill_store, rage, services_on

pytestmark = pytest.mark.timeout(600)
SECONDS = float(os.environ.get("STORM_S", "7"))
ROUNDS = 10
SEED = int(os.environ.get("STORM_SEED", "1"))


def test_a_storm_leaves_a_history_that_one_log_explains(serve, store):
    """Three services, six clients, kills of services and store: every answer fits one serial log."""
    services = services_on(serve, store.url, 3, {MODEL: CONFIG}, SNAPSHOT_MIN_KB=16)
    with Historians(services, seed=SEED) as historians:
        strikes = [("service", kill_service(services)), ("store", kill_store(store, 0.5))]
        rage(SECONDS, SEED, strikes, historians.counts)
        calm(services)
    assert [] == historians.verdict()
    print(f"{len(historians.history)} calls", dict(historians.counts))


@pytest.mark.slow_but("ids_are*", "entries_of_others_are_left_out")
@pytest.mark.parametrize("plant", PLANTS)
def test_the_judge_finds_what_is_broken(serve, store, plant):
    """Two services broken in the same way: within some rounds their clients see what no serial log explains."""
    services = services_on(serve, store.url, 2, {MODEL: CONFIG}, plant=plant)
    for _ in range(ROUNDS):
        with Historians(services, clients=4, calls=40) as historians:
            pass
        if verdict := historians.verdict():
            return
        assert 204 == services[0].request("DELETE", f"/models/{MODEL}").status
        services[0].create(MODEL, **CONFIG)
    assert [] != verdict


def _told(rows, lost=(), unsent=()):
    """The history of rows sent one by one; ``lost`` ones were learned but not answered, ``unsent`` ones not learned."""
    state, calls = State(P0), []
    for at, (x, y) in enumerate(rows):
        answer = {"prediction": state.predict(x), "rows": state.rows + 1, "version": state.rows + 1, "duplicate": False}
        calls.append(Call("learn", at, at + 0.5, {"x": x, "y": y}, None if at in (*lost, *unsent) else answer))
        if at not in unsent:
            state = state.after(Row(x, y, at))
    calls.append(Call("read", 1e9, 1e9 + 1, {"strong": True}, {"rows": state.rows, "version": state.rows}))
    return calls


ROWS = [(at % 7 - 3.1, at % 5 - 2.2) for at in range(60)]


def test_unanswered_rows_are_placed():
    """Later predictions show which of them were learned, and where."""
    assert [] == Judge(_told(ROWS, lost=(3, 4, 30), unsent=(5, 29, 31, 50)), P0).verdict()


def _read(at, answer, **asked):
    """Insert a read after the row with that number."""
    return lambda calls: calls.insert(at, Call("read", at, at + 0.1, asked, answer))


def _change(at, **other):
    return lambda calls: calls[at].answer.update(other)


def _swap(calls):
    calls[30].answer["rows"], calls[39].answer["rows"] = 40, 31


def _predict(calls):
    calls.insert(30, Call("predict", 30, 30.1, {"x": 1.0}, {"prediction": 0.1, "version": 30}))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_change(20, rows=20), "once: two rows are number 20"),
        (_change(-1, rows=59), "lost: row 60 was acknowledged; 59 rows are left"),
        (_change(-1, rows=61), "state: row 61 is in the log but no client sent it"),
        (_change(30, prediction=0.5), "state: no order of rows explains the prediction for row 31"),
        (_swap, "order: row 31 was sent after row 40 was acknowledged"),
        (_change(30, version=40), "state: versions do not grow"),
        (_read(30, {"rows": 29, "version": 29}, strong=True), "fresh: a strong read has 29 rows"),
        (_read(30, {"rows": 20, "version": 20}, min_version=30), "fresh: version 20 instead of at least 30"),
        (_read(30, {"rows": 30, "version": 31}), "state: version 31 was read with 30 rows"),
        (_read(30, {"rows": 40, "version": 40}), "order: a read saw row 40 before row 32 was sent"),
        (_predict, "state: version 30 does not predict"),
    ],
)
def test_each_contradiction_is_named(change, expected):
    """A history without faults, with one change."""
    calls = _told(ROWS)
    assert [] == Judge(calls, P0).verdict()
    change(calls)
    found = Judge(calls, P0).verdict()
    assert any(what.startswith(expected) for what in found), found


def test_the_judge_shares_no_code():
    """It imports neither core, service or tests nor NumPy."""
    source = Path(judge.__file__).read_text()
    assert [] == re.findall(r"^(?:from|import) (?:core|service|tests|numpy).*", source, re.MULTILINE)
