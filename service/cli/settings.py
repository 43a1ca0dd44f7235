"""``onepass settings``: every setting with its value, its default and its meaning."""

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any

from pydantic import SecretStr

from service.cli import flags, sources
from service.memory_limit import TooSmall
from service.settings import Settings

COLUMNS_MAX = 110
"""Width of the table, in a terminal that is wider."""
DETAILS = """\
Print every setting, and refuse what onepass serve would refuse of them (exit status 2), so that it checks a
configuration. A flag of onepass serve has precedence over a variable, a variable over the file of --settings, and that
over .env in the present directory. Secrets may be in files: ONEPASS_API_KEYS_FILE=PATH instead of ONEPASS_API_KEYS,
likewise ONEPASS_REDIS_URL_FILE, ONEPASS_WEBHOOKS_FILE and ONEPASS_WEBHOOK_SECRET_FILE."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:  # noqa: ARG001  of the one command
    """Declare the options."""
    parser.description = DETAILS
    flags.declare_file(parser)
    parser.add_argument("--json", action="store_true", help="print {variable: {value, default, meaning}}")


def run(options: argparse.Namespace) -> int:
    """Print the settings; the exit status."""
    try:
        found = sources.gather({}, options.settings)
    except sources.Unusable as error:
        print(error, file=sys.stderr)
        return 2
    for note in found.notes:
        print(note, file=sys.stderr)
    print(json.dumps(_document(found.settings)) if options.json else "\n".join(_lines(found.settings)))
    if (refusal := _refusal(found)) is not None:
        print(refusal, file=sys.stderr)
        return 2
    return 0


def _refusal(found: sources.Sourced) -> str | None:
    """Why ``onepass serve`` would refuse these settings."""
    from service.cli.refusal import refusal, within_limit  # noqa: PLC0415  --help starts without it

    try:
        return refusal(within_limit(found.settings), found.keys_file)
    except TooSmall as error:
        return str(error)


def _document(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every setting by its variable; a secret is only said to be there."""
    return {
        f"ONEPASS_{name.upper()}": {
            "value": _plain(getattr(settings, name)),
            "default": _plain(field.default),
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    }


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else _shown(value).removeprefix("-")


def _lines(settings: Settings) -> list[str]:
    rows = [
        (f"ONEPASS_{name.upper()}", _shown(getattr(settings, name)), _shown(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    names, values = (max(len(row[at]) for row in rows) for at in (0, 1))
    width = min(shutil.get_terminal_size((COLUMNS_MAX, 24)).columns, COLUMNS_MAX)
    lines = [f"{'SETTING':<{names}}  {'VALUE':<{values}}  DEFAULT"]
    for name, value, default, meaning in rows:
        lines.append(f"{name:<{names}}  {value:<{values}}  {default}")
        lines.append(textwrap.fill(meaning, width, initial_indent="    ", subsequent_indent="    "))
    return lines


def _shown(value: object) -> str:
    """A value as it stands in the environment; a secret is only said to be there."""
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else "-"
    return "-" if value is None or value == "" else str(value)
