"""What the commands share that are clients of a service: its address, requests, refusals, what they print with."""

import argparse
import os
import ssl
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, unquote, urljoin

import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.replay import Failed, trust
from service.replay.client import document_of
from service.replay.options import key_of, model_name, service_url
from service.replay.refusals import lines_of
from service.replay.wording import IN_COMMANDS, in_flags, suggested

URL = "http://127.0.0.1:8000"
TIMEOUT_S = 60.0
STATUS = "Exit status: 0 done, 1 refused or failed (the reason on stderr), 2 usage."
LISTED_MAX = 1000
"""Models among which one of a mistyped name is looked for."""
WIDE = 1000
"""Columns where no terminal bounds them."""
ONLY_JSON = "print the API's document as it is"


class Refused(Exception):
    """The service refuses, cannot be reached, or answers nonsense; the message is for people.

    Args:
        message: for people.
        status: of the service's answer, if there is one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Misused(Exception):
    """The command line cannot be, for a reason that argparse does not see."""


class Connection:
    """A running service.

    Args:
        url: where it is.
        key: API key; None: no header is sent.
        tls: what an https service is trusted by; None: as usual.
    """

    def __init__(self, url: str, key: str | None, tls: ssl.SSLContext | None = None) -> None:
        headers = {} if key is None else {b"Authorization": f"Bearer {key}".encode()}
        verify = True if tls is None else tls
        self.url, self._http = url, httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, verify=verify)

    def close(self) -> None:
        """Close it."""
        self._http.close()

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The answer to a request.

        Args:
            method: of the request.
            path: of the request.
            request: as httpx takes it.

        Raises:
            Refused: the service refuses, or cannot be reached.
        """
        with self.stream(method, path, **request) as response:
            response.read()
        return response

    @contextmanager
    def stream(self, method: str, path: str, **request: Any) -> Generator[httpx.Response]:
        """The same, for answers that are read in pieces."""
        try:
            with self._http.stream(method, path, **request) as response:
                if response.is_error:
                    response.read()
                    raise Refused(refusal(response, self._meant(path, response)), response.status_code)
                yield response
        except httpx.TransportError as error:
            raise Refused(
                f"cannot reach {self.url}: {str(error) or type(error).__name__}; {_advice(str(error))}"
            ) from None

    def _meant(self, path: str, response: httpx.Response) -> str:
        """Which model may have been meant by a name that none has."""
        names = [one.get("field") for one in document_of(response).get("errors") or () if isinstance(one, dict)]
        if response.status_code != httpx.codes.NOT_FOUND or names != ["name"]:
            return ""
        with suppress(httpx.TransportError):
            listed = document_of(self._http.get("models", params={"limit": LISTED_MAX})).get("models") or ()
            return suggested(unquote(path.split("/")[1]), [one["name"] for one in listed])
        return ""


def _advice(error: str) -> str:
    """What to do about a service that cannot be reached."""
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return "--ca FILE or ONEPASS_CA names the authority that its certificate is of"
    if "disconnected without" in error or "CERTIFICATE_REQUIRED" in error:
        return "with TLS, --url begins with https://; a service that asks for a certificate needs --client-cert FILE"
    return "start it with onepass serve, or name another one with --url or ONEPASS_URL"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every such command."""
    parser.epilog = STATUS
    where = parser.add_argument_group("service")
    where.add_argument(
        "--url",
        type=service_url,
        default=os.environ.get("ONEPASS_URL") or URL,
        help=f"address of the service; default: ONEPASS_URL, else {URL}",
    )
    where.add_argument("--key", metavar="SECRET", default=key_of(os.environ), help="API key; default: ONEPASS_API_KEY")
    trust.declare(where)


def declare_json(parser: argparse.ArgumentParser) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", help=ONLY_JSON)


def declare_name(parser: argparse.ArgumentParser) -> None:
    """Declare the model's name."""
    parser.add_argument("name", type=model_name, metavar="NAME", help="name of the model")


def carry_out(options: argparse.Namespace, steps: Callable[[Connection, argparse.Namespace], None]) -> int:
    """Run the steps of a command; its exit status."""
    try:
        connection = Connection(options.url, options.key, trust.context(options.ca, options.client_cert))
    except Failed as error:
        print(f"onepass {options.command}: {error}", file=sys.stderr)
        return 1
    try:
        steps(connection, options)
    except (Refused, Misused) as error:
        print(f"onepass {options.command}: {error}", file=sys.stderr)
        return 1 if isinstance(error, Refused) else 2
    finally:
        connection.close()
    return 0


def path_of(name: str, *parts: str) -> str:
    """The path of a model, or of something below it."""
    return "/".join(("models", quote(name, safe=""), *parts))


def refusal(response: httpx.Response, hint: str = "") -> str:
    """A problem document for people: its sentence, a hint, a line for each field, the page that explains it."""
    document = document_of(response)
    if not document:
        return f"{response.url} answers HTTP {response.status_code}, and not like Onepass"
    detail = str(document.get("detail") or document.get("error") or document.get("title") or "refused")
    errors = [one for one in document.get("errors") or () if isinstance(one, dict)]
    if errors and all(str(one.get("problem")) in detail for one in errors):
        detail = f"refused with HTTP {response.status_code}"  # the same words as those of the fields
    lines = [detail + hint, *(f"  {line}" for line in lines_of(errors, None))]
    if response.status_code == httpx.codes.UNAUTHORIZED:
        lines.append("  the key is given by --key or ONEPASS_API_KEY")
    if str(document.get("type", "")).startswith("/"):
        lines.append(f"  more: {urljoin(str(response.url), document['type'])}")
    return in_flags("\n".join(lines), IN_COMMANDS)


def print_document(response: httpx.Response) -> None:
    """Print the API's document as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(response.content + b"\n")
    sys.stdout.buffer.flush()


def console() -> Console:
    """What people read: as wide as the terminal, and uncut in a pipe or file."""
    terminal = sys.stdout.isatty()
    return Console(highlight=False, markup=False, width=None if terminal else WIDE)


def fitting(out: Console, table: Callable[[list[str]], Table], columns: Iterable[str], spared: Iterable[str]) -> Table:
    """A table as wide as the terminal: where that is narrow, without what can be missed.

    Args:
        out: where it is printed.
        table: makes it of the columns that are shown.
        columns: all of them.
        spared: those that may be left out, in this order.
    """
    shown, unbounded = [*columns], out.options.update(max_width=WIDE)
    for one in spared:
        found = table(shown)
        if out.measure(found, options=unbounded).maximum <= out.width:
            return found
        shown.remove(one)
    return table(shown)


def text(value: object, style: str = "") -> Text:
    """A value as a cell; what a terminal would obey is replaced."""
    return Text("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value)), style=style)


def pieces(file: Any, size: int = 2**20) -> Iterator[bytes]:
    """An open file in pieces."""
    while piece := file.read(size):
        yield piece
