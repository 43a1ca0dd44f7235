"""A service for one command: on this machine, with its data in a temporary directory or one that is given.

It is a child process, which works in the temporary directory, so that no settings file of the operator's is its own. It
listens on a socket that was opened here, so the port is known and nobody else can take it; a
request waits in that socket until the child is ready. The child ends with the replay, however that ends, because it
stops when its standard input is closed.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from service.replay import Failed, ports

START_TIMEOUT_S = 120.0
"""The first start after an installation compiles the kernels."""
STOP_TIMEOUT_S = 15.0
HOST = "127.0.0.1"
_POLL_S = 0.05
_NO_REASON = "Application startup failed. Exiting."
"""What uvicorn says last, after the reason."""
_SECRETS = ("REDIS_URL", "API_KEYS", "WEBHOOKS", "WEBHOOK_SECRET")
_TLS = ("TLS_CERT", "TLS_KEY", "TLS_CA")
_NOT_OURS = {
    f"ONEPASS_{name}"
    for name in (*_SECRETS, *(f"{one}_FILE" for one in _SECRETS), "RATE_PER_S", "HOST", "PORT", "FAILPOINT", *_TLS)
}
"""Settings of the operator's own service that a private one must not share."""


@contextmanager
def service(given: socket.socket | None = None, data: Path | None = None, **more: str) -> Generator[str]:
    """Start a service, yield its URL, and stop it.

    Args:
        given: a socket that listens, closed in the end; default: one on a free port.
        data: a directory of its data; default: a temporary one.
        more: settings of its own, by their variables.

    Raises:
        Failed: it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="onepass-replay-") as place, given or ports.listener(HOST, 0) as listener:
        url, log = f"http://{HOST}:{listener.getsockname()[1]}", Path(place) / "service.log"
        settings = {
            "ONEPASS_DATA_DIR": str(data.absolute() if data else f"{place}/data"),
            "ONEPASS_LOG_LEVEL": "warning",
            "ONEPASS_GRACE_S": "5",
            **more,
        }
        with log.open("wb") as said:
            child = subprocess.Popen(  # noqa: S603  our own interpreter and package
                [sys.executable, "-P", "-m", "service.client", "serve", "--fd", str(listener.fileno()), "--until-eof"],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                env={name: value for name, value in os.environ.items() if name not in _NOT_OURS} | settings,
                pass_fds=(listener.fileno(),),
                cwd=place,
                start_new_session=True,  # Ctrl-C in the terminal ends the replay, which ends the service
            )
        try:
            listener.close()  # the child has its own: what waits in it ends when the child does
            _wait(url, child, log)
            yield url
        finally:
            _stop(child)


def _wait(url: str, child: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until it is ready."""
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while child.poll() is None and time.monotonic() < give_up_at:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=START_TIMEOUT_S, trust_env=False).is_success:
                return
        time.sleep(_POLL_S)
    lines = [line for line in log.read_text(errors="replace").strip().splitlines() if _NO_REASON not in line]
    raise Failed("the private service did not start: " + (lines[-1] if lines else "it said nothing"))


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """Stop it and its store; kill it after a timeout."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
