"""What a replay or a comparison says: scores beside baselines, and what they mean in words."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.client.display import shortened, spelt, suggested, table

CLASSES_SHOWN, CLASSES_NAMED, TIES_SHOWN = 10, 50, 5
"""In the table of classes; in the metrics, which name no more; in the note on ties."""
RARE_SHARE, RECALL_LOW, COST_MAX = 0.2, 0.3, 1000
"""Of the rows, below which a class is rare; of its rows, below which it is missed; a cost that is proposed."""
COST = "mean_cost"
SCORE = {"classification": "accuracy", "regression": "mse"}
FORMS = {
    COST: "{:.4g}",
    **dict.fromkeys(("accuracy", "balanced_accuracy"), "{:.2%}"),
    **dict.fromkeys(("kappa", "kappa_temporal", "log_loss", "brier", "ece", "r2"), "{:.4f}"),
    **dict.fromkeys(("mse", "mae", "median_ae", "bias"), "{:.6g}"),
}
MEASURES = {
    "classification": ["accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece"],
    "regression": ["mse", "mae", "median_ae", "bias", "r2"],
}
SPARE = ("ece", "brier", "kappa temporal", "bias", "median ae", "kappa", "log loss")
"""Measures that a narrow terminal goes without, in this order."""


class Entrant(NamedTuple):
    """An algorithm with what it has reached; ``difference``: its paired loss to the model's own, which has none."""

    name: str
    algorithm: str
    params: dict[str, Any]
    metrics: dict[str, Any] = {}  # noqa: RUF012  replaced, not changed
    difference: dict[str, Any] | None = None

    @property
    def body(self) -> dict[str, Any]:
        """What a configuration has of it."""
        return {"algorithm": self.algorithm} | ({"params": self.params} if self.params else {})

    def document(self, task: str) -> dict[str, Any]:
        """What it has reached, for programs."""
        shown = {
            name: value_of(self.metrics["overall"], name) for name in (measure_of(self.metrics, task), *MEASURES[task])
        }
        return {"name": self.name, **self.body, **shown, "difference": self.difference, "metrics": self.metrics}

    @property
    def line(self) -> str:
        """How ``--algorithms`` names it."""
        values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in self.params.items()}
        return ":".join([self.algorithm, *(f"{name}={value}" for name, value in values.items())])


def compared(metrics: Mapping[str, Any], span: str = "overall") -> dict[str, Any]:
    """The scores of a span; errors of the rows that ``last_value`` predicted too, which the first is not one of."""
    paired = (metrics.get("paired") or {}).get(span, {})
    return {**metrics[span], **{name: paired[name] for name in ("mse", "mae") if paired.get(name) is not None}}


def measure_of(metrics: Mapping[str, Any], task: str) -> str:
    """What models are ranked by: with costs of classes what an answer has cost, else accuracy or squared error."""
    return COST if metrics["overall"].get("costs") else SCORE[task]


def value_of(scores: Mapping[str, Any], measure: str) -> float | None:
    """A score; None where it is undefined or not known."""
    value: float | None = (scores.get("costs") or {}).get("mean") if measure == COST else scores.get(measure)
    return value


def _loss(scores: Mapping[str, Any], measure: str) -> float:
    """A score as what is to be small; what is undefined comes last."""
    value = value_of(scores, measure)
    return float("inf") if value is None else -value if measure == SCORE["classification"] else value


def ranked(entrants: Sequence[Entrant], task: str) -> list[Entrant]:
    """The best first."""
    return sorted(entrants, key=lambda one: _loss(compared(one.metrics), measure_of(one.metrics, task)))


