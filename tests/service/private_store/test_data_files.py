"""The files of a private store: damaged, incomplete or left over."""

import errno
import re
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from service import embedded
from service.aof_gaps import close_gaps
from service.embedded import CannotStart
from tests.service.private_store.test_embedded import client


def stopped(start, directory: Path) -> Path:
    """The append-only file of a store that was given one key and stopped."""
    store = start()
    with client(store) as redis:
        redis.set("x", "y")
    store.stop()
    return next(path for path in (directory / "data").rglob("*.incr.aof"))


def test_a_torn_tail_is_cut_off(start, directory):
    """What a power cut leaves of the last command; everything before it is there."""
    with stopped(start, directory).open("ab") as aof:
        aof.write(b"*3\r\n$3\r\nSET\r\n$1\r\nz")
    with client(start()) as redis:
        assert ["x"] == redis.keys()


def test_corrupt_data_are_refused_with_the_servers_own_words(start, directory, monkeypatch):
    """On a full disk the server has none. Nothing is reset; the directory is free again for whoever repairs it."""
    aof = stopped(start, directory)
    whole = aof.read_bytes()
    aof.write_bytes(b"#" + whole)
    with pytest.raises(CannotStart, match="(?s)exited immediately.*Bad file format"):
        start()
    with monkeypatch.context() as full:
        full.setattr(embedded, "FREE_BYTES_MIN", 2**62)
        with pytest.raises(
            CannotStart, match=r"exited immediately; no space is left on the disk of .*ONEPASS_DATA_DIR"
        ):
            start()
    aof.write_bytes(whole)
    with client(start()) as redis:
        assert ["x"] == redis.keys()


def test_gaps_are_closed(start, directory, caplog):
    """Between commands and at the end, not in what they say; nothing else is lost, and the log tells."""
    said = "x\r\n\0\0*\r\n$"
    store = start()
    with client(store) as redis:
        redis.set("first", said)
        redis.set("last", said)
    store.stop()
    aof = next(path for path in (directory / "data").rglob("*.incr.aof"))
    whole = aof.read_bytes()
    at = whole.index(b"*3", whole.index(b"first"))
    aof.write_bytes(b"#TS:1700000000\r\n" + whole[:at] + bytes(300) + whole[at:] + bytes(4096))
    with client(start()) as redis:
        assert [said, said] == redis.mget("first", "last")
    assert b"#TS:1700000000\r\n" + whole == aof.read_bytes()[: 16 + len(whole)]
    assert 1 == sum("they are closed" in record.message for record in caplog.records)


def test_gaps_that_cannot_be_closed_are_no_damage(start, directory, monkeypatch):
    """On a disk that is still full: the advice for damaged data would cut off what is behind a gap."""
    aof = stopped(start, directory)
    whole = aof.read_bytes()
    aof.write_bytes(bytes(300) + whole)
    with monkeypatch.context() as full:
        full.setattr("os.fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(CannotStart, match=r"^the data directory .*ONEPASS_DATA_DIR.* No space left on device$"):
            start()
    assert bytes(300) + whole == aof.read_bytes()
    assert [] == list((directory / "data").glob("temp-*"))
    with client(start()) as redis:
        assert ["x"] == redis.keys()


@pytest.mark.parametrize("torn", [b"*", b"*3", b"*3\r\n$3\r", b"*3\r\n$3\r\nSET\r\n$1\r\nz"])
def test_gaps_are_closed_before_a_torn_command(tmp_path, torn):
    """A command without its end stays for the server to cut off."""
    file, whole = tmp_path / "aof", b"*1\r\n$4\r\nPING\r\n"
    file.write_bytes(whole + bytes(9) + torn)
    assert close_gaps(file, tmp_path / "scratch")
    assert whole + torn == file.read_bytes()
    assert not close_gaps(file, tmp_path / "scratch")
    assert [file] == list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [b"PING\r\n", b"*1\r\n:1\r\n", b"*x\r\n"])
def test_what_is_no_command_is_left_alone(tmp_path, wrong):
    """The gaps beside it too: only whole commands show where one is."""
    file = tmp_path / "aof"
    file.write_bytes(bytes(9) + wrong)
    with pytest.raises(ValueError):
        close_gaps(file, tmp_path / "scratch")
    assert bytes(9) + wrong == file.read_bytes()


def test_damaged_data_come_with_a_remedy(start, directory):
    """The first line names the command, which does help."""
    aof = stopped(start, directory)
    aof.write_bytes(aof.read_bytes() + b"garbage\r\n")
    with pytest.raises(CannotStart) as refused:
        start()
    command = re.search(r"; the data are damaged: copy .*, then run: (redis-check-aof --fix \S+)\n", str(refused.value))
    tool = directory / "redis-check-aof"
    tool.symlink_to(shutil.which("redis-server") or pytest.skip("no Redis"))
    subprocess.run([tool, *command[1].split()[1:]], input=b"y\n", check=True, capture_output=True)
    with client(start()) as redis:
        assert ["x"] == redis.keys()


def test_data_without_their_manifest_are_not_passed_over(start, directory):
    """Else the store would start empty, and mix new data with the old ones later; empty files are no data."""
    aof = stopped(start, directory)
    manifest = aof.with_name("appendonly.aof.manifest")
    kept = manifest.rename(directory / "kept")
    with pytest.raises(CannotStart, match=r"appendonlydir has data, but no appendonly\.aof\.manifest: restore it"):
        start()
    assert aof.stat().st_size > 0
    kept.rename(manifest)
    store = start()
    with client(store) as redis:
        assert ["x"] == redis.keys()
    store.stop()
    aof.write_bytes(b"")
    manifest.unlink()
    assert start().alive()


def test_what_an_interrupted_rewrite_leaves_is_removed(start, directory):
    """It can be as large as the data, and no server would ever use it."""
    data = stopped(start, directory).parents[1]
    for name in ("temp-rewriteaof-7.aof", "temp-rewriteaof-bg-7.aof"):
        (data / name).write_text("part")
    with client(start()) as redis:
        assert ["x"] == redis.keys()
    assert [] == list(data.glob("temp-*"))
