"""Settings from flags, variables, files of secrets, a settings file and .env, in this order; and what is no setting."""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    TomlConfigSettingsSource,
)

from service.api.keys import text_of
from service.replay.wording import suggested
from service.settings import Settings

PREFIX = "ONEPASS_"
LIKENESS = 0.7
"""From here on, of 1, two names are so alike that one may have been meant by the other."""
DOT_ENV = Path(".env")
"""Read where the service starts, if it is there."""
OTHERS = {"ONEPASS_FAILPOINT", "ONEPASS_CA", "ONEPASS_CLIENT_CERT", "ONEPASS_API_KEY", "ONEPASS_URL"}
"""Variables that are no settings, but known: of fault tests, and of the commands that are clients."""
WORKERS = (
    "ONEPASS_WORKERS: Onepass serves with one process; start one per core behind a balancer that hashes the model's "
    "name; unset ONEPASS_WORKERS"
)
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
_LINK_NAME = re.compile(r"\w+_SERVICE_HOST|\w+_SERVICE_PORT(_\w+)?|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
"""What Kubernetes sets in every container for a service that is named onepass, or onepass-something."""
_FIELDS = Settings.model_fields
SECRETS = {name for name, own in _FIELDS.items() if SecretStr in (own.annotation, *get_args(own.annotation))}
"""Settings whose value may be in a file that ONEPASS_NAME_FILE names."""


class Unusable(Exception):
    """Settings that cannot be; each line names one."""


@dataclass(slots=True)
class Sourced:
    """Settings, and what there is to say of where they come from.

    Attributes:
        settings: the settings.
        notes: names that are no settings, a line each.
        files: files that were read.
        keys_file: where the keys are from, if they are from a file of their own.
    """

    settings: Settings
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    keys_file: Path | None = None


class _Merged(Settings):
    """Settings of exactly what they are given: where each value comes from is decided here."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  pydantic-settings passes all of them
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The arguments alone."""
        return (init_settings,)


class _Gathered:
    """Values by field with their origins; what is added later replaces what was there."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []
        self.secret_files: set[str] = set()

    def add(self, values: Mapping[str, Any], origin: Callable[[str], str]) -> None:
        for name, value in values.items():
            if isinstance(value, str) and name not in SECRETS and _LINK_VALUE.fullmatch(value):
                continue  # told by `variables`
            self.values[name], self.origins[name] = value, origin(name)

    def variables(self, source: EnvSettingsSource, file: str) -> None:
        """Variables of the environment or of a file, and those that name files of secrets."""
        given = {name.upper(): value or "" for name, value in source.env_vars.items()}
        if "ONEPASS_WORKERS" in given:  # no longer a setting, but setting it means expecting more than one process
            raise Unusable(WORKERS)
        self.add(source(), lambda name: f"{file}{PREFIX}{name.upper()}")
        for name in SECRETS:
            variable = f"{PREFIX}{name.upper()}"
            if path := given.get(f"{variable}_FILE"):
                if given.get(variable):
                    raise Unusable(f"{file}{variable}_FILE: {variable} is set as well; leave one of them out")
                self.secret_files.add(path)
                self.add({name: _secret(f"{file}{variable}_FILE", Path(path), name)}, lambda _, path=path: path)  # type: ignore[misc]
        self.notes += [file + note for note in _notes(given)]
        if file and (others := sorted(name for name in given if name.startswith("OTEL_"))):
            self.notes.append(f"{file}{', '.join(others)}: no effect here; set in the environment of the service")


def gather(flags: Mapping[str, str], file: Path | None, environment: Mapping[str, str] = os.environ) -> Sourced:
    """The settings that are in force.

    Args:
        flags: values of the command line, by field.
        file: a settings file: ``.toml`` with lines ``name = value``, else lines ``ONEPASS_NAME=value``.
        environment: variables.

    Raises:
        Unusable: a file cannot be read, or a value cannot be.
    """
    found, files = _Gathered(), []
    if _is_there(DOT_ENV):
        _add_file(found, DOT_ENV)
        files.append(DOT_ENV)
    if file is not None:
        _add_file(found, file)
        files.append(file)
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): value for name, value in environment.items()}
    found.variables(source, "")
    found.add(flags, lambda name: f"--{name.replace('_', '-')}")
    try:
        origin = found.origins.get("api_keys", "")
        keys_file = Path(origin) if origin in found.secret_files else None
        return Sourced(_Merged(**found.values), found.notes, files, keys_file)
    except ValidationError as error:
        problems = [(str(problem["loc"][0]), problem["msg"] + _choice(problem)) for problem in error.errors()]
        raise Unusable("\n".join(f"{found.origins.get(name, name)}: {text}" for name, text in problems)) from None


def _choice(problem: ErrorDetails) -> str:
    """Which of the choices of a setting may have been meant."""
    if problem["type"] != "literal_error":
        return ""
    return suggested(str(problem["input"]), re.findall("'([^']*)'", problem["ctx"]["expected"]))


def _is_there(file: Path) -> bool:
    """Whether a file is there; what cannot be looked at, in a directory that others own, is not."""
    try:
        return file.is_file()
    except OSError:
        return False


def _add_file(found: _Gathered, file: Path) -> None:
    try:
        file.read_bytes()
        if file.suffix != ".toml":
            return found.variables(DotEnvSettingsSource(Settings, env_file=file), f"{file}: ")
        values = TomlConfigSettingsSource(Settings, toml_file=file)()
    except OSError as error:
        raise Unusable(f"{file}: {error.strerror}") from None
    except ValueError as error:  # TOML, or no UTF-8
        raise Unusable(f"{file}: {error}") from None
    known = {name: value for name, value in values.items() if name in _FIELDS}
    found.add(known, lambda name: f"{file}: {name}")
    found.notes += [f"{file}: {name} is not a setting; {_meant(name, _FIELDS)}" for name in values if name not in known]
    return None


def _secret(variable: str, path: Path, name: str) -> str:
    """The content of a file of secrets; its lines are the members of a list, as commas part them elsewhere.

    That of keys stays as it is: lines may be comments, and what is wrong is told by its line.
    """
    try:
        text = text_of(path)
        return text if name == "api_keys" else ",".join(line.strip() for line in text.splitlines() if line.strip())
    except (OSError, ValueError) as error:
        raise Unusable(f"{variable}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _notes(given: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none: a misspelt one must not be ignored in silence."""
    known = {PREFIX + name.upper() for name in _FIELDS} | {f"{PREFIX}{name.upper()}_FILE" for name in SECRETS}
    ours = sorted(name for name in given if name.startswith(PREFIX))
    links = [name for name in ours if _is_link(name, given[name], known)]
    unknown = [name for name in ours if name not in links and name not in known | OTHERS]
    told = [f"{name} is not a setting; {_meant(name, known)}" for name in unknown]
    if links:
        named = links[0] if len(links) == 1 else f"{links[0]} and {len(links) - 1} more"
        told.append(f"{named}: set by Kubernetes for a service of this name, no setting; ignored")
    return told


def _is_link(name: str, value: str, known: Iterable[str]) -> bool:
    return bool(_LINK_VALUE.fullmatch(value) and name.removeprefix(PREFIX).lower() not in SECRETS) or (
        name not in known and bool(_LINK_NAME.fullmatch(name))
    )


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(
        name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], 1, LIKENESS
    )
    prefix = PREFIX if name.startswith(PREFIX) else ""
    return f"did you mean {prefix}{near[0]}?" if near else "see onepass settings"
