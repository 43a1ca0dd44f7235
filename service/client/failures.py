"""How a command ends early: ``app`` prints the message and returns the exit status.

TyperException        exit status
└── Failed            1
    ├── Misused       2
    └── Refused       1, in session
Interrupted           128 + the signal's number
OSError               1
"""

import typer


class Failed(typer.TyperException):
    """The command cannot continue; the first line of the message is the reason."""

    wait_s: float | None = None  # time until the same request may succeed; None if never


class Misused(Failed):
    """The arguments of a command contradict each other, or a setting is invalid."""

    exit_code = 2


class Interrupted(SystemExit):
    """A signal ends the command, and with it everything that the command started.

    The arguments are the signal's number and, optionally, how the message continues.
    """
