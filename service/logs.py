"""What the service logs, and how: structlog writes every line, as text for a terminal or as JSON for programs.

The service logs with Python's ``logging``; here its records become events with fields:

    event, level, logger, timestamp     of every line
    request_id, trace_id, parent_id     of what is logged while a request is answered (``api.http.headers``)
    model, version, incarnation         of lines whose message names them: "model %s is reloaded"
    method, path, status, ms            of answers, where the access log is on

Nothing that clients send as data is logged: no features, no labels, no keys, no queries. So exceptions are shown by
their types and by where they were raised, without their texts, which may quote data that could not be read.
"""

import logging
import re
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Literal, TextIO

import structlog

from service.api.http import access_log, headers

LogFormat = Literal["console", "json"]
OURS = ("service", "onepass")
"""Loggers that the level applies to. Other packages log nothing below INFO: some would log headers and addresses."""
QUIET = ("httpx", "httpcore")  # log every request to a webhook, whose address may be a secret
CHAINED_MAX = 10
_NAMED = re.compile(r"%%|(?:\b(model|version|incarnation) )?%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
Event = MutableMapping[str, Any]


def configure(level: str, form: LogFormat, access: bool, stream: TextIO | None = None) -> None:
    """Log to a stream from now on: our own lines from ``level`` up; with ``access``, or "debug", every answer, too."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(form, stream.isatty()))
    wanted = getattr(logging, level.upper())
    root = logging.getLogger()
    handler.addFilter(_no_lost_connection)
    root.handlers[:] = [handler]
    root.setLevel(max(wanted, logging.INFO))
    for name in OURS:
        logging.getLogger(name).setLevel(wanted)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    access_log.switch(access or wanted == logging.DEBUG)


def _formatter(form: LogFormat, colors: bool) -> logging.Formatter:
    """Records of ``logging`` as lines."""
    first: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _named,
        _asked,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(lambda found: bare_traceback(found[1])),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if form == "json":
        last += [_ordered, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        last.append(structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0))
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=last, pass_foreign_args=True)


def _no_lost_connection(record: logging.LogRecord) -> bool:
    """Drop uvloop's traceback of a TLS connection that broke while it was written to: its user says what that means."""
    broke = record.name == "asyncio" and record.getMessage().startswith("Fatal error on SSL protocol")
    return not (broke and record.exc_info and isinstance(record.exc_info[1], RuntimeError))


def _ordered(_: Any, __: str, event: Event) -> Event:
    """Put the time, the level and the event first."""
    return {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event} | {**event}


def _named(_: Any, __: str, event: Event) -> Event:
    """Add values that a message names by the word before them: "model %s: skipping the snapshot of version %d"."""
    record: logging.LogRecord = event["_record"]
    values = event.pop("positional_args", ())
    event.pop("color_message", None)  # uvicorn's message once more, in colours
    if isinstance(record.msg, str) and isinstance(values, tuple):
        found = [own[1] for own in _NAMED.finditer(record.msg) if own[0] != "%%"]
        event.update({name: value for name, value in zip(found, values, strict=False) if name})
    return event


def _asked(_: Any, __: str, event: Event) -> Event:
    """Add the fields of the request that is being answered."""
    for name, value in headers.log_fields().items():
        event.setdefault(name, value)
    return event


# ------------------------------------------------------------------------------------------------ exceptions


def bare_traceback(error: BaseException) -> str:
    """Where an exception and its causes were raised, and their types, without their texts."""
    return "\n".join(part.rstrip("\n") for part in _parts(error, 0))


def _parts(error: BaseException, depth: int) -> Iterator[str]:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth < CHAINED_MAX:
        yield from _parts(cause, depth + 1)
        yield "-- which led to"
    yield "".join(traceback.format_tb(error.__traceback__))
    yield type(error).__qualname__
