"""One service over HTTP: its address, the key, requests that are safe to repeat, refusals in words."""

import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass
from uuid import uuid4

import httpx
from httpx import codes
from typer import BadParameter, Option

from service.client.display import shortened, spelt
from service.client.failures import Failed, Misused

PORT = 8000
LOOPBACK = re.compile(r"localhost|127\.[\d.]+|::1")  # hosts that are never reached through a proxy
TIMEOUT_S = 60.0
RECONNECT_S = 0.5
PATIENCE_S = 60.0  # how long a patient command retries a request while the service is unavailable
WAIT_S_MAX = 10.0  # longest wait before a retry, even if Retry-After is longer
ERRORS_SHOWN, ALLOWED_SHOWN = 5, 40
PASSING = (codes.TOO_MANY_REQUESTS, codes.BAD_GATEWAY, codes.SERVICE_UNAVAILABLE, codes.GATEWAY_TIMEOUT)
LASTING = ("model-down", "model-lost")  # problem types of a 503 that is not worth retrying: a person has to act


def service_url(text: str) -> str:
    """The address of a service without a trailing slash; ``BadParameter`` if it is not a URL."""
    with suppress(ValueError, httpx.InvalidURL):
        parts = urlsplit(str(httpx.URL(text)))
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not {"?", "#"} & {*text}:
            return text.rstrip("/")
    raise BadParameter(f"{text!r} is not http://HOST[:PORT]")


def default_port() -> int:
    """The port of ``onepass serve``: ONEPASS_PORT, unless Kubernetes set it to the address of a service.

    ``Misused`` if it is not a port.
    """
    port = os.environ.get("ONEPASS_PORT", "")
    if port in ("", "0") or "://" in port:
        return PORT
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise Misused(f"ONEPASS_PORT: {port!r} is not a port")
    return int(port)


def _url(default: str, variable: str | None = None) -> Any:
    return Option("--url", envvar=variable, metavar="URL", parser=service_url, help=f"Default: {default}.")


def _pem(variable: str, what: str) -> Any:
    return Option(envvar=variable, exists=True, dir_okay=False, metavar="FILE", help=f"PEM file of {what}.")


Url = Annotated[str | None, _url("port ONEPASS_PORT here", "ONEPASS_URL")]


