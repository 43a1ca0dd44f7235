"""``onepass demo``: starts a service and its models, sends rows over time, prints events, and cleans up."""

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Annotated, TextIO

import httpx
from typer import BadParameter, Option

from service.client import private
from service.client.demo.feeding import DemoModel, Fed, demo_models
from service.client.display import grid
from service.client.failures import Failed, Interrupted
from service.client.session import Refused, Running, Session, default_port, path_of

LEAVE_S = 2.0  # how long to retry the deletion of the models at the end
STEP_S, FASTEST_S = 1.0, 0.05
"""Time between two requests to a model: usually the refresh interval of the pages, shorter with --speed."""
LOOK_EVERY = 3  # steps between two looks at the marks of a model


def demo(
    *,
    port: Annotated[int | None, Option(min=0, max=65535, help="Port of the page; default: ONEPASS_PORT.")] = None,
    speed: Annotated[float, Option(min=0.01, max=1000, help="Multiplies the rows per second.")] = 1.0,
    seconds: Annotated[float, Option("--for", min=0, help="Stop after this many seconds.")] = math.inf,
    as_json: Annotated[bool, Option("--json", help="Print each event as {seconds, model, event}.")] = False,
    service: Running,
) -> None:
    """Run a service with models that learn drifting streams. Ctrl-C ends it.

    Five models learn generated streams: a boundary that jumps, a plane that turns, sensors that are replaced, fraud
    that changes its pattern, and parcels whose labels come late. Within ten seconds the page moves; within two minutes
    there is a drift, a change of features and a promotion. Each event prints a line.

    Without --url the demo starts its own service on that port or a free one, with its data in a temporary directory.
    With --url it feeds a running service, and deletes its models at the end.
    """
    if math.isnan(speed + seconds):  # min and max do not refuse NaN
        raise BadParameter("--speed and --for take numbers")
    out = sys.stderr if as_json else sys.stdout
    own, models = service.url is None, demo_models()
    if own:
        print("Starting a service for the demo (half a minute if it compiles kernels) ...", file=out, flush=True)
        port = private.free_port(default_port() if port is None else port)
    sessions = private.session(port or 0) if own else service.session(patient=True)
    with suppress(Interrupted), sessions as session, _models(session, models, delete=not own):
        _introduce(session.url, models, speed, out)
        _feed([Fed(session, model, speed) for model in models], speed, seconds, as_json)


@contextmanager
def _models(session: Session, models: Sequence[DemoModel], delete: bool) -> Iterator[None]:
    """Create the models; with ``delete``, delete the created ones at the end."""
    if taken := [model.name for model in models if session.found(model.name) is not None]:
        raise Failed(
            f"{session.url} has {', '.join(taken)} already, from a demo that runs or was killed; this deletes them:\n"
            f"  onepass delete {' '.join(taken)} --yes --url {session.url}"
        )
    made: list[str] = []
    try:
        for model in models:
            made.append(model.name)  # before it is created: a signal may come in between
            try:
                session.ask("PUT", path_of(model.name), json={**model.body, "tags": {"demo": "onepass"}})
            except Failed:
                made.pop()
                raise
            for name, body in model.challengers.items():
                session.ask("PUT", path_of(model.name, "challengers", name), json=body)
        yield
    finally:
        if delete:
            _delete(session, made)


def _delete(session: Session, names: Sequence[str]) -> None:
    """Delete models; stop at the first one that fails, since the service is probably gone."""
    session.patience_s = LEAVE_S
    for at, name in enumerate(names):
        try:
            session.request("DELETE", path_of(name))
        except Failed as failed:
            if not (isinstance(failed, Refused) and failed.status == httpx.codes.NOT_FOUND):
                print(f"not deleted: {', '.join(names[at:])}", file=sys.stderr)
                return


def _introduce(url: str, models: Sequence[DemoModel], speed: float, out: TextIO) -> None:
    lines = []
    for model in models:
        times = [f"at {_clock(row / model.rows_per_s / speed)}" for row in model.at_rows]
        lines += [(model.name, model.shows), ("", model.look.format(*times))]
    text = f"\nOpen {url}/ and watch:\n\n{grid(lines)}\n\nPress Ctrl-C to stop. Events:\n"
    print(text, file=out, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _feed(fed: Sequence[Fed], speed: float, seconds: float, as_json: bool) -> None:
    """Send each model the rows that are due; the models take turns, evenly over time."""
    began, step_s = time.monotonic(), max(FASTEST_S, STEP_S / max(1.0, speed)) / len(fed)
    for turn, one in enumerate(cycle(fed)):
        now_s = time.monotonic() - began
        if now_s >= seconds:
            return
        for text in one.step(now_s, look=turn // len(fed) % LOOK_EVERY == 0):
            event = {"seconds": round(now_s, 3), "model": one.model.name, "event": text}
            line = f"{_clock(now_s):>6}  {one.model.name:<16}  {text}"
            print(json.dumps(event) if as_json else line, flush=True)
        time.sleep(max(0.0, began + now_s + step_s - time.monotonic()))
