"""A private store that keeps dying is started again after ever longer pauses, and what it dies of is said once.

One that has much to load is waited for.
"""

import asyncio
import fcntl
import logging
import math
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from service import embedded
from service.embedded import CannotStart, EmbeddedStore
from service.runtime import backoff
from service.runtime.backoff import Backoff
from service.runtime.stats import Stats
from service.store_keeper import AGAIN_S_MAX, STEADY_S, StoreKeeper
from tests.simulator.clock import Loop


def test_bounds_double_up_to_the_most(monkeypatch):
    """And begin again after a success."""
    monkeypatch.setattr(backoff, "random", lambda: 0.5)
    pauses = Backoff(0.1, 0.5)
    assert [0.05, 0.1, 0.2, 0.25, 0.25] == [pauses.next_s() for _ in range(5)]
    assert not pauses.first
    pauses.reset()
    assert pauses.first
    assert 0.05 == pauses.next_s()


def test_every_length_below_the_bound_occurs(monkeypatch):
    """Pauses are spread over all of the bound, not around its end."""
    monkeypatch.setattr(backoff, "random", random.Random(1).random)
    pauses = [Backoff(1.0, 8.0).next_s() for _ in range(200)]
    assert all(0 <= pause < 1 for pause in pauses)
    quarters = [sum(q <= 4 * pause < q + 1 for pause in pauses) for q in range(4)]
    assert all(30 < count < 70 for count in quarters)


class Dying:
    """A store that lives for as long as ``lives_s`` says each time; None: it cannot be started."""

    def __init__(self, loop: Loop, lives_s: list[float | None]) -> None:
        self.loop, self.lives_s, self.starts = loop, iter(lives_s), []
        self.until = 0.0
        self.removed_s: tuple[float, float] = (math.inf, math.inf)  # from when to when its directory is not there
        self.short_of_disk = lambda: loop.time() < 10.0

    def in_place(self) -> bool:
        begin, end = self.removed_s
        return not begin <= self.loop.time() < end

    def alive(self) -> bool:
        return self.loop.time() < self.until

    def why(self) -> str:
        return "no space is left on the disk"

    def restart(self) -> None:
        lives_s = next(self.lives_s)
        if lives_s is None:
            raise CannotStart("no server")
        self.starts.append(self.loop.time())
        self.until = self.loop.time() + lives_s


@pytest.fixture
def kept(monkeypatch, caplog):
    """Keeps a store that dies for some simulated seconds; returns it and the engine."""
    monkeypatch.setattr(backoff, "random", random.Random(7).random)
    caplog.set_level(logging.INFO)

    def keep(lives_s, seconds, removed_s=None):
        loop = Loop(random.Random(7), thread_s=0.0)
        connection = SimpleNamespace(short_of_disk=None)
        engine = SimpleNamespace(stats=Stats(), in_place=True, store=SimpleNamespace(connection=connection))
        store = Dying(loop, lives_s)
        store.removed_s = removed_s or store.removed_s

        async def run():
            task = asyncio.create_task(StoreKeeper(store, engine).run())
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        loop.run_until_complete(run())
        loop.close()
        return store, engine

    return keep


def test_a_store_that_dies_at_once_is_started_seldom(kept, caplog):
    """Ten minutes of a full disk: some forty starts and not two thousand, one line that says why, and a count."""
    store, engine = kept([0.1] * 10_000, 600)
    gaps = [after - before for before, after in zip(store.starts, store.starts[1:], strict=False)]
    assert len(store.starts) == engine.stats.store_restarts
    assert 30 < engine.stats.store_restarts < 80
    assert all(gap < AGAIN_S_MAX + 1 for gap in gaps)
    assert sum(gaps[:5]) < sum(gaps[-5:])
    assert ["no space is left on the disk"] == [
        line.rpartition(": ")[2] for line in caplog.messages if "private store has died" in line
    ]


def test_a_store_that_lives_again_is_well(kept, caplog):
    """After a while of life the next death is said anew, and its first pause is short."""
    store, engine = kept([0.1] * 20 + [STEADY_S + 5, 10_000], 600)
    assert (22, 2) == (engine.stats.store_restarts, sum("works again" in line for line in caplog.messages))
    assert 2 == sum("has died" in line for line in caplog.messages)
    assert 1 > store.starts[21] - store.starts[20] - STEADY_S - 5


def test_a_store_that_cannot_be_started_is_tried_on(kept, caplog):
    """With the same pauses; it is said once, and no start is counted that was none."""
    store, engine = kept([None] * 8 + [10_000], 600)
    assert (1, 1) == (engine.stats.store_restarts, len(store.starts))
    assert 1 == sum("cannot be restarted" in line for line in caplog.messages)


def test_a_full_disk_is_told_to_the_connection(kept):
    """Which then says what is full."""
    assert kept([10_000], 5)[1].store.connection.short_of_disk


def test_a_directory_that_was_removed_is_logged_once(kept, caplog):
    """While the server lives on and answers; the service is not ready for as long as it is missing."""
    for until_s, there in ((90, False), (60, True)):
        caplog.clear()
        _, engine = kept([10_000], 80, removed_s=(30, until_s))
        assert not engine.store.connection.short_of_disk
        assert there == engine.in_place
        assert 1 == sum("data directory" in line for line in caplog.messages)


