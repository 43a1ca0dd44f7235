"""Several servers as one store: a Redis Cluster and a primary watched by Sentinels, with failovers."""

import pytest

from tests.faults.drifts import Stream, calm, events, learn, moved
from tests.faults.load import Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import bare, config_of, judge, rebuild, repeat, whole_log
from tests.faults.servers import Cluster, Sentineled

NAMES = [f"m{number}" for number in range(6)]
WHOLE_LOG = {"SNAPSHOT_MIN_KB": 10**6, "STORE_TIMEOUT_S": 1}


@pytest.fixture(scope="module")
def _nodes():
    made = Cluster(appendfsync="always")
    try:
        yield made.start()
    finally:
        made.end()


@pytest.fixture
def cluster(_nodes):
    """Six running nodes without any model."""
    for node in _nodes.nodes:
        if not node.running:
            node.start()
    assert eventually(True, _nodes.whole)
    for node in _nodes.nodes:
        with node.client() as client:
            if client.info("replication")["role"] == "master":
                client.flushall()
    assert eventually(True, _nodes.whole)
    return _nodes


@pytest.fixture
def pair(serve, cluster):
    """Two services on the cluster."""
    return [serve(REDIS_URL=cluster.url, **WHOLE_LOG).start() for _ in range(2)]


def test_models_live_on_all_nodes_of_a_cluster(pair, cluster):
    """Each is created, learned by both services, listed, snapshotted and deleted, whichever node has its keys."""
    for name in NAMES:
        pair[0].create(name)
    assert 1 < len({cluster.primary(name).port for name in NAMES})
    assert NAMES == [model["name"] for model in pair[1].get("/models")["models"]]
    assert 200 == pair[0].request("GET", "/readyz").status
    assert "always" == pair[0].get("/readyz")["durability"]
    tables = {name: rows(60, 80, name) for name in NAMES}
    loads = [Load(pair, table, clients=2, model=name).start() for name, table in tables.items()]
    for (name, table), load in zip(tables.items(), loads, strict=True):
        load.finish()
        judge(pair[0], table, load, name=name)
        repeat(pair[1], table, load, clients=2, name=name)
        assert eventually(pair[0].state(name), lambda name=name: pair[1].state(name)) == pair[0].state(name)
        assert 201 == pair[0].request("POST", f"/models/{name}/snapshots").status
        assert 204 == pair[1].request("DELETE", f"/models/{name}").status
        assert 404 == eventually(404, lambda name=name: pair[0].request("GET", f"/models/{name}").status)


@pytest.mark.slow
def test_drift_events_of_models_on_all_nodes(pair):
    """A model and the event stream may be on different nodes: each event is in both, once, and live everywhere."""
    for name in NAMES[:3]:
        calm(pair[0], name)
    with Stream(pair[0]) as first, Stream(pair[1]) as second:
        for at, name in enumerate(NAMES[:3]):
            learn(pair[at % 2], moved(), name)
        expected = []
        for name in NAMES[:3]:
            found = pair[1].get(f"/models/{name}/drift?consistency=strong")["events"]
            assert len(found) > 0
            assert found == events(pair[0], name)
            expected += [event["id"] for event in found]
        heard = [[frame["data"]["id"] for frame in stream.drifts(len(expected))] for stream in (first, second)]
    assert sorted(expected) == sorted(heard[0])
    assert heard[0] == heard[1]
    for name in NAMES[:3]:
        assert 204 == pair[0].request("DELETE", f"/models/{name}").status
    assert sorted(expected) == sorted(event["id"] for name in NAMES[:3] for event in events(pair[1], name))


def _caught_up(cluster, name):
    with cluster.primary(name).client() as client:
        return client.wait(1, 1000) == 1


@pytest.mark.slow
def test_with_min_replicas_nothing_is_acknowledged_that_replicas_lack(serve, cluster):
    """ONEPASS_MIN_REPLICAS: 503 while the replica is cut off; after it is back the retries put every row in once."""
    service = serve(REDIS_URL=cluster.url, MIN_REPLICAS=1, **WHOLE_LOG).start()
    service.create()
    table = rows(60, 83)
    first = Load([service], table[:30]).run()
    replica = cluster.replica("m")
    replica.freeze()
    second = Load([service], table[30:], clients=4).start()
    second.wait(lambda load: load.refused["unreplicated"] >= 4)
    assert {} == second.answers
    replica.thaw()
    second.finish()
    judge(service, table, first, second)
    repeat(service, table[:30], first)
    assert 4 <= service.metric("unreplicated")


@pytest.mark.slow
def test_all_services_detect_what_an_asynchronous_failover_loses(pair, cluster):
    """A replica that was cut off while rows were acknowledged takes over: every service that had them reports it."""
    pair[0].create()
    table = rows(90, 82)
    kept = Load(pair, table[:30]).run()
    assert eventually(True, lambda: _caught_up(cluster, "m"))
    primary = cluster.primary("m")
    primary.cut_off()
    lost = Load(pair[:1], table[30:60]).run()
    assert 60 == eventually(60, lambda: pair[1].get("/models/m")["rows"])
    versions = pair[0].get("/models/m")["version"]
    primary.kill()
    for service in pair:
        assert 30 == eventually(30, service.rows)
        assert 1 == service.metric("lost_tails")
        assert versions - service.get("/models/m")["version"] == service.metric("lost_entries")
        assert not service.get("/readyz")["checks"]["log"]
        assert "are lost" in service.log
    again = Load(pair, table[30:]).run()
    judge(pair[0], table, kept, again)
    assert {False} == {again.answers[i]["duplicate"] for i in lost.answers}
    repeat(pair[1], table[:30], kept)
    assert pair[0].state() == pair[1].state()


@pytest.mark.slow
def test_a_slow_node_only_delays_its_own_models(serve, cluster):
    """One node of three is frozen: models on the others learn without delay while its own models wait."""
    service = serve(REDIS_URL=cluster.url, **{**WHOLE_LOG, "STORE_TIMEOUT_S": 20}).start()
    slow = cluster.primary("m0")
    elsewhere = next(name for name in NAMES if cluster.primary(name) is not slow)
    for name in ("m0", elsewhere):
        service.create(name)
    own, other = rows(4, 84, "own"), rows(200, 85, "other")
    Load([service], own[:1], model="m0").run()
    slow.freeze()
    waiting = Load([service], own[1:], clients=3, model="m0").start()
    load = Load([service], other, clients=2, model=elsewhere).run()
    assert ({}, {}) == (waiting.answers, dict(load.refused))
    slow.thaw()
    waiting.finish()
    judge(service, other, load, name=elsewhere)


@pytest.mark.slow
def test_the_primary_that_sentinels_name_is_followed(serve):
    """The primary is killed under load: the replica takes over, the services find it, and nothing is in twice."""
    sentineled = Sentineled()
    try:
        sentineled.start()
        pair = [serve(REDIS_URL=sentineled.url, **WHOLE_LOG).start() for _ in range(2)]
        pair[0].create()
        table = rows(300, 86)
        load = Load(pair, table).start()
        load.acknowledged(80)
        sentineled.primary.kill()
        load.finish()
        assert "master" == sentineled.replica.info("replication")["role"]
        entries = whole_log(sentineled.url)
        assert bare(pair[0].state()) == bare(pair[1].state())
        learned = rebuild(config_of(sentineled.url), entries).learned
        assert {1} == set(learned.values())
        assert 200 == eventually(200, pair[0].ready)
    finally:
        sentineled.end()
