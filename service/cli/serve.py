"""``onepass serve``: the service, until it is told to stop."""

import argparse
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from service import memory_limit
from service.cli import flags, sources
from service.replay import ports
from service.server import tls
from service.settings import Settings

logger = logging.getLogger(__name__)

_SAID_BEFORE = "Invalid HTTP request received."
DETAILS = """\
Run the service until it is told to stop. Each setting is a flag here, a variable (ONEPASS_PORT for --port), or a line
of a settings file; a flag has precedence over a variable, a variable over the file of --settings, and that over .env in
the present directory. A secret on the command line is seen by everybody on the machine: ONEPASS_API_KEYS_FILE=PATH
names a file instead."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:  # noqa: ARG001  of the one command
    """Declare the options: every setting, and how a program starts the service."""
    parser.description, parser.usage = DETAILS, "onepass serve [--settings FILE] [--NAME VALUE ...]"
    flags.declare_file(parser)
    parser.add_argument("--fd", type=int, metavar="N", help="listen on this inherited socket instead of host and port")
    parser.add_argument(
        "--until-eof", action="store_true", help="stop when standard input ends, with the program at its other end"
    )
    flags.declare(parser)


def run(options: argparse.Namespace) -> int:
    """Serve; the exit status."""
    from service.cli import refusal  # noqa: PLC0415  --help starts without it

    try:
        found = sources.gather(flags.given(options), options.settings)
        settings = refusal.within_limit(found.settings)
    except (sources.Unusable, memory_limit.TooSmall) as error:
        print(error, file=sys.stderr)
        return 2
    if (why := refusal.refusal(settings, found.keys_file, options.fd)) is not None:
        print(why, file=sys.stderr)
        return 2
    try:
        https = tls.options(settings.tls_cert, settings.tls_key, settings.tls_ca)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    from service import logs  # noqa: PLC0415  --help starts without it

    logs.configure(settings.log_level, settings.log_format, settings.access_log)
    logging.getLogger("uvicorn.error").addFilter(_NoTraceback())
    logger.info("Onepass %s starts", version("onepass"))
    for file in found.files:
        logger.info("settings from %s", file)
    for note in found.notes:
        logger.warning("%s", note)
    if settings.memory_budget_mb != found.settings.memory_budget_mb:
        logger.info("models have %d MB, as the memory of this container or unit is limited", settings.memory_budget_mb)
    for kind in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has stopped in good order
        signal.signal(kind, lambda *_: sys.exit(0))
    if options.fd is None and (taken := _taken(settings)):
        print(taken, file=sys.stderr)
        return 1
    if options.until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    return _run_server(settings, options, found.keys_file, https) if _compile_kernels() else 1


def _taken(settings: Settings) -> str:
    """That somebody listens on the port already, and which one is free; empty where there is nothing to say."""
    try:
        with ports.listener(settings.host, settings.port) as found:
            free = found.getsockname()[1]
    except OSError:  # no address of this machine, or a name: the server says what is wrong with it
        return ""
    if settings.port in (0, free):
        return ""
    return (
        f"port {settings.port} of {settings.host} is taken; {free} is free: ONEPASS_PORT={free}; "
        "a second service also needs ONEPASS_DATA_DIR, or ONEPASS_REDIS_URL to share the models"
    )


def _compile_kernels() -> bool:
    """Compile what is missing of core's kernels, in processes of their own, before anything is started."""
    from service.first_run import compiling, kernels  # noqa: PLC0415  the others start without core

    kernels.report_compilations(lambda *one: logger.warning("compiling while serving takes seconds: %s %s", *one))
    try:
        said = kernels.kernels_at_hand()
        if said is None:
            logger.info("once per installation: compiling kernels, 50 s on two idle cores")
            compiling.compile_missing()
    except (kernels.CannotCompile, OSError) as error:
        logger.error("%s", error)  # noqa: TRY400  the message says all
        return False
    logger.info("%s", said or "kernels compiled")
    return True


