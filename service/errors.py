"""Everything that can go wrong with a request, apart from ``core.problems``.

    OnepassError
    ├── NotFound, RequestConflict, NotReached, ModelDown ── ModelLost
    ├── Denied ── Unauthorized, Forbidden, TooManyRequests
    ├── BadHead ── HeadTooLarge
    ├── BadBody ── NotJson, NotTable, NotGzip, TooLarge, TooLate, WrongMedia ── WrongEncoding
    └── Unavailable ── QueueFull, BodiesFull, IdsFull, WritersFull, PendingFull, StreamsFull, ConnectionsFull,
                       NotReady, Recreated, Busy, Unreplicated, StoreFull, StoreDown

The docstring of an error is its page at ``/problems/...``, in Markdown: a title, what has happened, and a list of what
to do. Only api/http/problems.py knows which HTTP status each becomes; only store/ raises StoreFull and StoreDown.
"""

from collections.abc import Sequence

from core.problems import Problem

WAY_OUT = (
    "restart with code that mends it: the model is loaded again from snapshot and log, and goes on; "
    "or delete the model, then import a state that was exported before"
)
"""What an operator can do about a model that is out of service."""


class OnepassError(Exception):
    """Base of every error that is answered to a client.

    Args:
        detail: one sentence for the client; never the input itself.
        problems: the fields concerned, where there are any.
    """

    def __init__(self, detail: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = problems


class NotFound(OnepassError):
    """There is no such thing.

    The path is right, but the model, prediction, snapshot, challenger or label that the request names does not exist.
    ``errors`` names the field, and what exists or where it is listed.
    - A ``prediction_id``: it already has its label, or has expired (``ONEPASS_PREDICTION_TTL_S``, a day). Send the row
      with its features instead.
    - A snapshot: ``GET /models/NAME/snapshots`` lists the versions that are kept.
    """


def no_model(name: str, field: str = "name") -> NotFound:
    """The error for a model that does not exist; ``field`` is where the client named it."""
    return NotFound(f"there is no model {name}", [Problem(field, "is not a model", "GET /models lists them")])


class RequestConflict(OnepassError):
    """The model's state does not allow it.

    The request is well formed, but the model's present state or an earlier request with the same id rules it out.
    Nothing has changed; ``errors`` names the field and the way out.
    - The id was sent before with another label: the first label stays. To correct it, send the row with a new id; both
      are then learned.
    - ``PUT`` of an existing model with another configuration: ``errors`` lists the fields that differ. ``PATCH`` the
      model, choose another name, or delete the model first.
    - A prediction from a model without features: send a labelled row first.
    - A step of a change of features out of order: ``GET /models/NAME/features`` shows the phase,
      ``/guide/change-of-features`` the steps.
    - A promotion of a challenger that has not proved better: wait for more rows, or send ``{"force": true}``.
    - ``min_version`` of an earlier model of the same name: compare ``incarnation``.
    """


class NotReached(OnepassError):
    """The version was not reached in time.

    The request asked for ``min_version``, and this service did not reach it within ``ONEPASS_WAIT_TIMEOUT_S`` (5 s).
    ``version`` says how far it is.
    - Take ``version`` from an answer of the same model and ``incarnation``.
    - Ask again if the service lags; ``/readyz`` shows its ``lag``.
    """

    def __init__(self, detail: str, version: int) -> None:
        super().__init__(detail)
        self.version = version


class ModelDown(OnepassError):
    """One model is out of service.

    Its state or log cannot be read, or applying an entry failed. Other models go on, and the log still has every
    acknowledged row. Waiting does not help, so there is no ``Retry-After``.
    - Find the first error in the service's log that names the model.
    - If it names another state format, start the release that wrote it.
    - If every snapshot is damaged, restore the store from a backup.
    """

    def __init__(
        self,
        detail: str,
        problem: str = "is out of service; the log has all that was acknowledged",
        way_out: str = WAY_OUT,
    ) -> None:
        super().__init__(detail, [Problem("name", problem, way_out)])


class ModelLost(ModelDown):
    """The store has lost a model.

    The store came back without the model or with an older state, although the model was not deleted. This service still
    holds it in memory: it predicts, and learns nothing. ``/readyz`` is 503 until the store has it again.
    - Restore the store from a backup. Do not restart services before: they may hold what the backup lacks.
    - Or ``onepass export NAME FILE`` (``--all`` for all models), ``DELETE /models/NAME``, ``onepass import NAME FILE``.
      The file has no remembered ids and no tracked predictions.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the store has lost model {name}, which nobody has deleted: it predicts from memory and learns nothing",
            "is not in the store any more",
            "restore the store from a backup; or export the model, which this service holds, DELETE it and import it",
        )


class Denied(OnepassError):
    """The key does not allow the request."""


class Unauthorized(Denied):
    """The key is missing or unknown.

    The service has keys (``ONEPASS_API_KEYS`` or ``ONEPASS_API_KEYS_FILE``), and the request carries no valid one.
    Health and the pages are public; every other route needs a key.
    - Send ``Authorization: Bearer SECRET`` or ``X-API-Key: SECRET``. The secret is the second part of
      ``NAME:SECRET:SCOPES``; for an entry with ``sha256$...`` it is what ``onepass keys new`` printed.
    - Replace a key that has expired. A file of keys is read again within seconds.
    """


class Forbidden(Denied):
    """This is not allowed.

    With keys: the key lacks the scope that the route needs, or may not use this model. Without keys: the request may
    come from a page of another site in a browser on this machine, because ``Host`` is a name the service does not know,
    or ``Origin`` or ``Sec-Fetch-Site`` names another site.
    - ``read`` reads and predicts, ``learn`` also sends labels and tracks predictions, ``admin`` also creates, changes
      and deletes.
    - A key such as ``NAME:SECRET:SCOPES:sales-*`` is for models whose names match.
    - Without keys, list names that lead to the service in ``ONEPASS_ALLOWED_HOSTS``, and other origins whose pages may
      use it in ``ONEPASS_CORS_ORIGINS``.
    """


class TooManyRequests(Denied):
    """The key is over its rate.

    Each key may make ``ONEPASS_RATE_PER_S`` requests a second, in bursts of one second. Nothing was done.
    - Wait for ``Retry-After`` seconds and send the request again.
    - Send rows in batches: a batch counts as one request.
    """

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s  # seconds after which the key may make a request again


class BadHead(OnepassError):
    """The request line or a header cannot be read.

    The connection sent something that is not HTTP/1.1, or that a proxy might read differently: two ``Host`` lines, none
    in HTTP/1.1, a ``Transfer-Encoding`` other than ``chunked``, or one in HTTP/1.0. The connection is closed.
    - Check what talks to the port: a TLS client on a plain port, or a proxy that speaks HTTP/2, gets this answer.
    """


class HeadTooLarge(BadHead):
    """The headers are too large.

    The request line and headers may have 100 lines and 64 KiB together, and so may the trailers of a chunked body. The
    connection is closed.
    - Send fewer or shorter headers. Cookies of other applications on the same host are the usual cause.
    """


class BadBody(OnepassError):
    """The body could not be read at all."""


class NotJson(BadBody):
    """The body is not JSON.

    The body is announced as JSON (or has no media type, which is read as JSON), and is not JSON or not UTF-8. ``NaN``,
    ``Infinity`` and a name that occurs twice in one object are refused, too.
    - The byte, or line and column, is where reading stopped: look before it for a missing bracket, single quotes or a
      trailing comma.
    - Write missing values as ``null``.
    - For CSV, lines of JSON and .npy name the media type in ``Content-Type``.
    """


class NotTable(BadBody):
    """The body is not the table it is announced as.

    The media type is that of CSV, SVMlight or .npy, and the body is not, or its text is not UTF-8. Nothing was learned.
    - CSV: close every quote; name another delimiter with ``?delimiter=;``.
    - .npy: write float64 with ``numpy.save``. Files of ``numpy.savez`` and arrays of objects are not read.
    - Send a file with ``--data-binary @file``: curl's ``-d`` removes the line breaks.
    """


class NotGzip(BadBody):
    """The body is not gzip.

    The request says ``Content-Encoding: gzip``, and the body is not gzip or ends too early.
    - Leave the header out, or compress the whole body (``gzip -c rows.csv``) and send it with ``--data-binary @-``.
    """


class TooLarge(BadBody):
    """The body or the batch is too large.

    A body may have ``ONEPASS_BODY_LIMIT_MB`` (8), also after unpacking; a batch ``ONEPASS_BATCH_ROWS_MAX`` (100 000)
    rows, fewer with ids or with many columns. Nothing was learned.
    - Send several batches; ``errors`` says how many rows one may have.
    - Send a file of any length with ``onepass replay FILE``.
    """


class TooLate(BadBody):
    """The body did not come in time.

    Less than 4 KiB a second of the body arrived over ten seconds. The connection is closed, and nothing was learned.
    - Send it again, on a slow line in smaller batches or compressed: with ids no row is learned twice.
    """


class WrongMedia(BadBody):
    """The media type is not read here.

    The header ``Content-Type`` names a type that this route does not read. ``errors`` lists those that it reads.
    - Single rows are JSON; batches may also be lines of JSON, CSV, SVMlight or .npy; a state is
      ``application/octet-stream``.
    - ``onepass replay`` reads Parquet files and sends batches.
    - curl sends ``-d`` as a form: write ``--json``, or add ``-H 'Content-Type: application/json'``.
    """


class WrongEncoding(WrongMedia):
    """The content encoding is not read here.

    The header ``Content-Encoding`` names another compression than gzip, or the route takes none.
    - Send the body as it is, or compress it with gzip.
    """


RETRY_AFTER_S_MAX = 3600.0
"""The longest wait that a client is told."""


class Unavailable(OnepassError):
    """The service cannot do this now.

    The service is stopping, and the request did not finish within ``ONEPASS_GRACE_S``: the row may or may not have been
    learned. Or the snapshot before a promotion or deletion of a challenger could not be written; then nothing has
    changed.
    - Behind a balancer send it to another service: ``/readyz`` of the one that stops is 503.
    """

    retry_after_s = 1.0


class QueueFull(Unavailable):
    """Too many requests wait for the model.

    At most ``ONEPASS_QUEUE_MAX`` (4096) feedback requests of one model and 256 MB of all models wait to be committed,
    and states that are exported or imported have a bound of memory, too. Nothing was learned.
    - If this goes on, rows come faster than the store commits them: send batches.
    """


class BodiesFull(Unavailable):
    """Too many bytes of bodies are being read.

    The bodies of all requests in progress take at most ``ONEPASS_BODIES_MB`` (256), and those of one key (without keys:
    one address) at most half of it. Nothing was learned.
    - Send smaller batches, or fewer at the same time.
    """


class IdsFull(Unavailable):
    """The model remembers as many ids as it may.

    Every ``id`` is remembered for ``ONEPASS_ID_TTL_S`` (a day), at most ``ONEPASS_IDS_MAX`` (a million) of one model.
    The row was not learned, since a retry could be learned twice. ``Retry-After`` says when the first id leaves, an
    hour at most.
    - Raise ``ONEPASS_IDS_MAX`` (about 280 bytes of the store each), or lower ``ONEPASS_ID_TTL_S``.
    - Give a batch one ``Idempotency-Key`` instead of an id per row.
    """

    def __init__(self, name: str, most: int, count: int, wait_ms: int) -> None:  # until the first id leaves
        left = f"those of this request find no room: the first leaves in {-(-wait_ms // 1000)} s"
        super().__init__(f"model {name} remembers {count} ids; ONEPASS_IDS_MAX allows {most}, and {left}")
        self.retry_after_s = min(max(1.0, wait_ms / 1000), RETRY_AFTER_S_MAX)


class WritersFull(Unavailable):
    """Too many processes have written to the model.

    Each process that appends to a model's log is remembered for some minutes, so that its retries are recognised, and
    there is no room for another one. Nothing was learned.
    - Find out why services restart so often: their logs say so.
    """

    retry_after_s = 60.0


class PendingFull(Unavailable):
    """Too many predictions wait for their labels.

    The model has ``ONEPASS_PENDING_MAX`` (100 000) tracked predictions. This one could not be kept, so it is not
    answered.
    - Send the labels that have arrived. Predict without ``"track"`` where no label will come.
    - Lower ``ONEPASS_PREDICTION_TTL_S``, or raise ``ONEPASS_PENDING_MAX``. ``GET /models/NAME/pending`` lists what
      waits.
    """


class StreamsFull(Unavailable):
    """Too many streams are open.

    A service has at most 100 open streams of events, and one key at most half of them. A service that is stopping opens
    none.
    - Close streams that are not read, or poll ``GET /drift`` with the last ``next`` as ``?cursor=``.
    """


class ConnectionsFull(Unavailable):
    """Too many connections are open.

    ``ONEPASS_CONNECTIONS_MAX`` clients are connected, or as many as the limit of open files (``ulimit -n``) allows. The
    request was not read.
    - Reuse connections, or raise ``ulimit -n`` of the service and the setting.
    """

    retry_after_s = 5.0


class NotReady(Unavailable):
    """The service takes no traffic now.

    ``GET /v2/health/ready`` says so while ``/readyz`` is 503: the store is down, a task of the service has ended, or
    the service is about to stop. Errors under ``/v2`` are ``{"error": "..."}``.
    - ``GET /readyz`` names the check that fails.
    """


class Recreated(Unavailable):
    """The model was created again meanwhile.

    The model was deleted while the request waited, and its name given to a new one. Nothing was learned.
    - Check that the new model is the one you mean; the request is then checked against it. ``incarnation`` in every
      answer tells the two apart.
    """


class Busy(Unavailable):
    """Another request of this kind is in progress.

    The weights of named sparse rows are recovered for one model at a time, since that keeps a core busy for seconds.
    - Ask for fewer names: ``GET /models/NAME/weights?names=a,b``.
    """


class Unreplicated(Unavailable):
    """The row is committed, but not yet on enough replicas.

    ``ONEPASS_MIN_REPLICAS`` asks for replicas of the store that have each feedback before it is acknowledged. They did
    not confirm in time. The row is in the log, and is lost only if the store fails over now.
    - The same ``id`` makes a retry safe: it is acknowledged as soon as the replicas have the row.
    """


class StoreFull(Unavailable):
    """The store has no room.

    The store answers, but refuses to write: its memory (``maxmemory``) or its disk is full. Predictions and reads go
    on.
    - Delete models, lower ``ONEPASS_SNAPSHOTS_KEPT`` or ``ONEPASS_ID_TTL_S``, or give the store more room. Keep
      ``maxmemory-policy noeviction``.
    """

    retry_after_s = 10.0


class StoreDown(Unavailable):
    """The store does not answer.

    Redis or Valkey did not answer within ``ONEPASS_STORE_TIMEOUT_S`` (2 s), or cannot be reached. Models in memory
    still predict. The row may or may not have been committed.
    - See whether the store runs, and what ``/readyz`` says. The service restarts a private store by itself.
    """
