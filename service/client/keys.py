"""``onepass keys new``: a secret for a key, and the entry for the service."""

import hashlib
import json
import secrets
import sys
from datetime import UTC, datetime
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from service.client.options import matching

SECRET_BYTES = 32
key_name = matching(r"[A-Za-z0-9._@-]{1,64}", "at most 64 letters, digits, '.', '_', '@' and '-'")
key_scopes = matching(r"(read|learn|admin)(\+(read|learn|admin))*", "read, learn, admin, or some of them joined by +")
key_models = matching(r"[A-Za-z0-9._*?\[\]+-]*", "a pattern of model names, or several joined by +")


def keys(
    *,
    what: Annotated[Literal["new"], Argument(metavar="new", help="What to do.")],  # noqa: ARG001  the only choice
    name: Annotated[str, Argument(metavar="NAME", callback=key_name, help="Name of the key, for logs and errors.")],
    scopes: Annotated[
        str, Option(callback=key_scopes, help="read, learn or admin, each of which includes those before it.")
    ],
    models: Annotated[str, Option(callback=key_models, help="Name patterns joined by +; default: every model.")] = "",
    expires: Annotated[
        datetime | None,
        Option(formats=["%Y-%m-%d"], metavar="DATE", help="The last day, in UTC: 2027-01-31; default: never."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print {secret, entry}.")] = False,
) -> None:
    """Make a secret for a key of the service.

    The secret is for the client, and is shown only once. The entry is for the service: a line of the file that
    ONEPASS_API_KEYS_FILE names, or a member of ONEPASS_API_KEYS. It holds only a digest of the secret. A running
    service rereads its file by itself. To replace a secret, add the entry of a new one under the same name, hand out
    the new secret, then remove the old entry.
    """
    if expires is not None and expires.date() < (today := datetime.now(UTC).date()):
        raise BadParameter(f"must not be in the past; in UTC it is {today}", param_hint="--expires")
    secret = secrets.token_urlsafe(SECRET_BYTES)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    entry = ":".join([name, f"sha256${digest}", scopes, models, str(expires.date()) if expires else ""]).rstrip(":")
    print(json.dumps({"secret": secret, "entry": entry}) if as_json else f"secret  {secret}\nentry   {entry}")
    if not as_json:
        print("The secret is not shown again; $ needs single quotes in a shell.", file=sys.stderr)
