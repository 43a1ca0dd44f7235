"""Two services on one store, with clients at both."""

from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest

import pytest

from service.store.log.log import READ_AFTER
from tests.faults.load import Client, Load, rows
from tests.faults.processes import BROKEN
from tests.faults.rebuild import bare, judge, learnt, repeat


def test_clients_of_both_give_the_state_of_a_serial_replay(pair):
    """Both learn at once, some ids at both: each row is in once with one answer, and the states have equal bits."""
    for service in pair:
        service.create()
    own = [rows(500, 30 + at, f"own{at}-") for at in range(2)]
    shared = rows(200, 32, "shared")
    mixed = [[row for both in zip_longest(table, shared) for row in both if row is not None] for table in own]
    loads = [Load([service], table).start() for service, table in zip(pair, mixed, strict=True)]
    first, second = (load.finish() for load in loads)

    for row in shared:
        assert learnt(first.answers[row.id]) == learnt(second.answers[row.id])
        assert [False, True] == sorted(load.answers[row.id]["duplicate"] for load in loads)
    states = [service.state() for service in pair]
    assert states[0] == states[1]
    everything = [*own[0], *own[1], *shared]
    judge(pair[0], everything, first, second)
    repeat(pair[1], mixed[0], first)
    assert [0, 0] == [service.metric("lost_tails") + service.metric("models_down") for service in pair]


@pytest.mark.slow_but("applied")
@pytest.mark.parametrize("point", ["appended", "applied"])
def test_a_retry_at_the_other_service_gets_the_answer_of_the_first(serve, store, clean, point):
    """One dies with a row in the log and no answer recorded; the other answers its retry, also after a snapshot."""
    table = rows(24, 34)
    dying, other = serve(REDIS_URL=store.url), serve(REDIS_URL=store.url).start()
    dying.start(FAILPOINT=f"{point}:13").create()
    client, answers = Client(dying), []
    with pytest.raises(BROKEN):
        answers.extend(client.learn(row) for row in table)
    assert (12, -9) == (len(answers), dying.died())
    retries = Client(other)
    answers.append(retries.learn(table[12]))
    assert answers[-1]["duplicate"]
    answers += [retries.learn(row) for row in table[13:]]
    assert clean(table) == ([learnt(answer) for answer in answers], bare(other.state()))
    assert 201 == other.request("POST", "/models/m/snapshots").status
    dying.start()
    again = Client(dying)
    assert [learnt(answer) for answer in answers] == [learnt(again.learn(row)) for row in table]
    assert other.state() == dying.state()


@pytest.mark.slow_but("before-the-tail")
@pytest.mark.parametrize("moment", ["before-the-first", "before-a-piece", "before-the-tail"])
def test_a_snapshot_by_one_while_the_other_loads(serve, store, proxy, moment):
    """The data is trimmed and replaced while it is read: the reader starts again and reports no corruption."""
    table = rows(90, 35)
    loading = serve(REDIS_URL=proxy.url, SNAPSHOT_MIN_KB=10**6).start()
    other = serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6, SNAPSHOTS_KEPT=1).start()
    other.create()
    load = Load([other], table).run()
    if moment != "before-the-first":
        assert 201 == other.request("POST", "/models/m/snapshots").status
    proxy.pause_before("HGET" if moment == "before-a-piece" else READ_AFTER.sha)
    with ThreadPoolExecutor(1) as pool:
        state = pool.submit(loading.state)
        assert proxy.paused.wait(60)
        if moment != "before-the-first":
            Client(other).learn(rows(1, 36, "late")[0])
        assert 201 == other.request("POST", "/models/m/snapshots").status
        proxy.open.set()
        assert other.state() == state.result(60)
    assert (0, 0) == (loading.metric("corrupt_snapshots"), loading.metric("models_down"))
    repeat(loading, table, load)
