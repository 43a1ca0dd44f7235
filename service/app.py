"""The application: takes settings, joins the collaborators, installs the routes. Nothing is built at import.

create_app(lifespan, ...)     an app without collaborators, which ``attach`` gives it (tests bring their own)
build(settings)               store, engine and app from the settings, with a lifespan that starts and stops them
"""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from core.numerics.linalg import single_threaded
from service import memory_limit
from service.api import routes
from service.api.http import access_log
from service.api.http.bodies import BodyBudget
from service.api.http.context import Context
from service.api.http.cross_site import Guard
from service.api.http.keys import KeyFile, Keys
from service.api.http.problems import install_handlers, kinds
from service.api.http.root_path import route_path
from service.api.openapi.document import INTRO, TAGS, TITLE, document
from service.embedded import CannotStart, EmbeddedStore
from service.monitor.drift_monitor import DriftMonitor
from service.monitor.telemetry import Telemetry
from service.pages import api_pages, documents, reading, refusals
from service.pages import routes as pages
from service.runtime.broadcast import OWNER
from service.runtime.commit.committer import CommitLimits
from service.runtime.commit.jobs import TICK_SEGMENTS_MAX
from service.runtime.engine import Bounds, Engine
from service.runtime.labels_due import LabelsDueLearner
from service.runtime.replicas.loader import Store
from service.runtime.sweeper import Sweeper
from service.runtime.threads import SWITCH_INTERVAL_S, THREADS_MAX
from service.settings import Settings
from service.settings_validation import validated
from service.store.drift.drift import KEPT, DriftStream
from service.store.log.appends import READ_BYTES_MAX
from service.store.redis.connection import Connection
from service.store_keeper import StoreKeeper

logger = logging.getLogger(__name__)

