"""Settings from flags, variables, files of secrets, a settings file and .env, in this order; names that are none."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr, ValidationError
from pydantic_settings import DotEnvSettingsSource

from service.api.http.keys import text_of
from service.client.display import suggested
from service.client.failures import Misused
from service.settings import Settings

PREFIX = "ONEPASS_"
FIELDS = Settings.model_fields
SECRETS = {name for name, own in FIELDS.items() if SecretStr in (own.annotation, *get_args(own.annotation))}
"""Settings whose value may be in a file that ONEPASS_NAME_FILE names."""
DOT_ENV = Path(".env")
"""Read where the service starts, if it is there."""
NOT_SETTINGS = {f"{PREFIX}{name}" for name in ("FAILPOINT", "CA", "CLIENT_CERT", "API_KEY", "URL")}
"""Variables of fault tests, and of the commands that are clients."""
WORKERS = (
    "ONEPASS_WORKERS: Onepass serves with one process; start one per core behind a balancer that hashes the model's "
    "name; unset ONEPASS_WORKERS"
)
SEE = "; see onepass settings"
_LINK = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
_LINK_NAME = re.compile(r"\w+_SERVICE_HOST|\w+_SERVICE_PORT(_\w+)?|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
"""What Kubernetes sets in every container beside a service that is named onepass, or onepass-something."""


@dataclass(slots=True)
class Sourced:
    """Values by setting with their origins; what is added later replaces what was there.

    Attributes:
        settings: what comes of all values.
        notes: names that are no settings, a line each.
        files: files that were read.
        keys_file: where the keys are from, if they have a file of their own.
    """

    settings: Settings = field(init=False)
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    keys_file: Path | None = None
    _values: dict[str, Any] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any, origin: str, keys_file: Path | None = None) -> None:
        """Set a value, and say where it is from."""
        self._values[name], self._origins[name] = value, origin
        if name == "api_keys":
            self.keys_file = keys_file

    def file(self, path: Path) -> None:
        """A settings file: ``.toml`` with lines ``name = value``, else lines ``ONEPASS_NAME=value``."""
        try:
            text = path.read_text()
            if path.suffix != ".toml":
                self.variables(DotEnvSettingsSource(Settings, env_file=path).env_vars, f"{path}: ")
            for name, value in tomllib.loads(text).items() if path.suffix == ".toml" else ():
                if name in FIELDS:
                    self.add(name, value, f"{path}: {name}")
                else:
                    self.notes.append(f"{path}: {name} is not a setting{suggested(name, FIELDS) or SEE}")
        except (OSError, ValueError) as error:  # TOML, or not UTF-8
            raise Misused(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        self.files.append(path)

    def variables(self, environment: Mapping[str, str | None], at: str = "") -> None:
        """Variables of the environment or of a file, and those that name files of secrets."""
        given = {name.upper(): value or "" for name, value in sorted(environment.items())}
        if "ONEPASS_WORKERS" in given:  # never a setting, but setting it means expecting more than one process
            raise Misused(WORKERS)
        links = []
        for variable, value in given.items():
            name = variable.removeprefix(PREFIX).lower()
            if name == variable.lower():
                continue
            if name in FIELDS and (name in SECRETS or not _LINK.fullmatch(value)):
                self.add(name, value, at + variable)
            elif name in FIELDS or _LINK_NAME.fullmatch(name.upper()) or _LINK_NAME.fullmatch(variable):
                links.append(variable)
            elif (secret := name.removesuffix("_file")) in SECRETS and value:
                self._secret(secret, Path(value), given, f"{at}{variable}")
            elif secret not in SECRETS and variable not in NOT_SETTINGS:
                self.notes.append(
                    f"{at}{variable} is not a setting{suggested(name, map(str.upper, FIELDS), PREFIX) or SEE}"
                )
        if at and (others := [name for name in given if name.startswith("OTEL_")]):
            self.notes.append(f"{at}{', '.join(others)}: no effect here; set in the environment of the service")
        if links:
            named = links[0] if len(links) == 1 else f"{links[0]} and {len(links) - 1} more"
            self.notes.append(f"{at}{named}: set by Kubernetes for a service of this name, no setting; ignored")

    def _secret(self, name: str, path: Path, given: Mapping[str, str], origin: str) -> None:
        """A secret from a file, whose lines are the members of a list; keys stay as they are, with their comments."""
        variable = f"{PREFIX}{name.upper()}"
        if given.get(variable):
            raise Misused(f"{origin}: {variable} is set as well; leave one of them out")
        try:
            text = text_of(path)
        except (OSError, ValueError) as error:
            raise Misused(f"{origin}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        members = ",".join(line.strip() for line in text.splitlines() if line.strip())
        self.add(name, text if name == "api_keys" else members, str(path), path)

    def checked(self) -> Settings:
        """The settings that are in force; ``Misused`` where a value cannot be: each line names one."""
        try:
            return Settings(**self._values, _env_prefix="\0")  # the environment is read above, and only there
        except ValidationError as error:
            lines = []
            for problem in error.errors():
                name, choices = str(problem["loc"][0]), problem.get("ctx", {}).get("expected", "")
                meant = suggested(str(problem["input"]), re.findall("'([^']*)'", choices))
                lines.append(f"{self._origins.get(name, name)}: {problem['msg']}{meant}")
            raise Misused("\n".join(lines)) from None


def gather(flags: Mapping[str, Any], file: Path | None, environment: Mapping[str, str] = os.environ) -> Sourced:
    """The settings in force, by flags, variables and a file; ``Misused`` where one of them cannot be, or be read."""
    found = Sourced()
    if os.access(DOT_ENV, os.R_OK):  # not where the directory is one that others own
        found.file(DOT_ENV)
    if file is not None:
        found.file(file)
    found.variables(environment)
    for name, value in flags.items():
        found.add(name, value, f"--{name.replace('_', '-')}")
    found.settings = found.checked()
    return found
