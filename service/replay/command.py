"""The steps of a replay: file, service, model, rows, table, chart; and its end by a signal."""

import json
import signal
from argparse import Namespace
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from rich.console import Console

from service.replay import Failed, Interrupted, columns, costs, kinds, private, report, trust
from service.replay.client import Service
from service.replay.files import STANDARD_INPUT
from service.replay.options import default_name
from service.replay.source import Batch, Source, ahead
from service.replay.wording import counted, first

PRIVATE_PATIENCE_S = 5.0
UNLABELLED = "\n  rows without a label: --skip-unlabelled leaves them out"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(options: Namespace) -> dict[str, Any] | None:
    """Replay.

    Args:
        options: as ``options.add`` declares them.

    Returns:
        The result, where it is asked for as JSON; else it has been shown.

    Raises:
        Failed: with the reason.
        Interrupted: by a signal; everything that was started has ended.
    """
    options.name, options.param = options.name or default_name(options.file), dict(options.param)
    console = Console(highlight=False, stderr=options.json)
    with interruptible(), ExitStack() as ends:
        source = ends.enter_context(closing(opened(options)))
        features = features_of(options, source)
        tell_columns(console, options, source, features)
        service = ends.enter_context(closing(_service(options, ends)))
        body = _body(options, service, source, features)
        tell_task(console, options, source, body.get("task"))
        model = service.create(options.name, body)
        task, rows_before = model["config"]["task"], model["rows"]
        if rows_before:
            console.print(f"model {options.name} has learned {counted(rows_before)} already: going on from there")
        totals = feed(service, options, source.batches(options.batch), report.Totals(task), console)
        totals.skipped = source.skipped
        metrics = service.metrics(options.name, totals.version)
        if not options.json:
            report.table(console, _title(options), metrics, totals)
            for line in costs.without_effect(dict(options.cost), metrics):
                console.print(f"note: {line}", soft_wrap=True, markup=False)
        if options.plot is not None:
            _plot(options, metrics, task, rows_before)
            console.print(f"chart: {options.plot}", soft_wrap=True, markup=False)
        return report.result(_title(options), options.name, metrics, totals) if options.json else None


def _title(options: Namespace) -> str:
    """File, algorithm and parameters in one line."""
    shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.param.items()}
    shown |= {f"cost of {label}": f"{cost:g}" for label, cost in options.cost}
    params = ", ".join(f"{name} = {value}" for name, value in shown.items())
    file = "standard input" if options.file == STANDARD_INPUT else options.file.name
    return f"{file}: {options.algorithm}" + (f" ({params})" if params else "")


def opened(options: Namespace) -> Source:
    """The file, which has the columns that the options name.

    Raises:
        Failed: it cannot be read, or has no such column.
    """
    source = Source(options.file, options.drop, options.limit, options.sep, options.encoding)
    source.need([name for name in (options.label, options.id) if name is not None])
    if options.skip_unlabelled:
        source.skip_unlabelled(options.label, options.task)
    return source


def features_of(options: Namespace, source: Source) -> list[Any] | None:
    """The features to declare; None where the first row declares them: all are numbers, and there, too."""
    found = source.kinds()
    names = [name for name in source.columns if name not in (options.label, options.id)]
    features = {name: kinds.declared(name, found[name]) for name in names}
    if options.categorical:
        listed = source.categories(options.categorical)
        features |= {
            name: {"name": name, "type": "categorical", "categories": own}
            for name, own in listed.items()
            if name in features
        }
    undeclared = [*features] == [*features.values()] and source.begins_with_numbers([*features])
    return None if undeclared else [*features.values()]


def tell_columns(console: Console, options: Namespace, source: Source, features: list[Any] | None) -> None:
    """Print how the columns are read, and which of them look like ids."""
    apart = {name: use for name, use in ((options.label, "label"), (options.id, "id")) if name is not None}
    numbers = [name for name in source.columns if name not in apart]
    reading = columns.Reading(numbers if features is None else features, apart, options.drop)
    said = columns.lines(reading)
    cells = {name: source.first_cells(name) for name in [*numbers, options.label]}
    commas = [name for name, own in cells.items() if kinds.has_decimal_commas(own)]
    if commas:
        shown = ", ".join(first(commas, columns.NAMES_SHOWN))
        said.append(f"warning: decimal commas are not read: {shown} would hold numbers if 0,5 were written 0.5")
    for name in columns.ids_among(reading, {name: cells[name] for name in numbers if name not in commas}):
        out = ",".join([*options.drop, name])
        said.append(f"warning: nearly every row has another {name}: an id teaches nothing; --drop {out} leaves it out")
    console.print("\n".join(said), soft_wrap=True, markup=False)


