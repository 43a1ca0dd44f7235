"""The command line of ``onepass demo``."""

import argparse
import os
from pathlib import Path

from service.replay import trust
from service.replay.options import key_of, service_url

DETAILS = """\
Five models learn generated streams: a boundary that jumps, a plane that turns, sensors that are replaced, frauds that
change their pattern, and parcels whose labels come late. Within ten seconds the page moves; within two minutes there is
a drift, a change of features and a promotion. Each is told in a line. Ctrl-C ends it.

Without --url a service of its own is started, on port 8000 or a free one, with its data in a temporary directory that
is removed at the end. With --url a service that runs already is fed; the demo then deletes the models that it made."""
STATUS = "Exit status: 0 ended by Ctrl-C or --for, 1 failed or refused (the reason on stderr), 2 usage."


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = DETAILS, STATUS
    own, running = parser.add_argument_group("a service of its own"), parser.add_argument_group("a running service")
    own.add_argument(
        "--port", type=_port, help="port of the page; default: ONEPASS_PORT, else 8000, or a free one behind it"
    )
    own.add_argument("--data-dir", type=_empty, metavar="DIR", help="keep the data here; a new or empty directory")
    running.add_argument("--url", type=service_url, help="feed this service instead")
    running.add_argument(
        "--key", metavar="SECRET", default=key_of(os.environ), help="API key, scope admin; default: ONEPASS_API_KEY"
    )
    trust.declare(running)
    say = parser.add_argument
    say("--speed", type=_positive(1000), default=1.0, metavar="X", help="so many times as many rows a second")
    say("--for", type=_positive(1e9), dest="seconds", metavar="SECONDS", help="end after this time; default: Ctrl-C")


def _positive(most: float) -> "type[float]":
    def number(text: str) -> float:
        value = float(text)
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most {most:g}")
        return value

    number.__name__ = "number"
    return number  # type: ignore[return-value]  # argparse calls it


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to 65535")
    return int(text)


def _empty(text: str) -> Path:
    path = Path(text)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise argparse.ArgumentTypeError(f"{text!r} is neither new nor an empty directory")
    return path
