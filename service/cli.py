"""The command ``onepass``: serve, settings, replay, compare."""

import argparse
import importlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from types import FrameType
from typing import TYPE_CHECKING, Any

from service.replay import Failed, Interrupted
from service.replay import options as replay_options

if TYPE_CHECKING:
    from service.settings import Settings

logger = logging.getLogger(__name__)

_SAID_BEFORE = ("ASGI callable returned without completing response", "Invalid HTTP request received.")
_WORKERS = (
    "ONEPASS_WORKERS: Onepass serves with one process; start one per core behind a balancer that hashes the model's "
    "name; unset ONEPASS_WORKERS"
)
_FILES = {"replay": "service.replay.command", "compare": "service.replay.compare"}
"""Commands that send a file, and their modules."""
_EXTRA = ("rich", "matplotlib")
"""What these need beyond the service's own packages."""
_COMPILE = (
    "import sys; sys.path[:] = sys.argv[1:]; from service.first_run.steps import main; sys.exit(main(['compile']))"
)
COLUMNS_MAX = 110
"""Width of ``onepass settings``, in a terminal that is wider."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status, SIGPIPE's where nobody reads on what it prints (``onepass settings | head``)."""
    try:
        try:
            return _command(arguments)
        finally:
            sys.stdout.flush()  # here, and not when the interpreter ends
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
        return 128 + signal.SIGPIPE