def test_what_a_store_died_of_is_told(monkeypatch, tmp_path: Path):
    """A full file system, the server's own word of one, or else the end of what this server has logged."""
    store = EmbeddedStore(tmp_path, "always")
    log = tmp_path / "store.log"
    log.write_text("earlier: No space left on device\n")
    store._log_begin = log.stat().st_size
    with log.open("a") as file:
        file.write("killed\n")
    assert "the end of its log:\nkilled" == store.why()
    with log.open("a") as file:
        file.write("Error writing to the AOF file: No space left on device\n")
    assert store.why().startswith("no space is left on the disk of")
    log.write_text("")
    monkeypatch.setattr(embedded, "FREE_BYTES_MIN", 2**62)
    assert store.why().startswith("no space is left on the disk of")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch) -> Path:
    """A data directory that takes some three seconds to load, in which the server answers every fifth of a second."""
    store = EmbeddedStore(tmp_path, "everysec")
    with Redis.from_url(store.start()) as redis:
        redis.eval("for key = 1, 10000 do redis.call('SET', key, key) end", 0)
    store.stop()
    options = EmbeddedStore._options
    monkeypatch.setattr(EmbeddedStore, "_options", lambda self: [*options(self), "--key-load-delay", "200"])
    return tmp_path


def test_a_store_may_take_its_time_to_load(slow, monkeypatch, caplog):
    """A server that says that it is loading is waited for, however long; the log tells how far it is."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 1.5)
    monkeypatch.setattr(embedded, "LOADING_SAID_S", 0.5)
    store = EmbeddedStore(slow, "everysec")
    for begin in (store.start, store.restart):
        caplog.clear()
        begun = time.monotonic()
        with Redis.from_url(begin()) as redis:
            assert 10000 == redis.dbsize()
        assert time.monotonic() - begun > 2
        done = [int(re.search(r"loading its data: (\d+) %, about \d+ s left", line)[1]) for line in caplog.messages]
        assert len(done) > 1
        assert 0 < done[0] < done[-1] < 100
    store.stop()


def test_a_store_that_loads_is_given_up_with_the_service(slow):
    """At once; the next start finds the directory free and the data unchanged."""
    unwanted = threading.Event()
    store = EmbeddedStore(slow, "everysec", unwanted=unwanted.is_set)
    with ThreadPoolExecutor(1) as threads:
        started = threads.submit(store.start)
        time.sleep(0.5)
        begun = time.monotonic()
        unwanted.set()
        store.stop()
        with pytest.raises(CannotStart, match="told to stop"):
            started.result()
    assert time.monotonic() - begun < 3
    assert not store.alive()
    unwanted.clear()
    with Redis.from_url(store.start()) as redis:
        assert 10000 == redis.dbsize()
    store.stop()


def test_the_server_of_an_earlier_service_is_not_waited_for_without_need(tmp_path, monkeypatch):
    """A service that has been told to stop gives up there as well."""
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 1.0)
    (tmp_path / "server.lock").touch(0o600)
    with (tmp_path / "server.lock").open() as earlier:
        fcntl.flock(earlier, fcntl.LOCK_EX)
        with pytest.raises(CannotStart, match="told to stop"):
            EmbeddedStore(tmp_path, "everysec", unwanted=lambda: True).start()


def test_a_stop_waits_for_a_start_that_is_under_way(tmp_path, monkeypatch):
    """Else it would find nothing to stop, and the server would run on after it."""
    found, begun, goes_on = embedded._find_server(), threading.Event(), threading.Event()

    def find():
        begun.set()
        assert goes_on.wait(20)
        return found

    monkeypatch.setattr(embedded, "_find_server", find)
    store = EmbeddedStore(tmp_path, "everysec")
    with ThreadPoolExecutor(2) as threads:
        started = threads.submit(store.start)
        assert begun.wait(20)
        stopped = threads.submit(store.stop)
        time.sleep(0.1)
        goes_on.set()
        assert store.url == started.result()
        stopped.result()
    assert not store.alive()


def test_a_store_that_holds_more_than_it_may_is_still_used(tmp_path, caplog):
    """After a restart with a smaller limit it warns and does not grow; what is deleted makes room."""
    store = EmbeddedStore(tmp_path, "everysec", room_mb=64)
    with Redis.from_url(store.start()) as redis:
        redis.mset({f"k{number}": "x" * 2**20 for number in range(16)})
        assert {"maxmemory": str(64 * 2**20)} == redis.config_get("maxmemory")
    store.stop()
    assert [] == caplog.messages
    store = EmbeddedStore(tmp_path, "everysec", room_mb=8)
    with Redis.from_url(store.start()) as redis:
        assert re.search(r"holds \d\d MB, but .* leaves it 8 MB: it may not grow", caplog.text)
        with pytest.raises(OutOfMemoryError):
            redis.set("more", "x")
        assert 3 == redis.delete("k0", "k1", "k2")
        assert redis.set("more", "x")
        assert 14 == redis.dbsize()
    store.stop()


def test_what_was_deleted_before_a_restart_is_not_held(tmp_path, caplog):
    """The server frees it in the background, and still has most of it when it has loaded the rest."""
    store = EmbeddedStore(tmp_path, "everysec")
    with Redis.from_url(store.start()) as redis:
        for part in range(40):
            redis.hset("ids", mapping={f"{part} {row}": "x" * 40 for row in range(10_000)})
        redis.unlink("ids")
    store.stop()
    store = EmbeddedStore(tmp_path, "everysec", room_mb=8)
    with Redis.from_url(store.start()) as redis:
        assert {"maxmemory": str(8 * 2**20)} == redis.config_get("maxmemory")
    store.stop()
    assert [] == caplog.messages