def baselines(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The baselines by their names; with costs also the one answer that would have cost least."""
    found = {name.replace("_", " "): scores for name, scores in metrics["baselines"].items()}
    if costs := metrics["overall"].get("costs"):
        found[f"always {spelt(costs['label'])}"] = {"costs": {"mean": costs["constant"]}}
    return found


def scores(entrants: Sequence[Entrant], task: str) -> str:
    """A line for each algorithm and baseline, the best first; of several algorithms also how far each is behind."""
    measure = measure_of(entrants[0].metrics, task)
    several, rarest = len(entrants) > 1, next(iter(_rare(entrants[0].metrics)), None)
    own = next((one.name for one in entrants if one.difference is None), "")
    behind = f"squared error above {own}'s" if task == "regression" else f"points behind {own}"
    lines = []
    for entrant in entrants:
        line = _cells(entrant.line, compared(entrant.metrics), task, measure)
        if several and rarest is not None:
            line[f"recall of {rarest:.20}"] = f"{entrant.metrics['overall']['per_class'][rarest]['recall']:.2%}"
        if several and measure != COST:
            line[behind] = _behind(entrant.difference, task)
        lines.append((_loss(compared(entrant.metrics), measure), line))
    for name, found in baselines(entrants[0].metrics).items():
        lines.append((_loss(found, measure), _cells(name, found, task, measure)))
    return table([line for _, line in sorted(lines, key=lambda one: one[0])], spare=SPARE)


def _cells(name: str, found: Mapping[str, Any], task: str, measure: str) -> dict[str, object]:
    line: dict[str, object] = {"": name}
    for each in [COST] * (measure == COST) + MEASURES[task]:
        value = value_of(found, each)
        known = ("costs" if each == COST else each) in found
        line[each.replace("_", " ")] = FORMS[each].format(value) if value is not None else "undefined" * known
    return line


def _behind(difference: Mapping[str, Any] | None, task: str) -> str:
    """By how much a loss is above that of the model's own algorithm, and between what."""
    if difference is None or difference["mean"] is None:
        return ""
    form, unit = ("{:+.3g}", 1) if task == "regression" else ("{:+.1f}", 100)
    mean, low, high = (
        "?" if difference[at] is None else form.format(-unit * difference[at] + 0.0) for at in ("mean", "high", "low")
    )
    return mean if "?" in (low, high) else f"{mean} ({low} to {high})"


def classes(metrics: Mapping[str, Any]) -> str:
    """Recall and precision of the classes, of many those of the lowest recall; empty for a regression."""
    found = metrics["overall"].get("per_class") or {}
    worst = sorted(found, key=lambda name: (found[name]["recall"] is None, found[name]["recall"]))
    head = "class" if len(found) <= CLASSES_SHOWN else f"class ({CLASSES_SHOWN} of lowest recall)"
    lines = []
    for name in found if len(found) <= CLASSES_SHOWN else worst[:CLASSES_SHOWN]:
        one = found[name]
        shares = {each: "undefined" if one[each] is None else f"{one[each]:.2%}" for each in ("recall", "precision")}
        lines.append({head: name, "rows": f"{one['support']:,}", **shares})
    return f"\n{table(lines)}" if lines else ""


def _rare(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The classes of fewer than RARE_SHARE of the rows, the rarest first."""
    found = metrics["overall"].get("per_class") or {}
    total = sum(one["support"] for one in found.values())
    rare = [(name, one) for name, one in found.items() if 0 < one["support"] < RARE_SHARE * total]
    return dict(sorted(rare, key=lambda each: each[1]["support"]))


def not_beaten(metrics: Mapping[str, Any], task: str) -> list[str]:
    """The baselines that are as good as a model, each with its score."""
    measure = measure_of(metrics, task)
    own = _loss(compared(metrics), measure)
    known = {name: found for name, found in baselines(metrics).items() if value_of(found, measure) is not None}
    said = measure.replace("_", " ")
    return [
        f"{name} ({said} {FORMS[measure].format(value_of(found, measure))})"
        for name, found in known.items()
        if _loss(found, measure) <= own
    ]


def notes(entrants: Sequence[Entrant], task: str, costs: Mapping[str, float]) -> list[str]:
    """What to know before the best algorithm is taken.

    It is no better than an answer that needs no model, it misses a rare class, another one is as good; a cost that was
    given is of a label that no row has.
    """
    best, metrics = entrants[0], entrants[0].metrics
    said = [f"{best.line} is no better than {baseline}" for baseline in not_beaten(metrics, task)]
    found = metrics["overall"].get("per_class") or {}
    rows = sum(one["support"] for one in found.values())
    if measure_of(metrics, task) != COST:
        for name, one in _rare(metrics).items():
            if (one["recall"] or 0) < RECALL_LOW:
                cost = min(round((rows - one["support"]) / one["support"]), COST_MAX)
                how = f"{shlex.join(['--cost', f'{name}={cost}'])} makes missing one {cost} times as dear"
                said.append(f"{best.line} finds only {one['recall'] or 0:.1%} of the rows labelled `{name}`; {how}")
        if tied := _tied(entrants):
            names = ", ".join(shortened(tied, TIES_SHOWN))
            said.append(f"{best.line} is not distinguishable from {names}: the interval holds 0")
    seen = [name for name, one in found.items() if one["support"]]
    unknown = [name for name in costs if name not in seen] if len(found) <= CLASSES_NAMED else []
    return said + [
        f"no row is labelled `{name}`, so its cost has had no effect{suggested(name, seen)}" for name in unknown
    ]


def _tied(entrants: Sequence[Entrant]) -> list[str]:
    """Whose loss may be the best one's: differences are known to the model's own algorithm only."""

    def may_be_0(difference: Mapping[str, Any] | None) -> bool:
        low, high = (None, None) if difference is None else (difference["low"], difference["high"])
        return low is not None and high is not None and low <= 0 <= high

    best, others = entrants[0], entrants[1:]
    if best.difference is None:
        return [one.line for one in others if may_be_0(one.difference)]
    return [one.line for one in others if one.difference is None and may_be_0(best.difference)]
