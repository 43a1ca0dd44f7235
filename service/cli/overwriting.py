"""What is asked before something is lost: a model's state, or a file."""

import sys
from pathlib import Path

from service.cli.connection import Misused, Refused
from service.replay.wording import counted


def ask_for_model(name: str, rows: int, verb: str) -> None:
    """Ask before what a model has learned is lost.

    Args:
        name: of the model.
        rows: that it has learned.
        verb: what is about to happen to it: "delete" or "replace".

    Raises:
        Refused: the answer is no.
        Misused: nobody is there to ask.
    """
    if not sys.stdin.isatty():
        raise Misused(f"{name} has learned {counted(rows)}; --yes {verb}s it")
    asked = f"{verb.capitalize()} {name} and the {counted(rows)} that it has learned? [y/N] "
    if input(asked).lower() not in ("y", "yes"):
        raise Refused(f"{name} is not {verb}d")


def keep_file(name: str, force: bool) -> None:
    """Refuse to write over a file, unless that is asked for; devices and pipes hold nothing.

    Args:
        name: of the file; ``-`` is standard output.
        force: whether it may be replaced.

    Raises:
        Misused: it is there.
    """
    if name != "-" and not force and Path(name).is_file():
        raise Misused(f"{name} is there already; --force replaces it")
