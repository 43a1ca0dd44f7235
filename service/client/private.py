"""A service for one command: on a free port of this machine, with its data in a temporary directory.

It is a child process, which prints its address once it is ready. It stops when its standard input is closed, so it ends
with the command, however the command ends.
"""

import errno
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.client.failures import Failed
from service.client.session import Session

STOP_TIMEOUT_S, PATIENCE_S = 15.0, 5.0
_PLACES = ("HOST", "PORT", "ROOT_PATH", "CORS_ORIGINS", "REDIS_URL", "TLS_CERT", "TLS_KEY", "TLS_CA")
_NOT_SHARED = (*_PLACES, "API_KEYS", "WEBHOOKS", "WEBHOOK_SECRET", "RATE_PER_S", "MIN_REPLICAS", "DRAIN_S")
"""Settings of the operator's own service that a private one must not share."""
_OWN = {"ONEPASS_LOG_LEVEL": "warning", "ONEPASS_LOG_FORMAT": "console", "ONEPASS_GRACE_S": "5"}


@contextmanager
def session(port: int = 0, **more: str) -> Iterator[Session]:
    """Start a service with additional settings, open a session, then stop it; ``Failed`` if it does not start."""
    hidden = {f"ONEPASS_{name}{end}" for name in _NOT_SHARED for end in ("", "_FILE")}
    with tempfile.TemporaryDirectory(prefix="onepass-") as place:
        settings = _OWN | {"ONEPASS_DATA_DIR": f"{place}/data"} | more
        shared = {name: value for name, value in os.environ.items() if name.upper() not in hidden | settings.keys()}
        log = Path(place) / "service.log"
        with log.open("wb") as errors:
            child = subprocess.Popen(  # noqa: S603  our own interpreter and package
                [sys.executable, "-P", "-m", "service.client", "serve", "--port", str(port), "--until-eof"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=shared | settings,
                cwd=place,  # a directory without settings files of the operator
                start_new_session=True,  # Ctrl-C in the terminal ends the command, which ends the service
            )
        try:
            found = re.search(r"http://\S+\d", child.stdout.readline().decode() if child.stdout else "")
            if found is None:
                lines = log.read_text(errors="replace").splitlines()
                raise Failed("the private service did not start: " + (lines[-1] if lines else "its log is empty"))
            with Session(found[0], patience_s=PATIENCE_S, stays=False, trust_env=False) as own:
                yield own
        finally:
            try:
                child.communicate(timeout=STOP_TIMEOUT_S)  # closes its standard input
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def free_port(port: int, host: str = "127.0.0.1") -> int:
    """The given port of a local address, or a free one if it is taken; ``OSError`` if listening there is impossible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return port
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    with socket.create_server((host, 0), family=family) as found:
        return int(found.getsockname()[1])
