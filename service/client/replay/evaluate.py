"""``onepass evaluate``: a file of labelled rows scored by a model that does not learn them."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from typer import Option

from service.client.display import counted, grid
from service.client.failures import Failed
from service.client.options import model_name
from service.client.replay.file_pass import ReadOptions
from service.client.session import Refused, Service, path_of

MEANS = ("accuracy", "log_loss", "mse", "mae", "bias")
"""Metrics of several requests that their rows, those with a prediction, have a mean of."""


def evaluate(
    *,
    given: ReadOptions,
    model: Annotated[str, Option(metavar="NAME", callback=model_name, help="Of the model.")],
    batch: Annotated[int, Option(min=1, max=100_000, help="Rows per request.")] = 10_000,
    service: Service,
) -> None:
    """Score a model on a file, such as a holdout set, without learning it.

    All rows are predicted by the model as it is. More rows than --batch are sent in several requests: metrics that are
    no mean over rows, such as kappa, are left out then.
    """
    answers, headers = list[Any](), {"Content-Type": "text/csv; charset=utf-8"}
    table = given.table()
    with service.session() as session:
        for part in table.batches(batch, given.limit):
            path, params = path_of(model, "evaluate"), {"label": given.label}
            try:
                answers.append(session.ask("POST", path, params=params, headers=headers, content=part.body))
            except Refused as refused:
                last = part.first + len(part.lines) - 1
                raise Failed(f"rows {part.first} to {last}: {refused.told(part.located(refused.errors))}") from None
    found = {"model": model, **combined(answers)}
    versions = " to ".join(map(str, dict.fromkeys((answers[0]["version"], answers[-1]["version"]))))
    given.say(f"\n{model}, version {versions}: {counted(found['rows'])} scored, none learned")
    given.say(grid([(name, f"{value:.6g}") for name, value in found["metrics"].items() if value is not None]))
    if given.as_json:
        print(json.dumps(found))


def combined(answers: Sequence[Any]) -> dict[str, Any]:
    """The answers to the parts of a file as one; of several only the ``MEANS``, weighted by rows with a prediction."""
    first, last = answers[0], answers[-1]
    rows, unscored = (sum(one["metrics"].get(name, 0) for one in answers) for name in ("rows", "unscored"))
    metrics = {**first["metrics"], "rows": rows}
    if len(answers) > 1:
        metrics = {"rows": rows} | ({"unscored": unscored} if "unscored" in first["metrics"] else {})
        for name in (name for name in MEANS if name in first["metrics"]):
            parts = [(one["metrics"], one["metrics"][name]) for one in answers if one["metrics"][name] is not None]
            sizes = [one["rows"] - one.get("unscored", 0) for one, _ in parts]
            total = sum(size * value for size, (_, value) in zip(sizes, parts, strict=True))
            metrics[name] = total / sum(sizes) if parts else None
    return {"rows": rows, "metrics": metrics, "version": last["version"]}
