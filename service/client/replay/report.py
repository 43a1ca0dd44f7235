"""What a replay or a comparison says: scores beside baselines, and what they mean in words."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.client.display import lead, shortened, spelt, suggested, table

CLASSES_SHOWN, CLASSES_NAMED, TIES_SHOWN = 10, 50, 5
"""Most classes in the table, classes named in the metrics, and algorithms named in the note on ties."""
RARE_SHARE, RECALL_LOW, COST_MAX = 0.2, 0.3, 1000
"""Share of rows below which a class is rare, recall below which it counts as missed, largest proposed cost."""
COST = "mean_cost"
MEASURES: Sequence[str] = (COST, "accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece")
MEASURES = (*MEASURES, "mse", "mae", "median_ae", "bias", "r2")
"""In the order of the tables; the first that a model has ranks it."""
SPARE = ("ece", "brier", "kappa temporal", "bias", "median ae", "kappa", "log loss")
"""Measures that a narrow terminal drops, in this order."""

Scores = Mapping[str, Any]


@dataclass(slots=True)
class Entrant:
    """An algorithm and its results; ``difference`` is its paired loss to the model's own algorithm, which has none."""

    name: str
    algorithm: str
    params: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)
    difference: dict[str, Any] | None = None
    costs: list[tuple[int, float]] = field(default_factory=list)  # curve of the mean costs of the last rows

    @property
    def body(self) -> dict[str, Any]:
        """Its part of a configuration."""
        return {"algorithm": self.algorithm} | ({"params": self.params} if self.params else {})

    @property
    def line(self) -> str:
        """Its name as in ``--algorithms``."""
        values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in self.params.items()}
        return ":".join([self.algorithm, *(f"{name}={value}" for name, value in values.items())])

    def document(self) -> dict[str, Any]:
        """Its results as JSON."""
        reached = _with_cost(self.metrics["overall"])
        shown = {name: reached[name] for name in MEASURES if name in reached}
        return {"name": self.name, **self.body, **shown, "difference": self.difference, "metrics": self.metrics}


def _with_cost(scores: Scores) -> dict[str, Any]:
    return {**scores, COST: scores["costs"]["mean"]} if scores.get("costs") else {**scores}


def compared(metrics: Scores, span: str = "overall") -> dict[str, Any]:
    """The scores of a span; errors are of the rows that ``last_value`` predicted, so not of the first."""
    paired = (metrics.get("paired") or {}).get(span, {})
    return _with_cost(metrics[span]) | {each: paired[each] for each in ("mse", "mae") if paired.get(each) is not None}


def measure_of(metrics: Scores) -> str:
    """What ranks models: the mean cost if classes have costs, else accuracy or squared error."""
    reached = _with_cost(metrics["overall"])
    return next(each for each in MEASURES if each in reached)


def _loss(scores: Scores, measure: str) -> float:
    """A score as a loss; an undefined one is infinite."""
    value = scores.get(measure)
    return math.inf if value is None else -value if measure == "accuracy" else value


