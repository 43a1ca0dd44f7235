"""``onepass compare``: a file through several algorithms at once, in one pass through one model with challengers.

The steps are those of a replay; the first algorithm is the model's own. How long a row takes is measured after the
pass: each algorithm learns the first rows once more, by itself.
"""

import time
from argparse import Namespace
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from service.replay import Failed, costs, private, ranking, report
from service.replay.client import Service
from service.replay.command import (
    PRIVATE_PATIENCE_S,
    features_of,
    feed,
    interruptible,
    opened,
    task_of,
    tell_columns,
    tell_task,
)
from service.replay.files import STANDARD_INPUT
from service.replay.options import default_name
from service.replay.ranking import Entrant, Outcome
from service.replay.source import Batch, Source

USUAL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("dfop", {}),
    ("dfop", {"scaling": "robust", "random_features": 100}),
    ("rls", {}),
    ("dynamic_odm", {}),
    ("vigo", {}),
    ("vigow", {}),
    ("fesl_c", {}),
    ("ga2m", {}),
)
"""What is compared where nothing is asked for: of each family those that differ most, as far as the task allows."""
PLAIN: dict[str, Any] = {"params": {}, "missing": "error", "lags": 0}
"""What a body need not say."""
TIMED_ROWS, ROUNDS = 1000, 3


class Contender(NamedTuple):
    """One of the algorithms.

    Attributes:
        name: of the challenger, and of the line in the table.
        algorithm, params: of its configuration.
    """

    name: str
    algorithm: str
    params: dict[str, Any]


def run(options: Namespace) -> dict[str, Any] | None:
    """Compare.

    Args:
        options: as ``options.add_compare`` declares them.

    Returns:
        The result, where it is asked for as JSON; else it has been shown.

    Raises:
        Failed: with the reason.
        Interrupted: by a signal; everything that was started has ended.
    """
    options.name = options.name or default_name(options.file)
    console = Console(highlight=False, stderr=options.json)
    with interruptible(), ExitStack() as ends:
        source = ends.enter_context(closing(opened(options)))
        features = features_of(options, source)
        tell_columns(console, options, source, features)
        task = task_of(options, source)
        tell_task(console, options, source, task)
        shared = _shared(options, task, features)
        most = max(len(options.algorithms), len(USUAL))
        url = ends.enter_context(private.service(ONEPASS_CHALLENGERS_MAX=str(most)))
        service = ends.enter_context(closing(Service(url, private=True, patience_s=PRIVATE_PATIENCE_S)))
        contenders = _contenders(options.algorithms or usual(service.algorithms(), shared["task"]))
        entrants, totals = _through_all(service, options, contenders, shared, source, console)
        known = _known(service, service.model(options.name, totals.version))
    create = {"algorithm": entrants[0].algorithm, **shared, **known, "params": entrants[0].params}
    create = {name: value for name, value in create.items() if name not in PLAIN or value != PLAIN[name]}
    title = f"{'standard input' if options.file == STANDARD_INPUT else options.file.name}: {options.label}"
    outcome = Outcome(title, options.name, options.address, entrants, totals, create, None)
    if not options.no_plot:
        outcome = outcome._replace(chart=_plot(options.plot or Path(f"compare-{options.name}.svg"), outcome))
    if options.json:
        return ranking.result(outcome)
    ranking.show(console, outcome)
    return None


def _shared(options: Namespace, task: str, features: list[Any] | None) -> dict[str, Any]:
    """What all contenders' configurations have in common."""
    shared = {"task": task, "missing": options.missing, "lags": options.lags, **costs.body(options)}
    return shared if features is None else shared | {"features": features}


def _known(service: Service, model: Mapping[str, Any]) -> dict[str, Any]:
    """What the file has fixed: with it declared, a mistyped name or label is refused and not learned."""
    found = {"features": service.features(model["name"], model["version"])}
    labels = model["info"].get("labels")
    return found | {"labels": labels} if labels else found


