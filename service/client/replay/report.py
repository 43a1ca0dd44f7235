"""The report of a replay or a comparison: scores next to baselines, and what they mean in words."""

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
AUC_MIN, FOUND_MIN, HITS_MIN = 0.6, 0.05, 5
"""For a cost to be proposed: least area under the curve of two classes; of more, least recall and rows found."""
COST = "mean_cost"
_OF_CLASSES = ("accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece")
MEASURES = (COST, *_OF_CLASSES, "mse", "mae", "median_ae", "bias", "r2")
"""In the order of the tables; the first that a model has ranks it."""
SPARE = ("ece", "brier", "kappa temporal", "bias", "median ae", "kappa", "log loss")
"""Measures that a narrow terminal drops, in this order."""

Scores = Mapping[str, Any]


@dataclass(slots=True)
class Entrant:
    """An algorithm and its results; ``difference`` is its paired comparison with the model's own, which has none."""

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

    @property
    def measure(self) -> str:
        """What ranks it: the mean cost if classes have costs, else accuracy or squared error."""
        return measures_of(compared(self.metrics))[0]

    @property
    def loss(self) -> float:
        """What ranks it as a loss."""
        return _loss(compared(self.metrics), self.measure)

    def document(self) -> dict[str, Any]:
        """Its results as JSON."""
        reached = _with_cost(self.metrics["overall"])
        shown = {name: reached[name] for name in measures_of(reached)}
        return {"name": self.name, **self.body, **shown, "difference": self.difference, "metrics": self.metrics}


def own_of(entrants: Sequence[Entrant]) -> Entrant:
    """The model's own algorithm: only its metrics have the model outside Onepass."""
    return next(one for one in entrants if one.difference is None)


def measures_of(scores: Scores) -> list[str]:
    """The measures among scores, the one that ranks models first."""
    return [each for each in MEASURES if each in scores]


def _with_cost(scores: Scores) -> dict[str, Any]:
    return {**scores, COST: scores["costs"]["mean"]} if scores.get("costs") else {**scores}


def compared(metrics: Scores, span: str = "overall") -> dict[str, Any]:
    """The scores of a span; errors are of the rows that ``last_value`` predicted, so not of the first."""
    paired = (metrics.get("paired") or {}).get(span, {})
    return _with_cost(metrics[span]) | {each: paired[each] for each in ("mse", "mae") if paired.get(each) is not None}


def _loss(scores: Scores, measure: str) -> float:
    """A score as a loss; an undefined one is infinite."""
    value = scores.get(measure)
    return math.inf if value is None else -value if measure == "accuracy" else value


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


def cells(name: str, found: Scores, measures: Sequence[str]) -> dict[str, str]:
    """A line of a table of scores; a measure that the scores lack is empty."""
    known = {each: shown(each, found[each]) if each in found else "" for each in measures}
    return {"": name} | {each.replace("_", " "): text for each, text in known.items()}


def scores(entrants: Sequence[Entrant]) -> str:
    """A table of algorithms and baselines, the best first; several algorithms show how far each is behind."""
    own = own_of(entrants)
    measures, rarest = measures_of(compared(own.metrics)), next(iter(_rare(own.metrics)), None)
    behind, unit = f"points behind {own.name}", -100
    if "mse" in measures:
        behind, unit = f"squared error above {own.name}'s", -1
    known = _baselines(own.metrics)
    lines = [(_loss(found, measures[0]), cells(name, found, measures)) for name, found in known.items()]
    for one in entrants:
        line = cells(one.line, compared(one.metrics), measures)
        if entrants[1:] and rarest is not None:
            line[f"recall of {rarest:.20}"] = shown("recall", one.metrics["overall"]["per_class"][rarest]["recall"])
        if entrants[1:] and COST not in measures:
            line[behind] = lead(one.difference or {}, unit)
        lines.append((one.loss, line))
    return table([line for _, line in sorted(lines, key=lambda one: one[0])], SPARE)


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
    constant = f"{costs['constant']:.4g} with {spelt(costs['label'])} as the answer to every row"
    return [f"cost per row: {costs['mean']:.4g}; {constant}"]


