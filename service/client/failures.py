"""How a command ends early: ``app`` prints the message and makes the exit status of it.

TyperException        exit status
└── Failed            1
    ├── Misused       2
    └── Refused       1, in session
Interrupted           128 + the signal's number
"""

import typer


class Failed(typer.TyperException):
    """The command cannot go on; the message is for people, its first line the reason."""


class Misused(Failed):
    """The command line cannot be, for a reason that no single option shows."""

    exit_code = 2


class Interrupted(SystemExit):
    """A signal, by its number, ends the command; everything that it has begun ends with it."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.signal = number
