"""What commands there are, and how they end. Help starts without pydantic, NumPy and the like."""

import argparse
import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from service.replay.wording import suggested

COMMANDS = {
    "demo": ("run a service with models that learn drifting streams, to look at", "files"),
    "replay": ("send a file of rows through a model, one by one, and show how good it was", "files"),
    "compare": ("send a file of rows through several algorithms at once, and show which was best", "files"),
}
"""What each command does, and the module of service.cli that declares it (``declare``) and runs it (``run``)."""
EPILOG = "onepass COMMAND --help says more of each. Options that say where the service is may stand before it, too."
BEFORE = ("--url", "--key", "--ca", "--client-cert")
"""Options of the commands that are clients, which may stand before the command as well."""
SAME = {
    "--delimiter": "--sep",
    "--separator": "--sep",
    "--target": "--label",
    "--class-costs": "--cost",
    "--force": "--yes",
    "--yes": "--force",
}
"""Flags that other programs have, or other commands, and what they are called where they are not known."""
_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status, SIGPIPE's where nobody reads on what it prints (``onepass settings | head``)."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, and not when the interpreter ends
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
        return _BY_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        return _BY_SIGNAL + signal.SIGINT


class _Parser(argparse.ArgumentParser):
    """A parser that names what may have been meant."""

    given: Sequence[str] = ()
    """What it parses."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2: usage, reason, and the nearest of what there is."""
        super().error(message + _nearest(message, [*self._option_string_actions], self.given))


def _nearest(message: str, flags: Sequence[str], arguments: Sequence[str]) -> str:
    """``; did you mean --port?`` for a mistyped flag, command or choice, else nothing.

    Args:
        message: argparse's.
        flags: that there are.
        arguments: that were given: where a required flag lacks, the reason may be that it is among them, mistyped.
    """
    given, among = re.search(r"invalid choice: '([^']*)'", message), message.rpartition("choose from ")[2]
    if given is not None:
        return suggested(given[1], re.findall(r"[\w-]+", among))
    unknown = re.findall(r"(?<!\S)--[\w-]+", message.partition("unrecognized arguments: ")[2])
    if "arguments are required" in message:
        words = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
        unknown = [word for word in words if not any(flag.startswith(word) for flag in flags)]
        return next((f"; {word} is not known{meant}" for word in unknown if (meant := _meant(word, flags))), "")
    return next((meant for word in unknown if (meant := _meant(word, flags))), "")


def _meant(flag: str, flags: Sequence[str]) -> str:
    same = SAME.get(flag)
    return f"; did you mean {same}?" if same in flags else suggested(flag, flags)


class _Declared(_Parser):
    """A command whose options are declared, and its module imported, when it is asked for."""

    is_declared = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, which calls it on the command that was named; options may stand between values."""
        if self.is_declared:  # called by parse_known_intermixed_args
            return super().parse_known_args(args, namespace)
        self.is_declared, self.given = True, args
        name = self.prog.split()[-1]
        module = importlib.import_module(f"service.cli.{COMMANDS[name][1]}")
        module.declare(name, self)
        self.set_defaults(run=module.run)
        return self.parse_known_intermixed_args(args, namespace)


def _behind_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options of ``BEFORE`` that stand before the command behind it."""
    before: list[str] = []
    rest = [*arguments]
    while rest and rest[0].partition("=")[0] in BEFORE:
        size = 1 if "=" in rest[0] else 2
        before, rest = [*before, *rest[:size]], rest[size:]
    return [*rest[:1], *before, *rest[1:]] if rest else []


def _refuse_unknown(parser: _Parser, first: str) -> None:
    """Refuse an option before the command that is none: argparse would take its value for the command."""
    word = first.partition("=")[0]
    if word.startswith("--") and not any(own.startswith(word) for own in parser._option_string_actions):  # noqa: SLF001
        parser.error(f"unrecognized arguments: {word}{suggested(word, BEFORE)}")


def _run(arguments: Sequence[str] | None) -> int:
    usage = "onepass [--url URL] [--key SECRET] [--ca FILE] [--client-cert FILE] COMMAND ..."
    parser = _Parser(prog="onepass", usage=usage, description="Online learning as a service.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"onepass {version('onepass')}")
    commands = parser.add_subparsers(
        title="commands", prog="onepass", dest="command", metavar="COMMAND", required=True, parser_class=_Declared
    )
    for name, (summary, _) in COMMANDS.items():
        commands.add_parser(name, help=summary)
    given = _behind_command(sys.argv[1:] if arguments is None else arguments)
    _refuse_unknown(parser, given[0] if given else "")
    options, unknown = parser.parse_known_args(given)
    if unknown:
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    status: int = options.run(options)
    return status