def ranked(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Sort the best first."""
    return sorted(entrants, key=lambda one: _loss(compared(one.metrics), measure_of(one.metrics)))


def _baselines(metrics: Scores) -> dict[str, Scores]:
    """The baselines by name; with costs also the cheapest constant answer."""
    found = {name.replace("_", " "): scores for name, scores in metrics["baselines"].items()}
    if costs := metrics["overall"].get("costs"):
        found[f"always {spelt(costs['label'])}"] = {COST: costs["constant"]}
    return found


def shown(measure: str, value: float | None) -> str:
    """A score as text; accuracies and recalls in per cent."""
    if value is None:
        return "undefined"
    return f"{value:.2%}" if measure.endswith(("accuracy", "recall", "precision")) else f"{value:.5g}"


def cells(found: Sequence[tuple[str, Scores]]) -> list[dict[str, str]]:
    """Lines of a table of scores, each with its name; a measure that a line lacks is empty."""
    measures = [each for each in MEASURES if any(each in scores for _, scores in found)]
    return [
        {"": name} | {each.replace("_", " "): shown(each, scores[each]) if each in scores else "" for each in measures}
        for name, scores in found
    ]


def scores(entrants: Sequence[Entrant]) -> str:
    """A table of algorithms and baselines, the best first; several algorithms show how far each is behind."""
    first = entrants[0].metrics
    measure, rarest = measure_of(first), next(iter(_rare(first)), None)
    own = next((one.name for one in entrants if one.difference is None), "")
    behind, unit = (f"squared error above {own}'s", -1) if measure == "mse" else (f"points behind {own}", -100)
    lines: list[tuple[str, Scores, dict[str, str]]] = [(name, found, {}) for name, found in _baselines(first).items()]
    for one in entrants:
        more = {}
        if entrants[1:] and rarest is not None:
            more[f"recall of {rarest:.20}"] = shown("recall", one.metrics["overall"]["per_class"][rarest]["recall"])
        if entrants[1:] and measure != COST:
            more[behind] = lead(one.difference or {}, unit)
        lines.append((one.line, compared(one.metrics), more))
    lines.sort(key=lambda line: _loss(line[1], measure))
    named = cells([(name, found) for name, found, _ in lines])
    return table([line | more for line, (*_, more) in zip(named, lines, strict=True)], SPARE)


def classes(metrics: Scores) -> str:
    """A table of recall and precision per class, of many those with the lowest recall; empty for a regression."""
    found, head = [*(metrics["overall"].get("per_class") or {}).items()], "class"
    if len(found) > CLASSES_SHOWN:
        found.sort(key=lambda one: (one[1]["recall"] is None, one[1]["recall"]))
        head = f"class ({CLASSES_SHOWN} of lowest recall)"
    lines = [
        {head: name, "rows": f"{one['support']:,}"} | {each: shown(each, one[each]) for each in ("recall", "precision")}
        for name, one in found[:CLASSES_SHOWN]
    ]
    return table(lines) if lines else ""


def cost_lines(costs: Scores | None) -> list[str]:
    """The mean cost of a row, and that of the cheapest constant answer; no line for a model without costs."""
    if costs is None or costs["mean"] is None:
        return []
    constant = f"{costs['constant']:.4g} with {spelt(costs['label'])} as the answer to all"
    return [f"cost a row: {costs['mean']:.4g}; {constant}"]


def served_lines(metrics: Scores) -> list[str]:
    """Compare the model with the one outside Onepass; no line if no row was predicted by both."""
    found, measure = metrics.get("served"), "mse" if "mse" in metrics["overall"] else "accuracy"
    if found is None or not found["rows"]:
        return []
    theirs, ours = metrics["baselines"]["served"][measure], metrics["overall"][measure]
    line = f"your model {shown(measure, theirs)}, Onepass {shown(measure, ours)}"
    sure = f"better with {found['difference']['confidence']:.0%} confidence"
    if found["better"] is None:
        return [f"{line}; neither is {sure}"]
    return [f"{line}; {'Onepass' if found['better'] == 'model' else 'yours'} is {sure} since row {found['since']:,}"]


def _rare(metrics: Scores) -> dict[str, Scores]:
    """The classes with fewer than RARE_SHARE of the rows, the rarest first."""
    found = metrics["overall"].get("per_class") or {}
    total = sum(one["support"] for one in found.values())
    rare = [(name, one) for name, one in found.items() if 0 < one["support"] < RARE_SHARE * total]
    return dict(sorted(rare, key=lambda each: each[1]["support"]))


def not_beaten(metrics: Scores) -> list[str]:
    """The baselines that are at least as good as a model, each with its score."""
    measure = measure_of(metrics)
    own = _loss(compared(metrics), measure)
    return [
        f"{name} ({measure.replace('_', ' ')} {shown(measure, found[measure])})"
        for name, found in _baselines(metrics).items()
        if name != "served" and found.get(measure) is not None and _loss(found, measure) <= own
    ]


def notes(entrants: Sequence[Entrant], costs: Mapping[str, float]) -> list[str]:
    """Warn if the best algorithm does not beat a baseline, misses a rare class or ties, and of costs without rows."""
    best, metrics = entrants[0], entrants[0].metrics
    warnings = [f"{best.line} is no better than {baseline}" for baseline in not_beaten(metrics)]
    found = metrics["overall"].get("per_class") or {}
    rows = sum(one["support"] for one in found.values())
    if measure_of(metrics) != COST:
        for name, one in _rare(metrics).items():
            if (one["recall"] or 0) < RECALL_LOW:
                cost = min(round((rows - one["support"]) / one["support"]), COST_MAX)
                how = f"{shlex.join(['--cost', f'{name}={cost}'])} makes missing one {cost} times as dear"
                warnings.append(f"{best.line} finds only {one['recall'] or 0:.1%} of the rows labelled `{name}`; {how}")
        if tied := _tied(entrants):
            names = ", ".join(shortened(tied, TIES_SHOWN))
            warnings.append(f"{best.line} is not distinguishable from {names}: the interval holds 0")
    seen = [name for name, one in found.items() if one["support"]]
    unknown = [name for name in costs if name not in seen] if len(found) <= CLASSES_NAMED else []
    return warnings + [
        f"no row is labelled `{name}`: its cost has no effect{suggested(name, seen)}" for name in unknown
    ]


def _tied(entrants: Sequence[Entrant]) -> list[str]:
    """The entrants that the best one does not surely beat; only differences to the model's own algorithm are known."""
    best = entrants[0].difference
    pairs = [(one.line, one.difference or best) for one in entrants[1:] if None in (best, one.difference)]
    return [line for line, found in pairs if found and found["low"] is not None and found["low"] <= 0 <= found["high"]]