@dataclass(frozen=True, slots=True)
class Service:
    """The service that a command talks to: its address, the API key, files for https."""

    url: Url = None
    key: Annotated[str | None, Option(envvar="ONEPASS_API_KEY", metavar="SECRET", help="API key.")] = None
    ca: Annotated[Path | None, _pem("ONEPASS_CA", "authorities to trust")] = None
    client_cert: Annotated[Path | None, _pem("ONEPASS_CLIENT_CERT", "a certificate and its key")] = None

    @property
    def address(self) -> str:
        """The given URL, else this machine and the port of ``onepass serve``."""
        return self.url or f"http://127.0.0.1:{default_port()}"

    def session(self, *, patient: bool = False) -> "Session":
        """Open a session, ``patient`` if it retries; ``Failed`` if a file for https, the key or a proxy is unusable."""
        key, parts = (self.key or "").strip(), urlsplit(self.address)
        if not key.isprintable():
            raise Misused("--key or ONEPASS_API_KEY: the key has a line break or another control character")
        trusted: ssl.SSLContext | bool = False  # without https nothing is verified, and reading authorities takes 40 ms
        at = f"--ca {self.ca}" if self.ca else "SSL_CERT_FILE"
        try:
            if self.ca or self.client_cert:
                trusted = ssl.create_default_context(cafile=self.ca)
                at = f"--client-cert {self.client_cert}"
                if self.client_cert:
                    trusted.load_cert_chain(self.client_cert)
            elif parts.scheme == "https":
                trusted = httpx.create_ssl_context()
        except OSError as error:
            reason = "is not PEM, or is incomplete" if isinstance(error, ssl.SSLError) else error.strerror
            raise Failed(f"{at}: {reason}") from None
        patience_s, remote = PATIENCE_S if patient else 0.0, LOOPBACK.fullmatch(parts.hostname or "") is None
        try:
            return Session(self.address, key, patience_s=patience_s, verify=trusted, trust_env=remote)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise Misused(f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: {error}") from None


@dataclass(frozen=True, slots=True)
class Running(Service):
    """A service named by --url; without it the command starts a private one."""

    url: Annotated[str | None, _url("a private service")] = None


class Refused(Failed):
    """The service refused a request; ``errors`` are those of the problem document.

    ``explains``: whether the service will still be there to show its page of the problem.
    """

    def __init__(self, response: httpx.Response, *, explains: bool = True) -> None:
        self._url, self._document, self.status = response.url, document_of(response), response.status_code
        self._explains = explains
        self.errors = [one for one in self._document.get("errors") or () if isinstance(one, dict)]
        if self.status in PASSING and str(self._document.get("type")).rpartition("/")[2] not in LASTING:
            asked = response.headers.get("Retry-After", "")
            self.wait_s = min(float(asked), WAIT_S_MAX) if asked.isdecimal() else 1.0
        super().__init__(self.in_words(self.errors))

    def in_words(self, errors: Sequence[Mapping[str, Any]]) -> str:
        """Format the refusal: its sentence, a line per field, the page that explains it."""
        document = self._document
        if not document:
            return f"{self._url} answers HTTP {self.status}, and not like Onepass"
        detail = str(document.get("detail") or document.get("error") or document.get("title") or "refused")
        if errors and all(str(one.get("problem")) in detail for one in errors):
            detail = f"refused with HTTP {self.status}"  # otherwise the fields' texts would appear twice
        lines = [detail, *shortened([_line(one) for one in errors], ERRORS_SHOWN)]
        if self._explains and str(document.get("type", "")).startswith("/"):
            lines.append(f"more: {urljoin(str(self._url), document['type'])}")
        return "\n  ".join(lines)


def _line(error: Mapping[str, Any]) -> str:
    """Format the problem of a field, and what is allowed."""
    allowed = error.get("allowed")
    if isinstance(allowed, list):
        allowed = ", ".join(shortened([spelt(one) for one in allowed], ALLOWED_SHOWN))
    return f"{error.get('field')}: {error.get('problem')}" + (f" ({allowed})" if allowed else "")


class Session(httpx.Client):
    """An HTTP client of one service that raises on errors, and retries while the service is unavailable.

    A request is retried for ``patience_s``; a POST is then sent with an Idempotency-Key, and a DELETE whose retry finds
    nothing is done. Once retries have failed, later requests are not retried. ``stays``: whether the service outlives
    the command. ``how``: further arguments of httpx.Client.
    """

    def __init__(
        self, url: str, key: str | None = None, *, patience_s: float = 0.0, stays: bool = True, **how: Any
    ) -> None:
        headers = {b"Authorization": f"Bearer {key}".encode()} if key else {}
        super().__init__(base_url=url, headers=headers, timeout=TIMEOUT_S, **how)
        self.url, self.patience_s, self.stays, self._answered = url, patience_s, stays, False

    def send(self, request: httpx.Request, **how: Any) -> httpx.Response:
        """Send a request, with retries; ``Refused`` if it is refused, ``Failed`` for a wrong key or no answer."""
        if request.method == "POST" and self.patience_s:
            request.headers.setdefault("Idempotency-Key", uuid4().hex)
        give_up_at, is_sent = time.monotonic() + self.patience_s, False
        while True:
            try:
                response = super().send(request, **how)
                self._answered = True
                is_gone = is_sent and request.method == "DELETE" and response.status_code == codes.NOT_FOUND
                if is_gone or not response.is_error:
                    return response
                response.read()
                failed: Failed = Refused(response, explains=self.stays)
                if response.status_code == codes.UNAUTHORIZED:
                    failed = Failed(f"{failed}\n  give the key with --key or ONEPASS_API_KEY")
                is_sent |= response.status_code != codes.TOO_MANY_REQUESTS
            except httpx.TransportError as error:
                failed, is_sent = self.unreachable(error), True
            if failed.wait_s is None:
                raise failed from None
            if time.monotonic() + failed.wait_s > give_up_at:
                self.patience_s = 0.0
                raise failed from None
            time.sleep(failed.wait_s)

    def ask(self, method: str, path: str, **request: Any) -> Any:
        """Send a request with the arguments of httpx; return the JSON object of the answer. Raises like ``send``."""
        response = self.request(method, path, **request)
        if not (found := document_of(response)):
            raise Refused(response)
        return found

    def found(self, name: str) -> Any:
        """The model of this name; None if there is none."""
        try:
            return self.ask("GET", path_of(name))
        except Refused as refused:
            if refused.status != codes.NOT_FOUND:
                raise
            return None

    def declared(self, name: str) -> dict[str, Any]:
        """The features of a model by name, in an overlap also the next ones; plain numbers are left out."""
        spaces = self.ask("GET", path_of(name, "features"))
        return {one["name"]: one for one in (*(spaces["next"] or ()), *spaces["current"]) if isinstance(one, dict)}

    def unreachable(self, error: httpx.TransportError) -> Failed:
        """Say why there is no answer, and what to do."""
        reason = str(error) or type(error).__name__
        advice = "start a service with onepass serve, or point to another one with --url or ONEPASS_URL"
        parts, proxies = urlsplit(self.url), getproxies() if self.trust_env else {}
        proxy, host = proxies.get(parts.scheme, proxies.get("all")), parts.hostname or ""
        if proxy and not proxy_bypass(host):
            advice = f"requests go through the proxy {proxy.rpartition('@')[2]}; to bypass it, list {host} in NO_PROXY"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            advice = "--ca FILE or ONEPASS_CA names the authority of its certificate"
        if "disconnected without" in reason or "CERTIFICATE_REQUIRED" in reason:
            advice = (
                "with TLS --url begins with https://; a service that asks for a certificate needs --client-cert FILE"
            )
        failed = Failed(f"cannot reach {self.url}: {reason}; {advice}")
        failed.wait_s = RECONNECT_S if self._answered and "CERTIFICATE" not in reason else None
        return failed


def path_of(name: str, *parts: str) -> str:
    """The path of a model, or of a resource below it."""
    return "/".join(["models", *(quote(part, safe="") for part in (name, *parts))])


def document_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer; {} if it is anything else, such as the page of a proxy."""
    with suppress(ValueError):
        found = response.json()
        return found if isinstance(found, dict) else {}
    return {}
