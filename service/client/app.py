"""The table of commands, how one is loaded when it is asked for, and how it ends.

Exit status: 0 done; 1 refused or failed, with the reason on stderr; 2 the command line or a setting cannot be;
128 + n ended by signal n.
"""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib import import_module
from importlib.metadata import version
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from service.client.failures import Interrupted

COMMANDS = {
    "serve": ("serving", "Run the service."),
    "demo": ("demo.command", "Run a service with models that learn drifting streams, to look at."),
    "models": ("models", "List the models: rows, score beside the baseline."),
    "show": ("models", "Show a model: scores, drifts, challengers, experts."),
    "create": ("rows", "Create a model."),
    "predict": ("rows", "Predict one row."),
    "feedback": ("rows", "Teach a model one row, or the label of a tracked prediction."),
    "export": ("states", "Write a model's state to a file, or all states to a tar."),
    "import": ("states", "Make or replace a model by a state file, or many by a tar."),
    "delete": ("rows", "Delete models."),
    "replay": ("replay.commands", "Send a file through a model, row by row, and show how good it was."),
    "compare": ("replay.commands", "Send a file through several algorithms at once, and show the best."),
    "evaluate": ("replay.evaluate", "Score a model on a file without learning it."),
    "keys": ("keys", "Make a secret for a key of the service."),
    "settings": ("serving", "Print every setting: its value, its default, what it means."),
}
"""What each command does, and the module of service.client that has a function of its name."""
EPILOG = "Exit status: 0 done, 1 refused or failed, 2 wrong usage or settings, 128 + n ended by signal n."
LOOKS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # Rich takes four times as long to print the help
    "context_settings": {"max_content_width": 110},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    said = " ".join(["onepass", *given[:1]]) if given and given[0] in COMMANDS else "onepass"
    try:
        with _interruptible():
            return get_command(_typer()).main(given, "onepass", standalone_mode=False) or 0
    except typer.TyperException as error:
        usage = f"\n  {said} --help lists what there is" if hasattr(error, "ctx") else ""
        print(f"{said}: {error.format_message()}{usage}", file=sys.stderr)
        return error.exit_code
    except Interrupted as interrupted:
        print(f"{said}: {interrupted}", file=sys.stderr)
        return 128 + interrupted.signal


class Commands(TyperGroup):
    """Loads a command's module when it is asked for: ``--help`` and clients start without the rest."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named, in place of what stands for it in the help."""
        name, _, rest = super().resolve_command(ctx, args)
        module = import_module(f"service.client.{COMMANDS[str(name)][0]}")
        app = typer.Typer(**LOOKS)
        app.command(name, epilog=EPILOG)(_spread(getattr(module, "import_" if name == "import" else str(name))))
        return name, get_command(app), rest


def _typer() -> typer.Typer:
    """The table as Typer's: the functions are those of the modules, loaded later."""
    app = typer.Typer(cls=Commands, epilog=EPILOG, **LOOKS)
    app.callback()(_options)
    for name, (_, summary) in COMMANDS.items():
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
    """A function whose parameters that are dataclasses are given field by field, as Typer gives options."""
    hints, own = get_type_hints(function, include_extras=True), signature(function).parameters
    groups = {name: hints[name] for name in own if is_dataclass(hints[name])}
    parameters: list[Parameter] = []
    for name, one in own.items():
        given = signature(groups[name]).parameters if name in groups else {name: one}
        types = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        parameters += [each.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[at]) for at, each in given.items()]

    def run(**given: Any) -> int | None:
        for name, kind in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in signature(kind).parameters})
        status = function(**given)
        sys.stdout.flush()  # a reader that has gone is noticed here, and not when the interpreter ends
        return status

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = function.__doc__
    return run


@contextmanager
def _interruptible() -> Iterator[None]:
    """The first signal raises ``Interrupted``, so that nothing half done is left behind; a second one ends at once."""

    def interrupt(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise Interrupted(number)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Ignored signals stay ignored: nohup and background jobs rely on it.
    before = {each: action for each in ends if (action := signal.getsignal(each)) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, interrupt)
        yield
    finally:
        for each, action in before.items():
            signal.signal(each, action)