class _NoTraceback(logging.Filter):
    """What the service has said in one line already, and the server would say again.

    That the private store cannot start, with a traceback; that a connection was refused, once for each, which the
    metrics count.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return not (text.startswith("Traceback") and "CannotStart" in text) and not text.startswith(_SAID_BEFORE)


def _run_server(settings: Settings, options: argparse.Namespace, keys_file: Path | None, https: dict[str, Any]) -> int:
    import uvicorn  # noqa: PLC0415  the other commands start without it

    from service.app import Grace, build, crasher, end_streams, leave, refused  # noqa: PLC0415  likewise
    from service.server import descriptors  # noqa: PLC0415  likewise
    from service.server.drain import Drain  # noqa: PLC0415  likewise
    from service.server.http_protocol import Gate, bounded  # noqa: PLC0415  likewise

    grace, is_new = Grace(settings.grace_s), _is_new(settings)

    drain = Drain(settings.drain_s, lambda: leave(app))

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if not drain.begin():
                grace.begin()
                super().handle_exit(sig, frame)

        async def on_tick(self, counter: int) -> bool:
            if drain.over:
                grace.begin()
                self.should_exit = True
            return await super().on_tick(counter)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                url = _url_at("https" if https else "http", app.root_path, self.servers[0].sockets[0].getsockname())
                _say_where(url, is_new=is_new, logged=settings.log_format == "json")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            end_streams(app)
            await super().shutdown(sockets)
            _leave()

    try:
        sockets = None if options.fd is None else [socket.socket(fileno=options.fd)]
        failpoint = crasher(os.environ.get("ONEPASS_FAILPOINT", ""))
        app = build(settings, failpoint, grace, keys_file)
    except (ValueError, OSError) as error:
        print(error if isinstance(error, ValueError) else f"--fd {options.fd}: {error.strerror}", file=sys.stderr)
        return 2
    most = descriptors.for_clients(descriptors.raise_limit(), settings.connections_max)
    server = Server(
        uvicorn.Config(
            app,
            http=bounded(Gate(most, lambda status: refused(app, status)), app.short_way),
            ws="none",
            timeout_keep_alive=settings.keep_alive_s,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            proxy_headers=False,  # the guard reads what proxies say; nothing else asks who the client is
            server_header=False,
            timeout_graceful_shutdown=grace.for_requests_s,  # type: ignore[arg-type]  # handed to asyncio, which takes parts of seconds
            backlog=2048,
            **https,
        )
    )
    try:
        server.run(sockets)
    except SystemExit:  # after one line of its own
        if sockets is None and (taken := _taken(settings)):
            print(taken, file=sys.stderr)
        raise
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


def _is_new(settings: Settings) -> bool:
    """Whether the service begins with nothing: its private store has no data yet."""
    return not _url_of(settings) and not (settings.data_dir.is_dir() and any(settings.data_dir.iterdir()))


def _url_of(settings: Settings) -> str:
    return "" if settings.redis_url is None else settings.redis_url.get_secret_value()


def _url_at(scheme: str, root: str, address: tuple[Any, ...]) -> str:
    """An address to be clicked on this machine."""
    host, port = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0]), address[1]  # noqa: S104  compared, not bound
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{root}/"


def _say_where(url: str, *, is_new: bool, logged: bool) -> None:
    """The last lines of a start: an address to be clicked, on standard output, as the log is for programs.

    One that begins with nothing names the demo, too: an empty page tells nobody what there is to see. Where all output
    is for programs (``logged``), the address is a line of the log.
    """
    if logged:
        logger.info("Onepass serves on %s", url)
        return
    with suppress(OSError):  # nobody reads it
        print(f"Onepass serves on {url}", flush=True)
        if is_new:
            print(f"In another terminal, models that learn and drift, to look at: {_own_command()} demo", flush=True)


def _own_command() -> str:
    """What this command is called by: its name where the shell finds it, else its path as it was given."""
    given = Path(sys.argv[0])
    return "onepass" if given.name != "onepass" or shutil.which("onepass") == str(given) else str(given)


def _stop_at_eof() -> None:
    """Wait for the end of standard input, then ask this process to stop."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
