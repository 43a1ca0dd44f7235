"""Settings from flags, variables, files of secrets, a settings file and .env, in this order; notes on other names."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import SecretStr, ValidationError
from pydantic_settings import DotEnvSettingsSource

from service.api.http.keys import text_of
from service.settings import Settings

PREFIX = "ONEPASS_"
FIELDS = Settings.model_fields
SECRETS = {name for name, own in FIELDS.items() if SecretStr in (own.annotation, *get_args(own.annotation))}
"""Settings that ONEPASS_NAME_FILE may read from a file."""
DOT_ENV = Path(".env")  # read from the working directory if it exists
NOT_SETTINGS = {f"{PREFIX}{name}" for name in ("CA", "CLIENT_CERT", "API_KEY", "URL")}
"""Variables for the client commands."""
WORKERS = (
    "ONEPASS_WORKERS: Onepass serves with one process; start one per core behind a balancer that hashes the model's "
    "name; unset ONEPASS_WORKERS"
)
_LINK = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
_LINK_NAME = re.compile(r"\w+_SERVICE_HOST|\w+_SERVICE_PORT(_\w+)?|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
"""Variables that Kubernetes sets in every container for a service named onepass or onepass-something."""

SettingValues = dict[str, tuple[Any, str | Path]]
"""Values by setting, each with its origin: a text, or the path of a secret's file."""


class Sourced(NamedTuple):
    """The effective settings, and their sources."""

    settings: Settings
    notes: list[str]  # a line for each name that is no setting
    files: list[Path]  # settings files that were read
    keys_file: Path | None  # the file of the keys, if they have one


def gather(flags: Mapping[str, Any], file: Path | None, environment: Mapping[str, str] = os.environ) -> Sourced:
    """Merge flags, variables and files; ``ValueError`` if a value is invalid or a file cannot be read."""
    found, notes, files = SettingValues(), list[str](), list[Path]()
    if os.access(DOT_ENV, os.R_OK):  # it may be unreadable if the directory belongs to another user
        files.append(DOT_ENV)
    if file is not None:
        files.append(file)
    for path in files:
        found |= _of_file(path, notes)
    found |= _of_variables(environment, notes)
    found |= {name: (value, f"--{name.replace('_', '-')}") for name, value in flags.items()}
    _, keys_file = found.get("api_keys", ("", ""))
    try:  # only _of_variables reads the environment
        settings = Settings(**{name: value for name, (value, _) in found.items()}, _env_prefix="\0")
    except ValidationError as error:
        lines = [f"{found[str(problem['loc'][0])][1]}: {problem['msg']}" for problem in error.errors()]
        raise ValueError("\n".join(lines)) from None
    return Sourced(settings, notes, files, keys_file if isinstance(keys_file, Path) else None)


def _of_file(path: Path, notes: list[str]) -> SettingValues:
    """Read a settings file: ``.toml`` with lines ``name = value``, else lines ``ONEPASS_NAME=value``."""
    try:
        text = path.read_text()
        given = tomllib.loads(text) if path.suffix == ".toml" else {}
    except (OSError, ValueError, RecursionError) as error:  # TOML, perhaps too deep, or not UTF-8
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix != ".toml":
        return _of_variables(DotEnvSettingsSource(Settings, env_file=path).env_vars, notes, f"{path}: ")
    secrets = {name: str(value) for name, value in given.items() if name.removesuffix("_file") in SECRETS}
    found = _of_variables({PREFIX + name: value for name, value in secrets.items()}, notes, f"{path}: ")
    for name, value in given.items():
        if name in FIELDS and f"{name}_file" not in secrets:
            found[name] = value, f"{path}: {name}"
        elif name not in secrets:
            notes.append(f"{path}: {name} is not a setting; {_meant(name)}")
    return found


def _of_variables(environment: Mapping[str, str | None], notes: list[str], at: str = "") -> SettingValues:
    """Read variables of the environment or of a file, and the secrets in the files that some of them name."""
    given = {name.upper(): value or "" for name, value in sorted(environment.items())}
    if "ONEPASS_WORKERS" in given:  # never a setting, but someone who sets it expects several processes
        raise ValueError(WORKERS)
    found, links = SettingValues(), []
    for variable, value in given.items():
        name = variable.removeprefix(PREFIX).lower()
        if name == variable.lower():
            continue
        if name in FIELDS and (name in SECRETS or not _LINK.fullmatch(value)):
            found[name] = value, at + variable
        elif name in FIELDS or _LINK_NAME.fullmatch(variable):
            links.append(variable)
        elif (secret := name.removesuffix("_file")) in SECRETS and value:
            if given.get(_variable(secret)):
                raise ValueError(f"{at}{variable}: {_variable(secret)} is set as well; leave one of them out")
            found[secret] = _secret(secret, Path(value), at + variable), Path(value)
        elif secret not in SECRETS and variable not in NOT_SETTINGS:
            notes.append(f"{at}{variable} is not a setting; {_meant(name, _variable)}")
    if links:
        named = links[0] + (f" and {len(links) - 1} more" if links[1:] else "")
        notes.append(f"{at}{named}: set by Kubernetes for a service of this name, no setting; ignored")
    return found


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _meant(given: str, form: Callable[[str], str] = str) -> str:
    """The setting with a similar name, if there is one, else where all of them are listed."""
    near = get_close_matches(given, FIELDS, 1)
    return f"did you mean {form(near[0])}?" if near else "see onepass settings"


def _secret(name: str, path: Path, origin: str) -> str:
    """Read a secret from a file, each line a member of a list; the text of keys is kept as it is, with comments."""
    try:
        text = text_of(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{origin}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{origin}: {path} is empty")
    return text if name == "api_keys" else ",".join(lines)
