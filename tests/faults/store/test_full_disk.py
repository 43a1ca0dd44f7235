"""The disk of the private store is full: acknowledged rows are safe, restarts are few, and the service recovers."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from service.store_process import ask
from tests.faults.processes import eventually


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    options = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if mount is None or subprocess.run(options, capture_output=True).returncode:
        pytest.skip("no permission to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(disk: Path) -> Path:
    """A file that leaves nothing free."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError):
        ballast.write_bytes(bytes(2 * shutil.disk_usage(disk).free))
    assert 4096 > shutil.disk_usage(disk).free
    return ballast


def test_a_full_disk_causes_no_storm_of_restarts(serve, tiny_disk):
    """Labels are refused, the store restarts a few times, the log says why; with free space all recovers."""
    service = serve(DATA_DIR=tiny_disk / "data", DURABILITY="always", STORE_TIMEOUT_S=1.0).start()
    service.create()
    row = {"features": {"a": 1.0}, "label": "x"}
    assert 200 == service.request("POST", "/models/m/feedback", row | {"id": "before"}).status
    ballast = filled(tiny_disk)
    acknowledged, refused = set(), 0
    for number in range(400):
        status = service.request("POST", "/models/m/feedback", row | {"id": f"r{number}"}).status
        assert status in {200, 503}
        if status == 200:
            acknowledged.add(f"r{number}")
        else:
            refused += 1
        if refused == 25:
            break
    assert 25 == refused
    assert 10 > service.metric("store_restarts")
    assert 1 == service.log.count("the private store has died")
    assert 1 <= service.log.count("no space is left on the disk") <= 2  # it died, and perhaps it could not start
    ballast.unlink()
    assert 200 == eventually(200, service.ready)
    assert 200 == eventually(200, lambda: service.request("POST", "/models/m/feedback", row | {"id": "after"}).status)
    for name in sorted(acknowledged | {"before", "after"}):
        assert service.request("POST", "/models/m/feedback", row | {"id": name}).json["duplicate"]


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_acknowledged_while_the_disk_became_full_is_kept(serve, tiny_disk, end, rewritten):
    """With "everysec", however the service ends; until there is room, also after a start, nothing more is taken.

    A server whose file was rewritten leaves a gap in it, which the next start closes.
    """
    service = serve(DATA_DIR=tiny_disk / "data").start()
    service.create()
    if rewritten:
        server = tiny_disk / "data/store.sock"
        ask(server, "BGREWRITEAOF")
        assert eventually(True, lambda: "aof_rewrite_in_progress:0" in ask(server, "INFO", "persistence"))
    row = {"features": {"a": 1.0}, "label": "x"}
    assert 200 == service.request("POST", "/models/m/feedback", row | {"id": "before"}).status
    ballast = filled(tiny_disk)
    acknowledged = ["before"]
    for number in range(400):
        answer = service.request("POST", "/models/m/feedback", row | {"id": f"r{number}"})
        if answer.status != 200:
            break
        acknowledged.append(f"r{number}")
    assert len(acknowledged) > 1
    for _ in range(2):
        assert 1 == eventually(1, lambda: service.log.count("is full: feedback gets 503 until 2 MB are free"))
        for _ in range(3):
            time.sleep(1.0)
            answer = service.request("POST", "/models/m/feedback", row)
            assert (503, "store-full", True) == (answer.status, answer.problem, "its disk" in answer.json["detail"])
        assert (200, len(acknowledged)) == (service.ready(), service.rows())
        getattr(service, end)()
        service.log_file.write_text("")
        service.start()
    ballast.unlink()
    assert 1 == eventually(1, lambda: service.log.count("has room again"))
    for name in acknowledged:
        assert service.request("POST", "/models/m/feedback", row | {"id": name}).json["duplicate"]
    answer = service.request("POST", "/models/m/feedback", row)
    assert (200, len(acknowledged) + 1) == (answer.status, answer.json["rows"])