Lifespan = Callable[[routes.App], Any]
CORS: dict[str, Any] = {
    "allow_methods": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": ["*"],  # keys are sent in headers; there are no cookies
    "expose_headers": ["*"],
    "max_age": 600,
}
"""What pages of the origins that ``ONEPASS_CORS_ORIGINS`` names may do: what their keys allow."""
STORE_STOP_S = 2.0
"""What the private store gets of the grace period for a clean stop; it always gets this long, even if less is left."""
YOUNG_OBJECTS = 10_000
"""New objects after which Python looks for cycles among them. A request leaves one of a few dozen objects behind, and
it does no harm to wait for a hundred requests; by default Python looks at about every tenth."""
COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Environment variables: spans are sent only if one of them says where to."""
SPANS_S = 1.0  # time to send the spans that wait when the service stops
WAIT_S = 1.0  # how long a read of the drift events waits for one; the next read follows


def create_app(
    lifespan: Lifespan | None = None, origins: Sequence[str] = (), root_path: str = "", spans: Any = None
) -> routes.App:
    """The app with its routes and pages; ``app.context`` must be set before the first request.

    ``lifespan`` starts and stops its collaborators; pages of ``origins`` may use the API (CORS); a proxy publishes the
    service under ``root_path``; ``spans``, a TracerProvider, makes a span of each request.
    """
    app = routes.App(
        title=TITLE,
        version=version("onepass"),
        description=INTRO,
        openapi_tags=TAGS,
        telemetry={
            "tracing": spans is not None,
            "tracer_provider": spans,
            "operation_spans": False,
            "exclude": lambda scope: route_path(scope) in access_log.PROBES,
            "metrics": False,
            "logs": False,
        },
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat any host that the client names
        lifespan=lifespan,
    )
    routes.install(app, pages.router, reading.router)
    api_pages.install(app)

    def shown(request: Request, answer: Response) -> Response:
        refused(app, answer.status_code)
        return refusals.shown(request, answer)

    install_handlers(app, shown)
    app.state.problems = documents.problems(kinds())
    app.serve_under(root_path)
    if spans is not None:
        app.route_all()
    if origins:
        app.cors = True
        app.add_middleware(CORSMiddleware, allow_origins=origins, **CORS)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def attach(
    app: routes.App,
    engine: Engine,
    keys: Keys,
    monitor: DriftMonitor,
    commit: str | None = None,
    guard: Guard | None = None,
    metrics_models: int = 0,
) -> None:
    """Give the app its collaborators; adds companions to the engine, which must not have been started."""
    engine.companions["labels due"] = LabelsDueLearner(engine).run
    engine.companions["sweeper"] = Sweeper(engine.store.connection, engine.stats).run
    guard = guard or Guard()
    budget = BodyBudget(engine.bounds.bodies_bytes_max, lambda scope: OWNER.get() or guard.client(scope))
    telemetry = Telemetry(engine, monitor, metrics_models, lambda: keys.expiries)
    watched = (monitor.stream, monitor.unlabelled.note, monitor.broadcast)
    app.context = Context(engine, keys, telemetry.observe, telemetry.render, *watched, budget, commit, guard)


def end_streams(app: routes.App) -> None:
    """End the open streams, before the server waits for its last requests."""
    if hasattr(app, "context"):
        app.context.broadcast.stop()


def leave(app: routes.App) -> None:
    """Tell balancers, by /readyz, to send nothing more; requests that still come are answered."""
    if hasattr(app, "context"):
        app.context.engine.leaving = True


def refused(app: routes.App, status: int) -> None:
    """Count a refusal outside the routes of the API: of a connection, a path or a method."""
    if hasattr(app, "context"):
        app.context.observe("-", "-", status, 0.0)


class Grace:
    """What is left of the time a stop may take; requests, snapshots and the rest share it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._begun: float | None = None

    def begin(self) -> None:
        """Begin the stop, unless it has begun."""
        if self._begun is None:
            self._begun = self._clock()

    @property
    def begun(self) -> bool:
        """Whether the service has been told to stop."""
        return self._begun is not None

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self._seconds if self._begun is None else max(0.0, self._begun + self._seconds - self._clock())

    @property
    def for_requests_s(self) -> float:
        """The share for requests under way, which are answered in milliseconds unless the store is away."""
        return self._seconds / 2


def build(
    settings: Settings,
    failpoint: Callable[[str], None] | None = None,
    grace: Grace | None = None,
    keys_file: Path | None = None,
) -> routes.App:
    """The service as the settings describe it; ``ValueError`` if they cannot be used, before anything starts.

    ``failpoint`` is called at named points, where fault tests crash; ``grace`` begins with the first request to stop;
    ``keys_file``, from which the keys in the settings were read, is followed for changes.
    """
    checked = validated(settings, keys_file)
    keys, origins = checked.keys, checked.origins
    given = settings.redis_url.get_secret_value() if settings.redis_url else None

    @asynccontextmanager
    async def lifespan(app: routes.App) -> AsyncIterator[None]:
        single_threaded()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        anyio.get_cancelled_exc_class()  # imports what Starlette streams with; the first client would wait for it
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS_MAX, "onepass"))
        private, url = None, given or ""
        if not given:
            private = _private_store(settings, grace)
            try:
                url = await asyncio.to_thread(private.start)
            except CannotStart as error:
                level = logging.INFO if grace is not None and grace.begun else logging.ERROR
                logger.log(level, "%s", error)
                raise
        engine = Engine(Store(Connection(url, settings.store_timeout_s)), bounds(settings), failpoint)
        own = Connection(url, settings.store_timeout_s, connections_max=1)  # for reads that wait for news
        wait_s = min(WAIT_S, settings.store_timeout_s / 2)
        events = DriftStream(engine.store.connection, own, kept=KEPT, wait_s=wait_s)
        monitor = DriftMonitor(engine, events, urls=checked.webhooks, key=checked.webhook_key, failpoint=failpoint)
        attach(app, engine, keys, monitor, settings.commit or None, checked.guard, settings.metrics_models)
        if keys_file is not None:
            engine.companions["keys"] = KeyFile(keys_file, keys).run
        keys.warn_expired()
        await engine.start()
        gc.collect()
        gc.freeze()  # what is loaded by now stays, so collections need not walk through it
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        keeper = None if private is None else asyncio.create_task(StoreKeeper(private, engine).run())
        where = f"its own store in {settings.data_dir}" if given is None else "the store of ONEPASS_REDIS_URL"
        logger.info("Onepass %s with %s; pages at /", app.version, where)
        try:
            yield
        finally:
            if keeper is not None:
                keeper.cancel()
            end_streams(app)
            app.context.reader.stop()
            await engine.stop(None if grace is None else max(0.0, grace.left_s - STORE_STOP_S))
            await own.close()
            if spans is not None:
                with suppress(TimeoutError):  # a collector that does not answer must not delay the stop
                    await asyncio.wait_for(asyncio.to_thread(spans.shutdown), SPANS_S)
            if private is not None:
                await asyncio.to_thread(private.stop, max(STORE_STOP_S, 0.0 if grace is None else grace.left_s))

    spans = _spans()
    return create_app(lifespan, origins, settings.root_path, spans)


