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
            path, params = path_of(model, "evaluate"), given.queries
            try:
                answers.append(session.ask("POST", path, params=params, headers=headers, content=part.body))
            except Refused as refused:
                last = part.first + len(part.lines) - 1
                raise Failed(f"rows {part.first} to {last}: {refused.told(part.located(refused.errors))}") from None
    found = {"model": model, **combined(answers)}
    versions = " to ".join(map(str, dict.fromkeys((answers[0]["version"], answers[-1]["version"]))))
    given.say(f"\n{model}, version {versions}: {counted(found['rows'])} scored, none learned")
    shown = dict(found["metrics"])
    shown |= {f"served {name}": value for name, value in shown.pop("served", {}).items()}
    given.say(grid([(name, f"{value:.6g}") for name, value in shown.items() if value is not None]))
    if given.as_json:
        print(json.dumps(found))


def combined(answers: Sequence[Any]) -> dict[str, Any]:
    """The answers to the parts of a file as one; of several only the ``MEANS``, weighted by rows with a prediction."""
    found = _combined([one["metrics"] for one in answers])
    if "served" in answers[0]["metrics"]:
        found["served"] = _combined([one["metrics"]["served"] for one in answers])
    return {"rows": found["rows"], "metrics": found, "version": answers[-1]["version"]}


def _combined(parts: Sequence[Any]) -> dict[str, Any]:
    first = parts[0]
    if len(parts) == 1:
        return {**first}
    found = {name: sum(one[name] for one in parts) for name in ("rows", "unscored") if name in first}
    for name in (name for name in MEANS if name in first):
        known = [one for one in parts if one[name] is not None]
        sizes = [one["rows"] - one.get("unscored", 0) for one in known]
        total = sum(size * one[name] for size, one in zip(sizes, known, strict=True))
        found[name] = total / sum(sizes) if known else None
    return found
