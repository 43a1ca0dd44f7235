"""A client of Onepass in one file: get it from a running service and import it. It needs only Python 3.9 or later.

    from onepass import Onepass
    model = Onepass("http://localhost:8000").model("boiler")
    model.create(task="regression")
    model.feedback({"outside": 4.5}, 61.5)
    model.predict({"outside": 5.0})

Every feedback carries an id, so that it is learned once, however often it is sent again. A 429, a 502 to 504 and a
broken connection are retried after Retry-After, until ``patience_s`` has passed; a model that is out of service or
lost, a certificate that is not trusted, and a tracked prediction that may have been kept fail at once. Rows are dicts
by feature name, lists, arrays, or a data frame.
Connections are kept for each thread; a forked process opens its own.
"""

from __future__ import annotations  # for Python 3.9

import http.client
import json
import math
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

PATIENCE_S = 60.0  # how long a request is tried by default
TIMEOUT_S = 30.0  # how long one try may wait for the service
PAUSE_S, PAUSE_S_MAX = 0.1, 5.0
"""First pause between two tries without a Retry-After; it doubles each time, up to the second number."""
WAIT_S_MAX = 10.0  # longest pause, even if Retry-After is longer
NOT_FOUND, TOO_MANY_REQUESTS, UNAVAILABLE = 404, 429, 503
OF_BALANCERS = (502, 504)  # the service may have carried the request out
LASTING = ("model-down", "model-lost")  # the problem types of a 503 that is not worth retrying


class OnepassError(Exception):
    """The service refused a request, or could not be reached.

    Attributes:
        status: HTTP status; 0: the service could not be reached.
        type: the path of the page about this problem.
        errors: the wrong fields, each with ``field``, ``problem`` and ``allowed``.
        passes: whether the same request may succeed later.
        unsure: whether the request may have been carried out, although there is no answer of the service.
        retry_after_s: how long the service asks to wait until then, if it does.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        self.status, self.retry_after_s = status, retry_after_s
        self.type = str(problem.get("type", "about:blank"))
        is_lasting = self.type.rpartition("/")[2] in LASTING
        self.passes = status in (0, TOO_MANY_REQUESTS, UNAVAILABLE, *OF_BALANCERS) and not is_lasting
        self.unsure = status in (0, *OF_BALANCERS)
        self.errors: list[dict[str, Any]] = list(problem.get("errors") or [])
        detail = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        fields = [f"{one.get('field')}: {one.get('problem')}" for one in self.errors]
        super().__init__("; ".join([detail, *(text for text in fields if text not in detail)]))


class Onepass:
    """One service.

    Args:
        url: its address, with the root path if it has one; default: ONEPASS_URL, else port ONEPASS_PORT here, or 8000.
        key: API key, if the service has keys.
        patience_s: how long a request is retried while the service is unavailable.
    """

    def __init__(self, url: str | None = None, key: str | None = None, patience_s: float = PATIENCE_S) -> None:
        port = os.environ.get("ONEPASS_PORT", "")
        url = url or os.environ.get("ONEPASS_URL") or f"http://127.0.0.1:{port if port.isdecimal() else 8000}"
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not http://HOST[:PORT] or https://HOST[:PORT]")
        self._connection_of = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._root = parts.hostname, parts.port, parts.path
        self._headers = {} if key is None else {"X-API-Key": key.strip()}
        self._patience_s = patience_s
        self._threads = threading.local()

    def model(self, name: str) -> RemoteModel:
        """The model of this name, whether it exists or not."""
        return RemoteModel(self, name)

    def __enter__(self) -> Onepass:  # noqa: PYI034 (Python 3.10 has no Self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection; the next request opens another one."""
        connection, self._threads.connection = getattr(self._threads, "connection", None), None
        if connection is not None:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send one request and return the JSON of its answer.

        A POST has an Idempotency-Key: it is learned once, and balancers may repeat it as well. A tracked prediction has
        none, and is not sent again after a 502, a 504 or a connection that broke after it was sent: both would be kept,
        and ``labels_due`` may give both a label. After a 503 it is: the service takes back what it may have kept,
        unless its store fails once more meanwhile.

        Raises:
            OnepassError: it was refused, or still failed after ``patience_s``.
            ValueError: the body has a number that is not finite.
        """
        sent = None if body is None else json.dumps(body, allow_nan=False, default=_plain).encode()
        more = {"Accept": "application/json", "Content-Type": "application/json", **self._headers}
        is_kept = isinstance(body, Mapping) and "track" in body
        if method == "POST" and not is_kept:
            more["Idempotency-Key"] = uuid4().hex
        until, pause, is_sent = time.monotonic() + self._patience_s, PAUSE_S, False
        while True:
            try:
                return self._try(method, self._root + path, sent, more)
            except OnepassError as error:
                if is_sent and method == "DELETE" and error.status == NOT_FOUND:
                    return {}  # it was carried out, but the answer was lost
                is_sent |= error.status != TOO_MANY_REQUESTS
                wait = min(error.retry_after_s or pause, WAIT_S_MAX)
                if not error.passes or (is_kept and error.unsure) or time.monotonic() + wait > until:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, PAUSE_S_MAX)

    def _try(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a request once."""
        connection = getattr(self._threads, "connection", None)
        if connection is None or self._threads.process != os.getpid():  # never the parent's after a fork
            connection = self._connection_of(self._host, self._port, timeout=TIMEOUT_S)
            self._threads.connection, self._threads.process = connection, os.getpid()
        if connection.sock is not None and _is_over(connection.sock):
            connection.close()
        is_open = False
        try:
            if connection.sock is None:
                connection.connect()
            is_open = True
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = str(error) or type(error).__name__
            failed = OnepassError(0, {"detail": f"cannot reach {self._host}:{connection.port}: {reason}"})
            failed.passes, failed.unsure = "CERTIFICATE" not in reason, is_open
            raise failed from error
        if 200 <= status < 300:
            return _document(status, content)
        wait = answer.getheader("Retry-After", "")
        raise OnepassError(status, _document(status, content), float(wait) if wait.isdecimal() else None)


