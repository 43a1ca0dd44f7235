"""``onepass keys new``: a secret for a key, and the line that the service is given of it."""

import argparse
import hashlib
import json
import re
import secrets
import sys
from datetime import UTC, date, datetime

DETAILS = """\
Make a secret for a key of the service. The secret is for the client, and shown this once; the entry is for the service:
a line of the file that ONEPASS_API_KEYS_FILE names, or a member of ONEPASS_API_KEYS. It holds only a digest of the
secret. A service reads its file again by itself. To replace a secret, add the entry of a new one under the same name,
hand the secret out, then remove the old entry."""
SCOPES = ("read", "learn", "admin")
SECRET_BYTES = 32


def declare(name: str, parser: argparse.ArgumentParser) -> None:  # noqa: ARG001  of the one command
    """Declare the options."""
    parser.description, parser.usage = (
        DETAILS,
        "onepass keys new NAME --scopes SCOPES [--models PATTERNS] [--expires DAY]",
    )
    parser.add_argument("what", choices=["new"], help="what to do")
    parser.add_argument("name", metavar="NAME", type=_name, help="of the key: for logs and errors")
    parser.add_argument(
        "--scopes", type=_scopes, required=True, help="read, learn or admin, which includes the ones before it"
    )
    parser.add_argument("--models", type=_models, default="", help="name patterns joined by +; default: every model")
    parser.add_argument("--expires", type=_day, default="", help="the last day, in UTC: 2027-01-31; default: never")
    parser.add_argument("--json", action="store_true", help="print {secret, entry}")


def run(options: argparse.Namespace) -> int:
    """Print a secret and its entry; the exit status."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    found = {"secret": secret, "entry": entry_of(options, secret)}
    if options.json:
        print(json.dumps(found))
    else:
        print(f"secret  {found['secret']}\nentry   {found['entry']}")
        print("The secret is not shown again; $ needs single quotes in a shell.", file=sys.stderr)
    return 0


def entry_of(options: argparse.Namespace, secret: str) -> str:
    """What the service is given: the digest of the secret, and what it allows."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    fields = [options.name, f"sha256${digest}", options.scopes, options.models, options.expires]
    return ":".join(fields).rstrip(":")


def _name(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", text) is None:
        raise argparse.ArgumentTypeError("letters, digits, '.', '_', '@' and '-', at most 64")
    return text


def _scopes(text: str) -> str:
    if not text or not {*text.split("+")} <= {*SCOPES}:
        raise argparse.ArgumentTypeError(f"{', '.join(SCOPES)}, joined by +")
    return text


def _models(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._*?\[\]+-]*", text) is None:
        raise argparse.ArgumentTypeError("patterns of model names, joined by +")
    return text


def _day(text: str) -> str:
    try:
        last = date.fromisoformat(text) if text else None
    except ValueError:
        raise argparse.ArgumentTypeError("a date such as 2027-01-31") from None
    today = datetime.now(UTC).date()
    if last is not None and last < today:
        raise argparse.ArgumentTypeError(f"{last} is over, in UTC it is {today}: the key would have expired already")
    return "" if last is None else last.isoformat()
