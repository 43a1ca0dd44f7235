"""The order of things: file, service, model, rows, table, chart; and what ends when it is interrupted."""

import json
import signal
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from rich.console import Console

from service.replay import private, report
from service.replay.client import Service
from service.replay.failure import Failed, Interrupted
from service.replay.options import Options
from service.replay.progress import Tally, shown
from service.replay.source import Source, ahead

PRIVATE_PATIENCE_S = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(options: Options) -> None:
    """Replay.

    Raises:
        Failed: with the reason.
        Interrupted: by a signal; everything that was started has ended.
    """
    with _interruptible(), ExitStack() as ends:
        source = Source(options.file, options.drop, options.limit)
        source.need([options.label, *([] if options.id is None else [options.id])])
        features = _features(options, source)
        service = ends.enter_context(closing(_service(options, ends)))
        model = service.create(options.name, _body(options, service, features))
        _replay(service, options, source, model, Console())


def _replay(service: Service, options: Options, source: Source, model: dict[str, Any], console: Console) -> None:
    """Rows, table, chart."""
    task, rows_before = model["config"]["task"], model["rows"]
    if rows_before:
        console.print(f"model {options.name} has learned {rows_before:,} rows already: going on from there")
    tally = _feed(service, options, source, Tally("accuracy" if task == "classification" else "mse"), console)
    metrics = service.metrics(options.name, tally.version)
    report.show(console, titled(options), metrics, task, tally)
    if options.plot is not None:
        _plot(options, metrics, task, rows_before)
        console.print(f"chart: {options.plot}", highlight=False, soft_wrap=True, markup=False)


def titled(options: Options) -> str:
    """File, algorithm and parameters in one line."""
    shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.param.items()}
    params = ", ".join(f"{name} = {value}" for name, value in shown.items())
    return f"{options.file.name}: {options.algorithm}" + (f" ({params})" if params else "")


def _features(options: Options, source: Source) -> list[Any] | None:
    """The features to declare; None leaves it to the first row, which makes them all numeric."""
    if not options.categorical:
        return None
    categories = source.categories(options.categorical)
    return [
        {"name": name, "type": "categorical", "categories": categories[name]} if name in categories else name
        for name in source.columns
        if name not in (options.label, options.id)
    ]


def _service(options: Options, ends: ExitStack) -> Service:
    if options.url is not None:
        return Service(options.url, options.key)
    return Service(ends.enter_context(private.service()), private=True, patience_s=PRIVATE_PATIENCE_S)


def _body(options: Options, service: Service, features: list[Any] | None) -> dict[str, Any]:
    body = {"algorithm": options.algorithm, "params": options.param, "missing": options.missing}
    task = options.task
    if task is None and len(service.tasks(options.algorithm)) > 1:
        task = "classification"
    given = {"task": task, "features": features}
    return body | {name: value for name, value in given.items() if value is not None}


def _feed(service: Service, options: Options, source: Source, tally: Tally, console: Console) -> Tally:
    """Send every row; a batch is read while the one before it is learned."""
    with shown(console, options.name, tally) as show, closing(ahead(source.batches(options.batch))) as batches:
        for batch in batches:
            try:
                answer = service.learn(options.name, batch, options.label, options.id)
            except Failed as refused:
                last = batch.first + batch.rows - 1
                raise Failed(f"rows {batch.first} to {last}: {refused}" + _kept(options, tally)) from None
            tally.add(answer, options.id is not None)
            show(batch.read if options.limit is None else max(batch.read, tally.rows / options.limit))
    return tally


def _kept(options: Options, tally: Tally) -> str:
    if options.url is None or not tally.rows:
        return ""
    return f"\n  the {tally.rows} rows before them were learned by model {options.name}"


def _plot(options: Options, metrics: dict[str, Any], task: str, rows_before: int) -> None:
    from service.replay import chart  # noqa: PLC0415  matplotlib takes long to import; few replays draw

    assert options.plot is not None
    try:
        chart.write(options.plot, titled(options), metrics, task, rows_before)
    except OSError as error:
        raise Failed(f"{options.plot} cannot be written: {error.strerror or error}") from error


@contextmanager
def _interruptible() -> Generator[None]:
    """Let the first signal end the replay in good order, and a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise Interrupted(number)

    # What is ignored stays so: nohup and background jobs rely on it.
    before = {each: action for each in _SIGNALS if (action := signal.getsignal(each)) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, interrupt)
        yield
    finally:
        for each, action in before.items():
            signal.signal(each, action)
