"""Every error that a request can end in, apart from those of ``core.problems``.

    OnepassError
    ├── NotFound, RequestConflict, NotReached, ModelDown ── ModelLost
    ├── Unauthorized, Forbidden, TooManyRequests
    ├── BadHead ── HeadTooLarge
    ├── NotJson, NotTable, NotGzip, TooLarge, TooLate, WrongMedia ── WrongEncoding
    └── Unavailable ── QueueFull, BodiesFull, IdsFull, WritersFull, PendingFull, StreamsFull, ConnectionsFull,
                       NotReady, Recreated, Busy, Unreplicated, StoreFull, StoreDown

The docstring of an error is its page at ``/problems/...``, in Markdown: a title, what happened, and a list of what to
do. Only api/http/problems.py knows the HTTP status of each; only store/ raises StoreFull and StoreDown.
"""

from collections.abc import Sequence

from core.problems import Problem

WAY_OUT = (
    "fix the code and restart: the model is reloaded from its snapshot and log, and goes on; "
    "or delete the model, then import a state that was exported earlier"
)
"""What an operator can do about a model that is out of service."""


class OnepassError(Exception):
    """Base of every error that is returned to a client: one sentence, which never repeats the input, and the fields."""

    def __init__(self, detail: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(detail)
        self.detail, self.problems = detail, problems


class NotFound(OnepassError):
    """Not found.

    The path is right, but the model, prediction, snapshot, challenger or label that the request names does not exist.
    ``errors`` names the field and lists what does exist, up to 100 names.
    - A ``prediction_id``: it already has its label, or has expired (``ONEPASS_PREDICTION_TTL_S``, a day). Send the row
      with its features instead.
    """


MODELS = "GET /models lists them"  # the API replaces it by the names of those that the key covers


def no_model(name: str, field: str = "name") -> NotFound:
    """The error for a model that does not exist; ``field`` is the place where the client named it."""
    return NotFound(f"there is no model {name}", [Problem(field, "is not a model", MODELS)])


class RequestConflict(OnepassError):
    """The request conflicts with the model's state.

    The request is valid, but the model's current state or an earlier request with the same id rules it out. Nothing has
    changed; ``errors`` names the field and says what to do.
    - The id was sent before with a different label: the first label stays. To correct it, send the row with a new id;
      the model then learns both.
    - ``PUT`` of an existing model with a different configuration: ``errors`` lists the fields that differ. ``PATCH``
      the model, choose another name, or delete the model first.
    - A prediction from a model without features: send a labelled row first.
    - A step of a change of features is out of order: ``GET /models/NAME/features`` shows the phase,
      ``/guide/change-of-features`` the steps.
    - Promotion of a challenger that is not proven to be better: wait for more rows, or send ``{"force": true}``.
    - ``min_version`` was sent with ``incarnation=`` of an earlier model of the same name: read the new one.
    """


def no_features(name: str) -> RequestConflict:
    """The error for a model without features yet."""
    return RequestConflict(f"model {name} has no features yet: the first feedback row determines them")


class NotReached(OnepassError):
    """The version was not reached in time.

    The request asked for ``min_version``, or needs all that is on the model's log (``consistency=strong``, a change, a
    copy), and this service did not get there within ``ONEPASS_WAIT_TIMEOUT_S`` (5 s). ``version`` is the version it has
    reached.
    - For ``min_version``, use a ``version`` from an answer about the same model and ``incarnation``.
    - Try again if the service lags; ``/readyz`` shows its ``lag``.
    """

    def __init__(self, detail: str, version: int) -> None:
        super().__init__(detail)
        self.version = version


class ModelDown(OnepassError):
    """One model is out of service.

    Its state or log cannot be read, or applying an entry failed. Other models keep working, and the log still has every
    acknowledged row. Waiting does not help, so there is no ``Retry-After``.
    - Find the first error in the service's log that names the model.
    - If it mentions a different state format, start the release that wrote it.
    - If every snapshot is damaged, restore the store from a backup.
    """

    incarnation = ""  # of a model that could not be loaded

    def __init__(
        self,
        detail: str,
        problem: str = "is out of service; its log still has every acknowledged row",
        way_out: str = WAY_OUT,
    ) -> None:
        super().__init__(detail, [Problem("name", problem, way_out)])


class ModelLost(ModelDown):
    """The store has lost a model.

    The store came back without the model or with an older state, although the model was not deleted. A service
    that still has it in memory predicts but does not learn; its ``/readyz`` is 503 until the store has the model again.
    - Restore the store from a backup. Do not restart any service first: its memory may hold rows that the backup lacks.
    - Or ``onepass export NAME FILE`` (``--all`` for all models), ``DELETE /models/NAME``, ``onepass import NAME FILE``.
      The file has no remembered ids and no tracked predictions.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the store has lost model {name}, which was not deleted: a service that holds it predicts from memory",
            "is no longer in the store",
            "restore the store from a backup; or export the model from such a service, DELETE it and import it again",
        )


class Unauthorized(OnepassError):
    """The key is missing or unknown.

    The service has keys (``ONEPASS_API_KEYS`` or ``ONEPASS_API_KEYS_FILE``), and the request has no valid one.
    Health and the pages are public; every other route needs a key.
    - Send ``Authorization: Bearer SECRET`` or ``X-API-Key: SECRET``. The secret is the second part of
      ``NAME:SECRET:SCOPES``; for an entry with ``sha256$...`` it is what ``onepass keys new`` printed.
    - Replace a key that has expired. A change to the key file takes effect within seconds.
    """


class Forbidden(OnepassError):
    """The request is not allowed.

    With keys: the key lacks the scope that the route needs, or may not use this model. Without keys: the request may
    come from a page of another site in a browser on this machine, because ``Host`` is a name the service does not know,
    or ``Origin`` or ``Sec-Fetch-Site`` names another site.
    - ``read`` allows reading and predicting, ``learn`` also sending labels and tracking predictions, ``admin`` also
      creating, changing and deleting models.
    - A key such as ``NAME:SECRET:SCOPES:sales-*`` only covers models whose names match.
    - Without keys, list the service's own names in ``ONEPASS_ALLOWED_HOSTS``, and other origins whose pages may use it
      in ``ONEPASS_CORS_ORIGINS``.
    """


class TooManyRequests(OnepassError):
    """The key is over its rate limit.

    Each key may make ``ONEPASS_RATE_PER_S`` requests per second, in bursts of one second. The request was not executed.
    - Wait for ``Retry-After`` seconds and send the request again.
    - Send rows in batches: a batch counts as one request.
    """

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s  # seconds until the key may make its next request


class BadHead(OnepassError):
    """The request line or a header cannot be read.

    The client sent something that is not HTTP/1.1, or that a proxy might read differently: two ``Host`` headers, none
    in HTTP/1.1, a ``Transfer-Encoding`` other than ``chunked``, or one in HTTP/1.0. The connection is closed.
    - Check what connects to the port: a TLS client on a plain port and a proxy that speaks HTTP/2 get this error.
    """


class HeadTooLarge(BadHead):
    """The headers are too large.

    A request may have at most 100 headers, which together with the request line have at most 64 KiB; the same holds for
    the trailers of a chunked body. The connection is closed.
    - Send fewer or shorter headers. The usual cause is cookies of other applications on the same host.
    """


class NotJson(OnepassError):
    """The body is not JSON.

    The ``Content-Type`` is JSON or missing, but the body is not JSON, or not UTF-8. ``NaN`` and ``Infinity`` are
    errors, too.
    - The byte, or line and column, is where reading stopped: look just before it for a missing bracket, single quotes
      or a trailing comma.
    - Write missing values as ``null``.
    - To send CSV, lines of JSON or .npy, set ``Content-Type`` to the media type.
    """


class NotTable(OnepassError):
    """The body does not match its media type.

    The media type is CSV, SVMlight or .npy, but the body is something else, or its text is not UTF-8. Nothing was
    learned.
    - CSV: close every quote; set another delimiter with ``?delimiter=;``.
    - .npy: write float64 with ``numpy.save``. Files from ``numpy.savez`` and object arrays are not supported.
    - Send a file with ``--data-binary @file``: curl's ``-d`` removes the line breaks.
    """


class NotGzip(OnepassError):
    """The body is not gzip.

    The request has ``Content-Encoding: gzip``, but the body is not gzip or ends too early.
    - Remove the header, or compress the whole body (``gzip -c rows.csv``) and send it with ``--data-binary @-``.
    """


class TooLarge(OnepassError):
    """The body or the batch is too large.

    A body may have at most ``ONEPASS_BODY_LIMIT_MB`` (8), before and after decompression; a batch at most
    ``ONEPASS_BATCH_ROWS_MAX`` (100 000) rows, fewer with ids, with many columns, or with so many classes that its
    predictions would take more than 64 MB. Nothing was learned.
    - Send several smaller batches; ``errors`` says how many rows one may have.
    - Send a file of any length with ``onepass replay FILE``.
    """


class TooLate(OnepassError):
    """The body arrived too slowly.

    The body arrived at less than 4 KiB per second for ten seconds. The connection is closed, and nothing was learned.
    - Send it again; on a slow connection in smaller batches or compressed. With ids, no row is learned twice.
    """


class WrongMedia(OnepassError):
    """The media type is not supported.

    This route does not accept the media type in the header ``Content-Type``. ``errors`` lists those that it accepts.
    - Single rows are JSON; batches may also be lines of JSON, CSV, SVMlight or .npy; a state is
      ``application/octet-stream``.
    - ``onepass replay`` reads Parquet files and sends batches.
    - curl sends ``-d`` as a form: use ``--json``, or add ``-H 'Content-Type: application/json'``.
    """


class WrongEncoding(WrongMedia):
    """The content encoding is not supported.

    The header ``Content-Encoding`` names a compression other than gzip, or this route accepts no compression.
    - Send the body uncompressed, or compress it with gzip.
    """


RETRY_AFTER_S_MAX = 3600.0  # the longest wait that is sent to a client


class Unavailable(OnepassError):
    """The service cannot do this now.

    The service is stopping, and the request did not finish within ``ONEPASS_GRACE_S``, or memory was exhausted: the row
    may or may not have been learned. Or the snapshot before the promotion or deletion of a challenger could not be
    written, the service is so far behind the model's log that it cannot tell whether the rows are valid, or the
    features kept changing while it read them; then nothing has changed.
    - Behind a load balancer, send it to another service: ``/readyz`` is 503 on the one that is stopping.
    """

    retry_after_s = 1.0


class QueueFull(Unavailable):
    """Too many requests are waiting.

    At most ``ONEPASS_QUEUE_MAX`` (4096) feedback requests per model, and 256 MB for all models, may wait to be
    committed. The memory for copies of states (exports, imports, effects) and for large answers is limited, too.
    Nothing was learned.
    - If this persists, rows arrive faster than the store commits them: send batches.
    """


class BodiesFull(Unavailable):
    """Too many request bodies are being read.

    The bodies of all requests in progress, and large answers until they are read, may take at most
    ``ONEPASS_BODIES_MB`` (256), and those of one key (without keys: one address) at most half of that. Nothing was
    learned.
    - Send smaller batches, or fewer at a time.
    """


class IdsFull(Unavailable):
    """The model cannot remember more ids.

    Every ``id`` is remembered for ``ONEPASS_ID_TTL_S`` (a day), at most ``ONEPASS_IDS_MAX`` (a million) per model. The
    row was not learned, because a retry could then be learned twice. ``Retry-After`` is the time until the oldest id
    expires, at most an hour.
    - Raise ``ONEPASS_IDS_MAX`` (about 280 bytes in the store each), or lower ``ONEPASS_ID_TTL_S``.
    - Give a batch one ``Idempotency-Key`` instead of an id per row.
    """

    def __init__(self, name: str, most: int, count: int, wait_ms: int) -> None:  # until the oldest id expires
        left = f"this request's do not fit: the oldest expires in {-(-wait_ms // 1000)} s"
        super().__init__(f"model {name} remembers {count} ids; ONEPASS_IDS_MAX allows {most}, and {left}")
        self.retry_after_s = min(max(1.0, wait_ms / 1000), RETRY_AFTER_S_MAX)


class WritersFull(Unavailable):
    """Too many processes have written to the model.

    The store remembers each process that appends to a model's log for some minutes, to recognise its retries, and there
    is no room for another one. Nothing was learned.
    - Find out why services restart so often: look at their logs.
    """

    retry_after_s = 60.0


class PendingFull(Unavailable):
    """Too many predictions are waiting for labels.

    The model has ``ONEPASS_PENDING_MAX`` (100 000) tracked predictions. This one could not be kept, so it was not
    returned.
    - Send the labels that have arrived. Predict without ``"track"`` if no label will come.
    - Lower ``ONEPASS_PREDICTION_TTL_S``, or raise ``ONEPASS_PENDING_MAX``. ``GET /models/NAME/pending`` lists them.
    """


class StreamsFull(Unavailable):
    """Too many streams are open.

    A service has at most 100 open event streams, and one key at most half of them. A service that is stopping opens no
    more.
    - Close streams that you do not read, or poll ``GET /drift`` with the last ``next`` as ``?cursor=``.
    """


class ConnectionsFull(Unavailable):
    """Too many connections are open.

    ``ONEPASS_CONNECTIONS_MAX`` clients are connected, or as many as the limit on open files (``ulimit -n``) allows. The
    request was not read.
    - Reuse connections, or raise the setting and the service's ``ulimit -n``.
    """

    retry_after_s = 5.0


class NotReady(Unavailable):
    """The service is not ready.

    ``GET /v2/health/ready`` returns this while ``/readyz`` is 503: the store is down, a background task has ended, or
    the service is about to stop. Errors under ``/v2`` are ``{"error": "..."}``.
    - ``GET /readyz`` names the check that fails.
    """


class Recreated(Unavailable):
    """The model was created again in the meantime.

    The model was deleted while the request waited, and a new model has its name. Nothing was learned.
    - Check that the new model is the one you mean; the next request goes to it. ``incarnation`` in every answer tells
      the two apart.
    """


class Busy(Unavailable):
    """Another request of this kind is in progress.

    Weights of named sparse rows are recovered for one model at a time, effects are computed for two: both take seconds.
    - Ask for the weights of fewer names: ``GET /models/NAME/weights?names=a,b``.
    """


class Unreplicated(Unavailable):
    """The row is committed, but not yet on enough replicas.

    ``ONEPASS_MIN_REPLICAS`` replicas of the store must have the feedback before it is acknowledged. They did not
    confirm in time. The row is in the log, and is lost only if the store fails over now.
    - Retry with the same ``id``; it is acknowledged once, as soon as the replicas have the row.
    """


class StoreFull(Unavailable):
    """The store has no room.

    The store answers, but refuses writes: its memory (``maxmemory``) or its disk is full. Predictions and reads still
    work.
    - Delete models, lower ``ONEPASS_SNAPSHOTS_KEPT`` or ``ONEPASS_ID_TTL_S``, or give the store more room: a
      private store in a container gets half of what models leave (``ONEPASS_MEMORY_BUDGET_MB``). Keep another store's
      ``maxmemory-policy noeviction``.
    """

    retry_after_s = 10.0


class StoreDown(Unavailable):
    """The store does not answer.

    Redis or Valkey did not answer within ``ONEPASS_STORE_TIMEOUT_S`` (2 s) or cannot be reached. Models in memory
    still predict. The row may or may not have been committed.
    - Look at ``/readyz`` and the store; a private one restarts by itself. The log names keys that hold foreign data.
    """
