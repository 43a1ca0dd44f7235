"""``onepass serve``: the service, until it is told to stop."""

import argparse
import logging
import os
import signal
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

from service import memory_limit
from service.cli import flags, sources
from service.replay import ports
from service.server import tls
from service.settings import Settings

logger = logging.getLogger(__name__)

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
    return _serve(settings, options.fd, found.keys_file, https) if _compile_kernels() else 1


def _serve(settings: Settings, descriptor: int | None, keys_file: Path | None, https: dict[str, Any]) -> int:
    from service import main  # noqa: PLC0415  it imports core, which compiles kernels that are missing one by one

    try:
        return main.run(settings, keys_file=keys_file, descriptor=descriptor, ssl=https)
    except SystemExit:  # uvicorn has logged why it cannot listen
        if descriptor is None and (taken := _taken(settings)):
            print(taken, file=sys.stderr)
        raise


def _taken(settings: Settings) -> str:
    """That another process listens on the port, and which one is free; empty where the port is free."""
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


def _stop_at_eof() -> None:
    """Wait for the end of standard input, then ask this process to stop."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