class RemoteModel:
    """One model of a service; a method sends one request, or first asks for the features if its rows have no names."""

    def __init__(self, service: Onepass, name: str) -> None:
        self.name = name
        self._service = service
        self._path = f"/models/{quote(name, safe='')}"

    # ---------------------------------------------------------------- like the API

    def create(self, **config: Any) -> dict[str, Any]:
        """Create the model; the arguments are its configuration. Creating it again in the same way changes nothing."""
        return self._ask("PUT", "", config)

    def delete(self) -> None:
        """Delete the model."""
        self._ask("DELETE", "")

    def show(self) -> dict[str, Any]:
        """Configuration, version, rows, metrics and the learner's own report."""
        return self._ask("GET", "")

    def metrics(self) -> dict[str, Any]:
        """The prequential metrics and their baselines."""
        return self._ask("GET", "/metrics")

    def predict(
        self,
        features: Mapping[str, Any],
        *,
        track: bool = False,
        explain: bool = False,
        interval: float | None = None,
        served: Any = None,
    ) -> dict[str, Any]:
        """Predict one row.

        Args:
            features: values by name.
            track: keep the row until its label arrives with the ``prediction_id`` of the answer.
            explain: add an explanation.
            interval: share of labels that an interval around the prediction should cover (regression).
            served: with ``track``, what another model predicted.
        """
        asked = {"track": track or None, "explain": explain or None, "interval": interval, "served": served}
        return self._ask("POST", "/predict", {"features": _row(features), **_given(asked)})

    def feedback(
        self,
        features: Mapping[str, Any] | None = None,
        label: Any = None,
        *,
        id: str | int | None = None,  # noqa: A002 (the API's name)
        prediction_id: str | None = None,
        weight: float | None = None,
        served: Any = None,
    ) -> dict[str, Any]:
        """Learn the label of one row, once.

        Args:
            features: values by name; None with a ``prediction_id``.
            label: the row's label.
            id: identifies repeated feedback; generated if missing.
            prediction_id: the id of a tracked prediction.
            weight: how many times the row counts.
            served: what another model predicted, for comparison.
        """
        if prediction_id is None and id is None:
            id = uuid4().hex  # noqa: A001
        row = {"features": None if features is None else _row(features), "id": id, "prediction_id": prediction_id}
        return self._ask("POST", "/feedback", _given({**row, "label": label, "weight": weight, "served": served}))

    def predict_batch(self, rows: Any, *, track: bool = False) -> dict[str, Any]:
        """Predict rows: dicts, lists, an array or a data frame; with ``track`` they are kept for their labels."""
        return self._ask("POST", "/predict/batch", {**self._table(rows), **_given({"track": track or None})})

    def feedback_batch(
        self,
        rows: Any,
        labels: Iterable[Any],
        *,
        ids: Sequence[str | int] | None = None,
        served: Iterable[Any] | None = None,
    ) -> dict[str, Any]:
        """Learn labelled rows in order, once; without ``ids`` only the method's own retries are recognised."""
        return self._ask("POST", "/feedback/batch", self._labelled(rows, labels, served) | _given({"ids": ids}))

    def evaluate(self, rows: Any, labels: Iterable[Any], *, served: Iterable[Any] | None = None) -> dict[str, Any]:
        """Score the model, and another model's predictions (``served``), on labelled rows without learning them."""
        return self._ask("POST", "/evaluate", self._labelled(rows, labels, served))

    # ---------------------------------------------------------------- like river and scikit-learn

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Learn one row, as in river."""
        self.feedback(x, y)

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """Predict one row, as in river."""
        return self.predict(x)["prediction"]

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[str, float]:
        """The probability of every label by its text, as in river."""
        return dict(self.predict(x)["probabilities"])

    def partial_fit(self, X: Any, y: Iterable[Any]) -> RemoteModel:
        """Learn rows in order, as in scikit-learn."""
        self.feedback_batch(X, y)
        return self

    def predict_many(self, X: Any) -> list[Any]:
        """The predictions for rows."""
        return list(self.predict_batch(X)["predictions"])

    # ---------------------------------------------------------------- rows

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return self._service.ask(method, self._path + path, body)

    def _labelled(self, rows: Any, labels: Iterable[Any], served: Iterable[Any] | None) -> dict[str, Any]:
        outside = None if served is None else [_cell(one) for one in _values(served)]
        return {**self._table(rows), "labels": _values(labels), **_given({"served": outside})}

    def _table(self, rows: Any) -> dict[str, Any]:
        """Rows as columns and data. Rows without names get those of the model, else x0, x1, ..."""
        if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):
            names = [str(name) for name in rows.columns]
            # Polars has a method ``rows``, and its to_numpy takes no type; in pandas ``rows`` may be a column.
            data = rows.rows() if hasattr(type(rows), "rows") else rows.to_numpy(dtype=object).tolist()
            return {"columns": names, "data": [[_cell(value) for value in row] for row in data]}
        data = _values(rows)
        if all(isinstance(row, Mapping) for row in data):
            names = list(dict.fromkeys(name for row in data for name in row))
            return {"columns": names, "data": [[_cell(row.get(name)) for name in names] for row in data]}
        data = [[_cell(value) for value in row] for row in data]
        return {"columns": self._names(max(map(len, data))), "data": data}

    def _names(self, width: int) -> list[str]:
        names = self._ask("GET", "/features")["current"] or []
        names = [one["name"] if isinstance(one, Mapping) else one for one in names]
        return names if len(names) == width else [f"x{at}" for at in range(width)]


def _is_over(connection: socket.socket) -> bool:
    """Whether the service has closed a connection, which is idle: there is something to read, the end."""
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:  # opens no descriptor
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _values(values: Any) -> list[Any]:
    """The values of a list, an array or a column as a list."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number, a time as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _row(features: Mapping[str, Any]) -> dict[str, Any]:
    """One row, by name."""
    return {name: _cell(value) for name, value in features.items()}


def _cell(value: Any) -> Any:
    """A value of a row; NaN and the missing marks of data frames are null."""
    value = value.tolist() if hasattr(value, "tolist") else value
    is_missing = (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")
    return None if is_missing else value


def _document(status: int, content: bytes) -> dict[str, Any]:
    """The JSON object of an answer; if it is not JSON, such as the page of a proxy, a problem that says so."""
    try:
        document = json.loads(content) if content else {}
    except ValueError:
        document = {"detail": f"HTTP {status}, and not like Onepass"}
    return document if isinstance(document, dict) else {}