def _command(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="onepass", description="Online learning as a service.")
    parser.add_argument("--version", action="version", version=f"onepass {version('onepass')}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    _serve_options(commands.add_parser("serve", help="run the service"))
    replay_options.add(commands.add_parser("replay", help=replay_options.SUMMARY))
    replay_options.add_compare(commands.add_parser("compare", help=replay_options.COMPARE_SUMMARY))
    commands.add_parser("settings", help="print every setting: its value, its default, what it means")
    options = parser.parse_args(arguments)
    if options.command in _FILES:
        return _send_file(options)
    if "ONEPASS_WORKERS" in os.environ:  # no longer a setting, but setting it means expecting more than one process
        print(_WORKERS, file=sys.stderr)
        return 2
    from pydantic import ValidationError  # noqa: PLC0415  help and replay start without pydantic

    from service.settings import Settings  # noqa: PLC0415  likewise

    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"]).upper()
            print(f"ONEPASS_{name}: {problem['msg']}", file=sys.stderr)
        return 2
    return _print_settings(settings) if options.command == "settings" else _serve(settings, options)


# ------------------------------------------------------------------------------------------------ settings


def _print_settings(settings: "Settings") -> int:
    rows = [
        (f"ONEPASS_{name.upper()}", _shown(getattr(settings, name)), _shown(field.default), field.description or "")
        for name, field in type(settings).model_fields.items()
    ]
    names, values = (max(len(row[at]) for row in rows) for at in (0, 1))
    width = min(shutil.get_terminal_size((COLUMNS_MAX, 24)).columns, COLUMNS_MAX)
    lines = [f"{'SETTING':<{names}}  {'VALUE':<{values}}  DEFAULT"]
    for name, value, default, meaning in rows:
        lines.append(f"{name:<{names}}  {value:<{values}}  {default}")
        lines.append(textwrap.fill(meaning, width, initial_indent="    ", subsequent_indent="    "))
    print("\n".join(lines))
    return 0


def _shown(value: object) -> str:
    """A value as it stands in the environment; a secret is only said to be there."""
    from pydantic import SecretStr  # noqa: PLC0415  help and replay start without pydantic

    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else "-"
    return "-" if value is None or value == "" else str(value)


# ------------------------------------------------------------------------------------------------ serve


def _serve_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run the service until it is told to stop. ONEPASS_* variables apply: see onepass settings."
    parser.add_argument("--host", help="address to listen on; default: ONEPASS_HOST")
    parser.add_argument("--port", type=int, help="port to listen on, 0 takes a free one; default: ONEPASS_PORT")
    parser.add_argument("--fd", type=int, metavar="N", help="listen on this inherited socket instead")
    parser.add_argument(
        "--until-eof", action="store_true", help="stop when standard input ends, with the program at its other end"
    )


def _unknown_settings(settings: "Settings", environment: Iterable[str]) -> list[str]:
    """Variables that look like settings and are none: a misspelt one must not be ignored in silence."""
    known = {f"ONEPASS_{name.upper()}" for name in type(settings).model_fields} | {"ONEPASS_FAILPOINT", "ONEPASS_KEY"}
    return sorted(name for name in environment if name.startswith("ONEPASS_") and name not in known)


def _compile_kernels() -> bool:
    """Compile what is missing of core's kernels, in processes of their own, before anything is started."""
    from service.first_run.kernel_cache import KernelCache, report_compilations  # noqa: PLC0415  the others start without core
    from service.first_run.kernels import Sources  # noqa: PLC0415  likewise

    report_compilations(lambda *kernel: logger.warning("compiling while serving, which takes seconds: %s %s", *kernel))
    if KernelCache(Sources()).complete():
        return True
    with subprocess.Popen([sys.executable, "-c", _COMPILE, *sys.path], stdout=subprocess.PIPE, text=True) as child:  # noqa: S603  this Python
        assert child.stdout is not None
        try:
            for line in child.stdout:
                logger.info("once per installation: %s", line.rstrip())
        finally:
            child.terminate()
    return child.returncode == 0


class _NoTraceback(logging.Filter):
    """What the service has said in one line already, and the server would say again.

    That the private store cannot start, with a traceback; that a stream was cut whose client does not read; that a
    connection was refused, once for each, which the metrics count.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return not (text.startswith("Traceback") and "CannotStart" in text) and not text.startswith(_SAID_BEFORE)


def _serve(settings: "Settings", options: argparse.Namespace) -> int:
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("uvicorn.error").addFilter(_NoTraceback())
    for name in _unknown_settings(settings, os.environ):
        logger.warning("%s is not a setting; see onepass settings", name)
    for kind in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has stopped in good order
        signal.signal(kind, lambda *_: sys.exit(0))
    if options.until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    return _run_server(settings, options) if _compile_kernels() else 1


def _run_server(settings: "Settings", options: argparse.Namespace) -> int:
    import uvicorn  # noqa: PLC0415  the other commands start without it

    from service.app import Grace, build, crasher, end_streams, refused  # noqa: PLC0415  likewise
    from service.server import descriptors  # noqa: PLC0415  likewise
    from service.server.http_protocol import KEEP_ALIVE_S, Gate, bounded  # noqa: PLC0415  likewise

    grace = Grace(settings.grace_s)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            grace.begin()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _say_where(self.servers[0].sockets[0].getsockname())

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            end_streams(app)
            await super().shutdown(sockets)
            _leave()

    try:
        sockets = None if options.fd is None else [socket.socket(fileno=options.fd)]
        app = build(settings, crasher(os.environ.get("ONEPASS_FAILPOINT", "")), grace)
    except (ValueError, OSError) as error:
        print(error if isinstance(error, ValueError) else f"--fd {options.fd}: {error.strerror}", file=sys.stderr)
        return 2
    most = descriptors.for_clients(descriptors.raise_limit(), settings.connections_max)
    server = Server(
        uvicorn.Config(
            app,
            http=bounded(Gate(most, lambda status: refused(app, status)), app.short_way),
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_S,
            host=options.host or settings.host,
            port=settings.port if options.port is None else options.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=grace.for_requests_s,  # type: ignore[arg-type]  # handed to asyncio, which takes parts of seconds
            backlog=2048,
        )
    )
    server.run(sockets)
    return 0 if server.started else 1


def _leave() -> None:
    """End the process: all that has to be kept is kept, and the store is stopped.

    To wait for threads that still learn, and to take apart every model in memory, would last beyond the grace period.
    """
    logging.getLogger("uvicorn.error").info("Finished server process [%d]", os.getpid())
    logging.shutdown()
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(0)


def _say_where(address: tuple[Any, ...]) -> None:
    """The last line of a start, to be clicked: on standard output, as the log is for programs."""
    host, port = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0]), address[1]  # noqa: S104  compared, not bound
    with suppress(OSError):  # nobody reads it
        print(f"Onepass serves on http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)


def _stop_at_eof() -> None:
    """Wait for the end of standard input, then ask this process to stop."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


# ------------------------------------------------------------------------------------------------ replay, compare


def _send_file(options: argparse.Namespace) -> int:
    said = f"onepass {options.command}"
    if any(importlib.util.find_spec(name) is None for name in _EXTRA):
        print(f"{said}: needs packages that serving does not: pip install 'onepass[replay]'", file=sys.stderr)
        return 1
    # brings rich and httpx, which no other command needs
    command = importlib.import_module(_FILES[options.command])
    try:
        result = command.run(options)
        if result is not None:
            print(json.dumps(result))
    except Failed as failed:
        print(f"{said}: {failed}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print(f"{said}: interrupted", file=sys.stderr)
        return 128 + interrupted.signal
    return 0


if __name__ == "__main__":
    sys.exit(main())
