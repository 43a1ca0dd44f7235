"""``onepass serve`` and ``settings``: the service until it is stopped, and the settings it would start with."""

import gc
import json
import logging
import os
import signal
import sys
import textwrap
import threading
from dataclasses import asdict, make_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from service import logs, memory_limit, settings_sources
from service.client import private
from service.client.display import width
from service.client.failures import Failed, Misused
from service.server import tls
from service.settings import Settings
from service.settings_sources import Sourced
from service.settings_validation import validated

logger = logging.getLogger(__name__)

COLUMNS_MAX = 110  # largest width of the table of settings


def _flag(name: str) -> tuple[str, Any, None]:
    """A setting as an option that is None unless given."""
    field = Settings.model_fields[name]
    kind: Any = str if name in settings_sources.SECRETS else field.annotation
    default = "" if str(field.default) in ("", "None", "False") else f" [{field.default}]"
    return name, Annotated[kind | None, Option(help=f"{field.description}{default}", case_sensitive=False)], None


Flags = make_dataclass("Flags", [_flag(name) for name in Settings.model_fields])
SettingsFile = Annotated[
    Path | None,
    Option("--settings", metavar="FILE", help="Read settings from FILE: .toml (port = 8001), else ONEPASS_PORT=8001."),
]


def serve(
    *,
    file: SettingsFile = None,
    until_eof: Annotated[bool, Option("--until-eof", help="Stop when standard input ends.")] = False,
    as_json: Annotated[bool, Option("--json", help="Log JSON lines, as --log-format json.")] = False,
    flags: Flags,  # type: ignore[valid-type]  # made from the settings
) -> int:
    """Run the service until it is told to stop.

    Each setting is a flag here, a variable (ONEPASS_PORT for --port), or a line of a settings file. Flags override
    variables, variables override the file of --settings, and that overrides .env in the current directory. Everybody
    on the machine can see a secret on the command line: ONEPASS_API_KEYS_FILE=PATH names a file instead.
    """
    given = {name: value for name, value in asdict(flags).items() if value is not None}
    if as_json:
        given["log_format"] = "json"
    found = _gathered(given, file)
    settings, https = _usable(found)
    logs.configure(settings.log_level, settings.log_format, settings.access_log)
    logger.info("Onepass %s starts", version("onepass"))
    for path in found.files:
        logger.info("settings from %s", path)
    for note in found.notes:
        logger.warning("%s", note)
    if settings.memory_budget_mb != found.settings.memory_budget_mb:
        logger.info("models may take %d MB: the memory of this container or unit is limited", settings.memory_budget_mb)
    for kind in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after an orderly stop
        signal.signal(kind, lambda *_: sys.exit(0))
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # closing the terminal is an orderly stop as well
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    _refuse_taken(settings)
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    gc.disable()  # looking for cycles during the imports would take an eighth of the start
    try:
        if not _compile_kernels():
            return 1
        from service import main  # noqa: PLC0415  it imports core, which compiles kernels that are missing one by one
    finally:
        gc.freeze()  # everything imported stays
        gc.enable()
    return main.run(settings, keys_file=found.keys_file, ssl=https)


def settings(
    *,
    file: SettingsFile = None,
    as_json: Annotated[bool, Option("--json", help="Print {variable: {value, default, meaning}}.")] = False,
) -> None:
    """Print every setting, and refuse invalid ones (exit status 2); only onepass serve tries directories and ports.

    Flags of onepass serve override variables, variables override the file of --settings, and that overrides .env in the
    current directory. Secrets may be in files: ONEPASS_API_KEYS_FILE=PATH instead of ONEPASS_API_KEYS, likewise
    ONEPASS_REDIS_URL_FILE, ONEPASS_WEBHOOKS_FILE and ONEPASS_WEBHOOK_SECRET_FILE.
    """
    found = _gathered({}, file)
    for note in found.notes:
        print(note, file=sys.stderr)
    values, defaults = (one.model_dump(mode="json") for one in (found.settings, Settings.model_construct()))
    rows = {
        f"ONEPASS_{name.upper()}": {"value": values[name], "default": defaults[name], "meaning": field.description}
        for name, field in Settings.model_fields.items()
    }
    print(json.dumps(rows) if as_json else _listed_settings(rows))
    _usable(found)


def _listed_settings(rows: dict[str, dict[str, Any]]) -> str:
    """List each setting on a line, with its meaning below."""
    fill = textwrap.TextWrapper(min(width(), COLUMNS_MAX), initial_indent="    ", subsequent_indent="    ").fill
    lines = [f"{'SETTING':26}  {'VALUE':20}  DEFAULT"]
    for name, row in rows.items():
        value, default = ("-" if row[each] in (None, "") else str(row[each]) for each in ("value", "default"))
        lines += [f"{name:26}  {value:20}  {default}", fill(row["meaning"])]
    return "\n".join(lines)


def _gathered(flags: dict[str, Any], file: Path | None) -> Sourced:
    """The settings from all sources; ``Misused`` if one is invalid."""
    try:
        return settings_sources.gather(flags, file)
    except ValueError as error:
        raise Misused(str(error)) from None


def _usable(found: Sourced) -> tuple[Settings, dict[str, Any]]:
    """Validate the settings and fit unset memory budgets to the container's limit; returns them with the TLS options.

    ``Misused`` if the service would refuse to start with them.
    """
    wanted, given, limit = found.settings, found.settings.model_fields_set, memory_limit.memory_limit()
    try:
        models_mb = memory_limit.budget_mb(wanted.memory_budget_mb, "memory_budget_mb" in given, limit)
        bodies_mb = memory_limit.bodies_mb(wanted.bodies_mb, "bodies_mb" in given, limit)
        settings = wanted.model_copy(update={"memory_budget_mb": models_mb, "bodies_mb": bodies_mb})
        validated(settings, found.keys_file)
        return settings, tls.options(settings.tls_cert, settings.tls_key, settings.tls_ca)
    except ValueError as error:
        raise Misused(str(error)) from None


def _refuse_taken(settings: Settings) -> None:
    """Refuse a port that is taken, and name a free one."""
    try:
        free = private.free_port(settings.port, settings.host)
    except OSError:  # not an address of this machine, a name, or no permission for the port: the server says which
        return
    if settings.port != free:
        raise Failed(
            f"port {settings.port} of {settings.host} is taken; {free} is free: ONEPASS_PORT={free}; "
            "a second service also needs ONEPASS_DATA_DIR, or ONEPASS_REDIS_URL to share the models"
        )


def _compile_kernels() -> bool:
    """Compile missing kernels in separate processes before anything starts."""
    from service.first_run import compiling, kernels  # noqa: PLC0415  the other commands start without core

    kernels.report_compilations(lambda *one: logger.warning("compiling while serving takes seconds: %s %s", *one))
    try:
        ready = kernels.kernels_at_hand()
        if ready is None:
            logger.info("compiling kernels, once per installation: 35 s on two idle cores")
            compiling.compile_missing()
    except (kernels.CannotCompile, OSError) as error:
        logger.error("%s", error)  # noqa: TRY400  the message says enough
        return False
    logger.info("%s", ready or "kernels compiled")
    return True


def _stop_at_eof() -> None:
    """Wait for the end of standard input, then terminate this process."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
