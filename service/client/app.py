"""The table of commands, how a command is loaded, and how it ends."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import version
from inspect import Parameter, Signature, signature
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.main import get_command

from service.client.failures import Interrupted

COMMANDS = {
    "serve": ("serving", "Run the service."),
    "demo": ("demo.command", "Run a service with models that learn drifting streams."),
    "models": ("models", "List the models with their rows, scores and baselines."),
    "show": ("models", "Show a model: scores, drifts, challengers, experts."),
    "create": ("rows", "Create a model."),
    "predict": ("rows", "Predict one row."),
    "feedback": ("rows", "Teach a model one row, or the label of a tracked prediction."),
    "export": ("states", "Write a model's state to a file, or all states to a tar."),
    "import": ("states", "Create or replace a model from a state file, or many from a tar."),
    "delete": ("rows", "Delete models."),
    "replay": ("replay.commands", "Send a file through a model, in order, and show how well it predicts."),
    "compare": ("replay.commands", "Send a file through several algorithms at once, and show which is best."),
    "evaluate": ("replay.commands", "Score a model on a file without learning it."),
    "keys": ("keys", "Make a secret for a key of the service."),
    "settings": ("serving", "Print every setting with its value, default and meaning."),
}
"""What each command does, and the module of service.client that has a function of its name."""
EPILOG = "Exit status: 0 done, 1 refused or failed, 2 wrong usage or settings, 128 + n by signal n (serve and demo: 0)."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, which signals interrupt from now on, and return its exit status."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    named = next((one for one in given if not one.startswith("-")), "")
    shown = f"onepass {named}" if named in COMMANDS else "onepass"
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:  # nohup and background jobs rely on ignored signals
            signal.signal(each, _interrupt)
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # the shell has closed it
            setattr(sys, stream, open(os.devnull, mode))  # noqa: PTH123, SIM115  until the process ends
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for table lines and names that the encoding lacks
    if any(map(_is_torn, given)):
        print(f"{shown}: an argument is not UTF-8", file=sys.stderr)
        return 2
    try:
        return get_command(_typer(named)).main(given, "onepass", standalone_mode=False) or 0
    except typer.TyperException as error:
        usage = f"\n  {shown} --help lists what is possible" if hasattr(error, "ctx") else ""
        print(f"{shown}: {error.format_message()}{usage}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{shown}: {error.filename or 'cannot continue'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print(f"{shown}: interrupted", *interrupted.args[1:], sep="", file=sys.stderr)
        return 128 + int(interrupted.args[0])


def _is_torn(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)  # which stand for bytes that are not UTF-8


def _interrupt(number: int, _: object) -> None:
    raise Interrupted(number)  # an exception, so that the command cleans up


def _typer(named: str) -> typer.Typer:
    """The table of commands; only the named one is imported, so that it starts without what the others need."""
    width = {"max_content_width": 110}
    # Rich takes four times as long to print the help.
    app = typer.Typer(epilog=EPILOG, add_completion=False, rich_markup_mode=None, context_settings=width)
    app.callback()(_options)
    for name, (module, summary) in COMMANDS.items():
        if name == named:
            functions = import_module(f"service.client.{module}")
            app.command(name, epilog=EPILOG)(_spread(getattr(functions, "import_" if name == "import" else name)))
        else:
            app.command(name, help=summary)(lambda: None)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(f"onepass {version('onepass')}")
        raise typer.Exit


def _options(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Online learning as a service."""


def _spread(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give each field of a dataclass parameter to Typer as a separate option."""
    own = signature(function).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
    options: list[Parameter] = []
    for name, one in own.items():
        options += signature(groups[name]).parameters.values() if name in groups else [one]

    def run(**given: Any) -> int | None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        status = function(**given)
        sys.stdout.flush()  # so that a closed pipe is noticed here, not when the interpreter exits
        return status

    run.__signature__ = Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in options])  # type: ignore[attr-defined]
    run.__doc__ = function.__doc__
    return run