def task_of(options: Namespace, source: Source) -> str:
    """The task that is asked for, else that of the labels in the first rows."""
    guessed = "classification" if options.cost else kinds.task_of(source.first_cells(options.label))
    return options.task or guessed


def tell_task(console: Console, options: Namespace, source: Source, task: str | None) -> None:
    """Print how labels are taken that are numbers: they may be classes, or what is to be predicted."""
    if options.task is not None or task is None or kinds.kind_of(source.first_cells(options.label)) != "number":
        return
    said = {
        "classification": "whole numbers, taken as classes; --task regression predicts them as numbers",
        "regression": "numbers, predicted as such (regression); --task classification takes them as classes",
    }
    console.print(f"column {options.label}: {said[task]}", soft_wrap=True, markup=False)


def _service(options: Namespace, ends: ExitStack) -> Service:
    if options.url is not None:
        return Service(options.url, options.key, tls=trust.context(options.ca, options.client_cert))
    return Service(ends.enter_context(private.service()), private=True, patience_s=PRIVATE_PATIENCE_S)


def _body(options: Namespace, service: Service, source: Source, features: list[Any] | None) -> dict[str, Any]:
    """The request that creates the model."""
    body = {"algorithm": options.algorithm, "params": options.param, "missing": options.missing, **costs.body(options)}
    if options.lags:
        body["lags"] = options.lags
    if options.task is not None or len(service.tasks(options.algorithm)) > 1:
        there = None if options.url is None else service.found(options.name)
        body["task"] = there["config"]["task"] if there and options.task is None else task_of(options, source)
    return body if features is None else body | {"features": features}


def feed(
    service: Service, options: Namespace, batches: Generator[Batch], totals: report.Totals, console: Console
) -> report.Totals:
    """Send every row; a batch is read while the one before it is learned."""
    shown = report.progress(console, options.name, totals)
    with shown as show, closing(ahead(batches)) as coming:
        for batch in coming:
            try:
                answer = service.learn(options.name, batch, options.label, options.id)
            except Failed as refused:
                said = f"rows {batch.first} to {batch.first + batch.rows - 1}: {refused}"
                if options.url is not None and totals.rows:
                    said += f"\n  {counted(totals.rows)} before that: learned by model {options.name}"
                if options.task is None and "is not a label" in said:
                    said += "\n  where the label is a number: --task regression"
                at = batch.columns.index(options.label)
                has_gap = any(kinds.is_missing(row[at]) for row in batch.cells)
                raise Failed(said + UNLABELLED * has_gap) from None
            totals.add(answer, options.id is not None)
            show(_done(batch.read, totals.rows, options.limit))
    return totals


def _done(read: float | None, rows: int, limit: int | None) -> float | None:
    """The part of the work that is done; None where nobody knows."""
    return read if limit is None else max(read or 0.0, rows / limit)


def _plot(options: Namespace, metrics: dict[str, Any], task: str, rows_before: int) -> None:
    from service.replay import chart  # noqa: PLC0415  matplotlib takes long to import; few replays draw

    try:
        chart.write(options.plot, _title(options), metrics, task, rows_before)
    except OSError as error:
        raise Failed(f"{options.plot} cannot be written: {error.strerror or error}") from error


@contextmanager
def interruptible() -> Generator[None]:
    """The first signal ends the replay in good order, a second one at once."""

    def interrupt(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise Interrupted(number)

    # Ignored signals stay ignored: nohup and background jobs rely on it.
    before = {each: action for each in _SIGNALS if (action := signal.getsignal(each)) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, interrupt)
        yield
    finally:
        for each, action in before.items():
            signal.signal(each, action)
