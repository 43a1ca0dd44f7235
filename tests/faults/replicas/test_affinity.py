"""Services that share models by affinity: one dies or is replaced under load, and only its models notice."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.faults.affinity import Router
from tests.faults.load import Load, Row, rows
from tests.faults.processes import Service, Store
from tests.faults.rebuild import history, judge, repeat

NAMES = [f"m{number}" for number in range(6)]
ROWS = 150
MANY_ROWS = 600
"""Enough rows that no model has all of its rows once each has some, even on a busy machine."""


@pytest.fixture
def pair(serve, store) -> list[Service]:
    """Two services with a long drain, and six models."""
    made = [serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6, DRAIN_S=600).start() for _ in range(2)]
    for name in NAMES:
        made[0].create(name)
    return made


@pytest.fixture
def router(pair) -> Iterator[Router]:
    """A router in front of both."""
    made = Router(pair)
    yield made
    made.end()


def _tables(prefix: str, count: int = ROWS) -> dict[str, list[Row]]:
    """Rows for every model."""
    return {name: rows(count, 50, f"{prefix}-{name}-") for name in NAMES}


def _under_load(
    pair: Sequence[Service], router: Router, tables: dict[str, list[Row]], step: Callable[[dict[str, Load]], None]
) -> dict[str, Load]:
    """Learn rows of every model; call ``step`` once each has some; wait until all rows are acknowledged."""
    loads = {name: Load(pair, tables[name], clients=2, model=name, client=router.client) for name in NAMES}
    for load in loads.values():
        load.start()
    for load in loads.values():
        load.acknowledged(ROWS // 15)
    step(loads)
    for load in loads.values():
        load.finish()
    return loads


def _judge(service: Service, store: Store, name: str, *loads: tuple[Load, list[Row]]) -> None:
    """Acknowledged rows are learned once, and the state equals a serial replay."""
    table = [row for _, own in loads for row in own]
    judge(service, table, *(load for load, _ in loads), name=name, entries=history(store.data, store.url, name))
    for load, own in loads:
        repeat(service, own[:20], load, clients=2, name=name)


@pytest.mark.slow
def test_only_the_models_of_a_killed_service_move(pair, router, store):
    """The other service loads exactly these; no acknowledged row is lost or in twice."""
    homes = router.homes(NAMES)
    assert {0, 1} == {*homes.values()}
    loaded = pair[1].metric("loads")
    moved: set[str] = set()

    def kill(loads: dict[str, Load]) -> None:
        moved.update(name for name, load in loads.items() if homes[name] == 0 and len(load.answers) < MANY_ROWS - 5)
        pair[0].kill()

    tables = _tables("k", MANY_ROWS)
    loads = _under_load(pair, router, tables, kill)
    assert moved
    assert (
        {*homes.items()} | {(name, 1) for name in moved}
        <= {*router.sent}
        <= {*homes.items()} | {(name, 1) for name in NAMES}
    )
    stayed = [name for name in NAMES if homes[name] == 1]
    assert [0] * len(stayed) == [loads[name].broken + loads[name].refused.total() for name in stayed]
    assert len({name for name, at in router.sent if at == 1}) == pair[1].metric("loads") - loaded
    for name in NAMES:
        _judge(pair[1], store, name, (loads[name], tables[name]))


@pytest.mark.slow
def test_services_are_replaced_one_after_the_other(pair, router, store):
    """Each reports that it is not ready and stops once the router knows: no connection breaks, no row is refused."""

    def leave(loads: dict[str, Load]) -> None:
        service.ask_to_stop()
        router.until(at, ready=False)
        before = {name: len(load.answers) for name, load in loads.items()}
        for name, load in loads.items():
            load.wait(lambda load, name=name: len(load.answers) > min(before[name] + 2, ROWS - 1))
        assert 0 == service.stop()

    done: list[tuple[dict[str, Load], dict[str, list[Row]]]] = []
    for at, service in enumerate(pair):
        tables = _tables(f"r{at}")
        loads = _under_load(pair, router, tables, leave)
        assert (0, 0) == (
            sum(each.broken for each in loads.values()),
            sum(len(each.refused) for each in loads.values()),
        )
        done.append((loads, tables))
        service.start()
        router.until(at, ready=True)
    assert {0, 1} == {at for _, at in router.sent}
    for name in NAMES:
        _judge(pair[0], store, name, *((loads[name], tables[name]) for loads, tables in done))
    assert "ERROR" not in pair[0].log + pair[1].log