def _through_all(
    service: Service,
    options: Namespace,
    contenders: Sequence[Contender],
    shared: dict[str, Any],
    source: Source,
    console: Console,
) -> tuple[list[Entrant], report.Totals]:
    """The file through the model and its challengers: what each has reached, the best first."""
    _create(service, options.name, contenders, shared)
    first: list[Batch] = []
    batches = _keeping(source.batches(options.batch), first)
    totals = feed(service, options, batches, report.Totals(shared["task"]), console)
    totals.skipped = source.skipped
    seconds = _seconds_per_row(service, options, contenders, shared, first)
    return ranking.ranked(_entrants(service, options.name, contenders, totals.version, seconds), shared["task"]), totals


def usual(catalogue: Sequence[dict[str, Any]], task: str) -> list[tuple[str, dict[str, Any]]]:
    """Of ``USUAL`` what learns the task and has the parameters."""
    known = {entry["id"]: entry["params"]["properties"] for entry in catalogue if task in entry["tasks"]}
    return [(own, params) for own, params in USUAL if own in known and {*params} <= {*known[own]}]


def _contenders(asked: Sequence[tuple[str, dict[str, Any]]]) -> list[Contender]:
    """Each with a name of its own."""
    found: dict[str, Contender] = {}
    for algorithm, params in asked:
        same = sum(each.algorithm == algorithm for each in found.values())
        name = f"{algorithm}-{same + 1}" if same else algorithm
        found[name] = Contender(name, algorithm, params)
    return [*found.values()]


def _body(contender: Contender) -> dict[str, Any]:
    return {"algorithm": contender.algorithm, "params": contender.params}


def _create(service: Service, name: str, contenders: Sequence[Contender], shared: dict[str, Any]) -> None:
    """The model and its challengers, before the first row."""
    for at, contender in enumerate(contenders):
        try:
            if at:
                service.challenge(name, contender.name, _body(contender))
            else:
                service.create(name, _body(contender) | shared)
        except Failed as refused:
            raise Failed(f"{contender.algorithm}: {refused}") from None


def _keeping(batches: Generator[Batch], kept: list[Batch]) -> Generator[Batch]:
    """The same batches; those of the first rows are kept."""
    with closing(batches):
        for batch in batches:
            if (room := TIMED_ROWS - sum(one.rows for one in kept)) > 0:
                kept.append(batch.head(room))
            yield batch


def _seconds_per_row(
    service: Service,
    options: Namespace,
    contenders: Sequence[Contender],
    shared: dict[str, Any],
    first: Sequence[Batch],
) -> Iterator[float]:
    """How long each algorithm takes for one of the first rows alone, in a new model: the fastest of some rounds."""
    rows = sum(batch.rows for batch in first)
    for at, contender in enumerate(contenders):
        rounds = []
        for again in range(ROUNDS):
            name = f"timed-{at}-{again}"
            service.create(name, _body(contender) | shared)
            began = time.perf_counter()
            for batch in first:
                service.learn(name, batch, options.label, None)
            rounds.append(time.perf_counter() - began)
        yield min(rounds) / rows


def _entrants(
    service: Service, name: str, contenders: Sequence[Contender], version: int, seconds: Iterator[float]
) -> list[Entrant]:
    """What each has reached."""
    challengers = {one["name"]: one for one in service.challengers(name, version)}
    found = []
    for contender, each in zip(contenders, seconds, strict=True):
        own = challengers.get(contender.name)
        metrics = service.metrics(name, version) if own is None else own["metrics"]
        difference = None if own is None else own["difference"]
        found.append(Entrant(*contender, metrics, difference, each))
    return found


def _plot(path: Path, outcome: Outcome) -> str:
    from service.replay import comparison_chart  # noqa: PLC0415  matplotlib takes long to import

    try:
        comparison_chart.write(path, outcome.title, outcome.entrants, outcome.totals.task)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror or error}") from error
    return str(path)