def _private_store(settings: Settings, grace: Grace | None) -> EmbeddedStore:
    limit = memory_limit.memory_limit()
    room_mb = memory_limit.store_mb(settings.memory_budget_mb, settings.bodies_mb, limit)
    if room_mb is not None:
        logger.info("the private store may take %d MB: the memory of this container or unit is limited", room_mb)
    return EmbeddedStore(
        settings.data_dir,
        settings.durability,
        settings.socket_dir,
        room_mb=room_mb,
        unwanted=lambda: grace is not None and grace.begun,
    )


def _spans() -> Any:
    """The TracerProvider; None if the environment names no collector, or the extra is missing."""
    if not any(os.environ.get(name) for name in COLLECTORS):
        return None
    try:
        from service.api import tracing  # noqa: PLC0415  the extra
    except ImportError:
        logger.warning("%s: spans need the extra otel: pip install '.[otel]' in a checkout", COLLECTORS[0])
        return None
    return tracing.provider()


def bounds(settings: Settings) -> Bounds:
    """The engine's limits, in bytes and milliseconds."""
    limits = CommitLimits(
        queue_max=settings.queue_max,
        tick_segments_max=TICK_SEGMENTS_MAX,
        id_ttl_ms=settings.id_ttl_s * 1000,
        ids_max=settings.ids_max,
        read_bytes_max=READ_BYTES_MAX,
        timeout_s=settings.store_timeout_s,
        replicas_min=settings.min_replicas,
    )
    return Bounds(
        committer=limits,
        budget_bytes=settings.memory_budget_mb * 2**20,
        model_bytes_max=min(settings.model_limit_mb, settings.memory_budget_mb) * 2**20,
        body_bytes_max=settings.body_limit_mb * 2**20,
        bodies_bytes_max=settings.bodies_mb * 2**20,
        batch_rows_max=settings.batch_rows_max,
        prediction_ttl_ms=settings.prediction_ttl_s * 1000,
        pending_max=settings.pending_max,
        wait_timeout_s=settings.wait_timeout_s,
        grace_s=settings.grace_s,
        snapshots_kept=settings.snapshots_kept,
        challengers_max=settings.challengers_max,
        snapshot_min_bytes=settings.snapshot_min_kb * 1024,
    )


def _openapi(app: routes.App) -> dict[str, Any]:
    if app.openapi_schema is None:
        keys = hasattr(app, "context") and app.context.keys.required
        servers = {"servers": [{"url": app.root_path}]} if app.root_path else {}
        app.openapi_schema = document(app, routes.ROUTES, keys=keys) | servers
    return app.openapi_schema
