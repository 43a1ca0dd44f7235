"""A private store whose disk is full takes no data until there is room, and says so if it cannot write what it has."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from service.disk_reserve import RESERVE_BYTES
from service.embedded import EmbeddedStore
from service.store_process import ask
from tests.faults.processes import eventually

LARGE = 1000 * RESERVE_BYTES


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path, "everysec", room_mb=64)
    yield made
    made.stop()


def test_without_room_for_the_reserve_nothing_is_taken(store, tmp_path, monkeypatch, caplog):
    """From the start, or once somebody has deleted it; with room again all is as before."""
    disk = SimpleNamespace(total=LARGE, free=2 * 2**20 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    reserve = tmp_path / "reserve"
    with Redis.from_url(store.start()) as redis:
        for _ in range(2):
            assert store.short_of_disk()
            with pytest.raises(OutOfMemoryError):
                redis.set("x", "y")
            assert not reserve.exists()
            disk.free += 1
            assert not store.short_of_disk()
            assert redis.set("x", "y")
            assert {"maxmemory": str(64 * 2**20)} == redis.config_get("maxmemory")
            assert 2**20 == reserve.stat().st_size
            disk.free -= 1
            assert not store.short_of_disk()
            reserve.unlink()
    assert 2 == sum("full: feedback gets 503 until 2 MB are free" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("total", "free", "size"),
    [(LARGE, LARGE, RESERVE_BYTES), (LARGE, 28 * 2**20, 7 * 2**20), (40 * 2**20, 40 * 2**20, 5 * 2**20)],
)
def test_the_reserve_suits_the_disk(store, tmp_path, monkeypatch, total, free, size):
    """A file that was written in part only is replaced; one that is whole stays."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=total, free=free))
    (tmp_path / "reserve").write_bytes(b"part")
    store.start()
    whole = (tmp_path / "reserve").stat()
    assert not store.short_of_disk()
    assert (size, whole.st_mtime_ns) == (whole.st_size, (tmp_path / "reserve").stat().st_mtime_ns)


def test_the_reserve_stays_until_nothing_more_is_taken(store, tmp_path, monkeypatch):
    """Else the server could acknowledge more than it has room for."""
    store.start()
    monkeypatch.setattr(store._reserve, "_failing", lambda: True)
    with monkeypatch.context() as unheard:
        unheard.setattr(store._reserve, "_limit", lambda _: False)
        assert not store.short_of_disk()
        assert (tmp_path / "reserve").exists()
    assert store.short_of_disk()
    assert not (tmp_path / "reserve").exists()


def test_a_reserve_that_cannot_be_written_is_not_tried_at_once_again(store, tmp_path, monkeypatch):
    """There may be a quota, which the statistics of the file system do not show."""
    (tmp_path / "reserve").mkdir()
    with Redis.from_url(store.start()) as redis:
        assert store.short_of_disk()
        (tmp_path / "reserve").rmdir()
        assert store.short_of_disk()
        store._reserve._again_at = 0.0
        assert not store.short_of_disk()
        assert redis.set("x", "y")


def limited(store: EmbeddedStore, size: int) -> None:
    server = int(ask(store._socket, "INFO", "server").partition("process_id:")[2].split()[0])
    psutil.Process(server).rlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="only Linux limits the files of another process")
def test_what_the_server_cannot_write_is_logged(store, tmp_path, caplog):
    """When it is stopped; unless it can write it then, for which it has the reserve."""
    for lost in (0, 1):
        caplog.clear()
        with Redis.from_url(store.start()) as redis:
            assert redis.set("x", "y")
            limited(store, 10)
            assert redis.set("acknowledged", lost)
            assert eventually(True, store.short_of_disk)
            assert not (tmp_path / "reserve").exists()
            if not lost:
                limited(store, resource.RLIM_INFINITY)
        store.stop()
        assert lost == sum("the last acknowledged rows are lost" in line for line in caplog.messages)
    with Redis.from_url(store.start(), decode_responses=True) as redis:
        assert "0" == redis.get("acknowledged")
