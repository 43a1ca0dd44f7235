"""The service's HTTP interface: requests that are safe to repeat, refusals as readable text.

A batch carries an Idempotency-Key (or an id per row), so that sending it again after a 503, a lost connection or a lost
answer learns no row twice. The service says how long to wait (Retry-After); the total time of retries is bounded.
"""

import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from service.replay import Failed, refusals
from service.replay.source import Batch
from service.replay.wording import in_flags

TIMEOUT_S = 60.0
"""How long one request may take."""
PATIENCE_S = 60.0
"""How long a request is repeated."""
WAIT_S_MAX = 10.0
"""Longest wait between two tries, whatever Retry-After says."""
MODEL_DOWN = "model-down"
"""Last part of the type of a problem that does not pass: one model is out of service."""
AGAIN = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


class Service:
    """A running service.

    Args:
        url: where it is.
        key: API key; without one (None or empty) no header is sent.
        private: whether it was started by this replay; no proxy is used then.
        tls: what an https service is trusted by; None: as usual.
        patience_s: how long a request is repeated while the service is not available.

    Attributes:
        url, patience_s: as given.
        run: a word of its own for every replay.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        private: bool = False,
        patience_s: float = PATIENCE_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        headers = {} if not key else {b"Authorization": f"Bearer {key}".encode()}
        verify = True if tls is None else tls
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=not private, verify=verify
        )
        self.url, self.patience_s, self.run = url, patience_s, uuid4().hex
        self._answered, self._keys = False, 0

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def algorithms(self) -> list[dict[str, Any]]:
        """The service's catalogue."""
        listed: list[dict[str, Any]] = self.ask("GET", "algorithms")["algorithms"]
        return listed

    def tasks(self, algorithm: str) -> list[str]:
        """The tasks of an algorithm; none where the service does not know it."""
        return next((entry["tasks"] for entry in self.algorithms() if entry["id"] == algorithm), [])

    def create(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The model of this name, new or the same as before.

        Raises:
            Failed: refused; another model has the name.
        """
        return self.ask("PUT", path_of(name), json=body)

    def challenge(self, name: str, challenger: str, body: Mapping[str, Any]) -> None:
        """Put a challenger beside a model.

        Raises:
            Failed: refused.
        """
        self.ask("PUT", f"{path_of(name)}/challengers/{quote(challenger, safe='')}", json=body)

    def challengers(self, name: str, version: int) -> list[dict[str, Any]]:
        """The challengers of a model, with their metrics, of this version or a later one."""
        told = self.ask("GET", f"{path_of(name)}/challengers", params={"min_version": version})
        found: list[dict[str, Any]] = told["challengers"]
        return found

    def learn(self, name: str, batch: Batch, label: str, id_column: str | None) -> dict[str, Any]:
        """Send a batch: each row is tested, then trained.

        Raises:
            Failed: refused, with the lines of the file at fault; or the service cannot be reached.
        """
        query, headers = {"label": label}, {"Content-Type": "text/csv; charset=utf-8"}
        if id_column is None:
            headers["Idempotency-Key"] = f"replay-{self.run}-{batch.first}"
        else:
            query["id"] = id_column
        path = f"{path_of(name)}/feedback/batch"
        return self.ask("POST", path, batch, params=query, headers=headers, content=batch.body)

    def model(self, name: str, version: int) -> dict[str, Any]:
        """The model, of this version or a later one."""
        return self.ask("GET", path_of(name), params={"min_version": version})

    def features(self, name: str, version: int) -> list[Any]:
        """The model's features in use, of this version or a later one; also those that the first row has fixed."""
        found: list[Any] = self.ask("GET", f"{path_of(name)}/features", params={"min_version": version})["current"]
        return found

    def metrics(self, name: str, version: int) -> dict[str, Any]:
        """The model's metrics, of this version or a later one."""
        return self.ask("GET", f"{path_of(name)}/metrics", params={"min_version": version})

    def found(self, name: str) -> dict[str, Any] | None:
        """The model of this name, if there is one.

        Raises:
            Failed: refused for another reason.
        """
        response = self._answer("GET", path_of(name))
        return None if response.status_code == httpx.codes.NOT_FOUND else self._read(response, None)

    def has(self, name: str) -> bool:
        """Whether there is a model of this name.

        Raises:
            Failed: refused for another reason.
        """
        return self.found(name) is not None

    def delete(self, name: str) -> None:
        """Delete a model; one that is gone already is fine.

        Raises:
            Failed: refused.
        """
        response = self._answer("DELETE", path_of(name))
        if response.is_error and response.status_code != httpx.codes.NOT_FOUND:
            raise Failed(reason_of(response, None))

    def fresh_key(self) -> str:
        """An Idempotency-Key that nobody has used."""
        self._keys += 1
        return f"{self.run}-{self._keys}"

    def ask(self, method: str, path: str, batch: Batch | None = None, **request: Any) -> dict[str, Any]:
        """The document that answers a request.

        Args:
            method: of the request, which is repeated while the service is not available.
            path: of the request.
            batch: rows of a file that it carries, which a refusal names by line.
            request: as httpx takes it.

        Raises:
            Failed: refused, or the service cannot be reached.
        """
        return self._read(self._answer(method, path, **request), batch)

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The final answer to a request that is repeated until there is one."""
        give_up_at = time.monotonic() + self.patience_s
        while True:
            try:
                response = self._http.request(method, path, **request)
            except httpx.TransportError as error:
                said = str(error) or type(error).__name__
                reason, wait_s = f"cannot reach the service at {self._http.base_url}: {said}", 0.5
                if not self._answered:
                    raise Failed(reason) from None
            else:
                self._answered = True
                if response.status_code not in AGAIN or slug_of(response) == MODEL_DOWN:
                    return response
                reason, wait_s = reason_of(response, None), retry_after_s(response)
            if time.monotonic() + wait_s > give_up_at:
                raise Failed(f"{reason} (gave up after {self.patience_s:.0f} s)")
            time.sleep(wait_s)

    def _read(self, response: httpx.Response, batch: Batch | None) -> dict[str, Any]:
        if response.is_error:
            raise Failed(reason_of(response, batch))
        if not (answer := document_of(response)):
            raise Failed(f"{self._http.base_url} does not answer like Onepass (HTTP {response.status_code}, no JSON)")
        return answer


def path_of(name: str) -> str:
    """The path of a model."""
    return f"models/{quote(name, safe='')}"


def retry_after_s(response: httpx.Response) -> float:
    """How long to wait before the next try."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), WAIT_S_MAX) if text.isascii() and text.isdigit() else 1.0


def document_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a response; {} where it is something else, such as a proxy's page."""
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def slug_of(response: httpx.Response) -> str:
    """Which problem a refusal is, by the last part of its type; "" where it is none."""
    kind = document_of(response).get("type")
    return kind.rpartition("/")[2] if isinstance(kind, str) else ""


def reason_of(response: httpx.Response, batch: Batch | None) -> str:
    """A refusal in a few lines, the first one the reason; rows of a batch as lines of the file."""
    document = document_of(response)
    errors = refusals.lines_of([error for error in document.get("errors") or () if isinstance(error, dict)], batch)
    said = f"refused with HTTP {response.status_code}"
    if document.get("detail") and (not errors or response.status_code != httpx.codes.UNPROCESSABLE_ENTITY):
        said, errors = f"{said}: {document['detail']}", []
    if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        said += "; try a smaller --batch"
    return in_flags(f"{said}: {errors[0]}" if len(errors) == 1 else "\n  ".join([said, *errors]))