def served_lines(metrics: Scores, name: str) -> list[str]:
    """Compare a model of this name with the one outside Onepass; no line if no row was predicted by both."""
    found, measure = metrics.get("served"), "mse" if "mse" in metrics["overall"] else "accuracy"
    if found is None or not found["rows"]:
        return []
    theirs, ours = metrics["baselines"]["served"][measure], compared(metrics)[measure]
    line = f"your model {shown(measure, theirs)}, {name} {shown(measure, ours)}"
    if COST in compared(metrics):  # which decides
        more = found["difference"]["mean"]
        line += f"; yours costs {shown(COST, abs(more))} a row {'more' if more > 0 else 'less'}"
    sure = f"better with {found['difference']['confidence']:.0%} confidence"
    if found["better"] is None:
        return [f"{line}; neither is {sure}"]
    return [f"{line}; {name if found['better'] == 'model' else 'yours'} is {sure} since row {found['since']:,}"]


def _rare(metrics: Scores) -> dict[str, Scores]:
    """The classes with fewer than RARE_SHARE of the rows, the rarest first."""
    found = metrics["overall"].get("per_class") or {}
    total = sum(one["support"] for one in found.values())
    rare = [(name, one) for name, one in found.items() if 0 < one["support"] < RARE_SHARE * total]
    return dict(sorted(rare, key=lambda each: each[1]["support"]))


def not_beaten(entrant: Entrant) -> list[str]:
    """The baselines that are at least as good as an algorithm, each with its score."""
    measure = entrant.measure
    return [
        f"{name} ({measure.replace('_', ' ')} {shown(measure, found[measure])})"
        for name, found in _baselines(entrant.metrics).items()
        if name != "served" and found.get(measure) is not None and _loss(found, measure) <= entrant.loss
    ]


def notes(entrants: Sequence[Entrant], costs: Mapping[str, float]) -> list[str]:
    """Warn if the best algorithm does not beat a baseline, misses a rare class or ties, or if a cost has no rows."""
    best, metrics = entrants[0], entrants[0].metrics
    warnings = [f"{best.line} is no better than {baseline}" for baseline in not_beaten(best)]
    found = metrics["overall"].get("per_class") or {}
    rows = sum(one["support"] for one in found.values())
    if best.measure != COST:
        for name, one in _rare(metrics).items():
            if (one["recall"] or 0) < RECALL_LOW:
                cost, how = min(round((rows - one["support"]) / one["support"]), COST_MAX), ""
                if _told_apart(metrics["overall"], one, rows):
                    how = f"; {shlex.join(['--cost', f'{name}={cost}'])} makes missing one {cost} times as costly"
                warnings.append(f"{best.line} finds only {one['recall'] or 0:.1%} of the rows labelled `{name}`{how}")
        if tied := _tied(entrants):
            names = ", ".join(shortened(tied, TIES_SHOWN))
            warnings.append(f"{best.line} is not distinguishable from {names}: the interval contains 0")
    seen = [name for name, one in found.items() if one["support"]]
    unknown = [name for name in costs if name not in seen] if len(found) <= CLASSES_NAMED else []
    warnings += [f"no row is labelled `{name}`: its cost has no effect{suggested(name, seen)}" for name in unknown]
    return warnings


def _told_apart(overall: Scores, one: Scores, rows: int) -> bool:
    """Whether a class is told apart from others, so that a cost finds more of its rows at less than a constant's."""
    if overall.get("roc_auc") is not None:
        return bool(overall["roc_auc"] >= AUC_MIN)
    found, precision = one["recall"] or 0, one["precision"] or 0
    enough = found >= FOUND_MIN and found * one["support"] >= HITS_MIN
    return enough and bool(precision * rows >= 2 * one["support"])


def _tied(entrants: Sequence[Entrant]) -> list[str]:
    """The entrants that may be as good as the best; only differences from the model's own algorithm are known."""
    best = entrants[0].difference
    pairs = [(one.line, one.difference or best) for one in entrants[1:] if None in (best, one.difference)]
    return [line for line, found in pairs if found and found["low"] is not None and found["low"] <= 0 <= found["high"]]
