r"""Why a model makes a prediction: how much each feature of a row contributes to the score of the answer.

The score is what clients see: the number, or the log odds ln(q / (1 - q)) of the predicted class against the rest, with
its calibrated probability q. The background is the mean m of a sample of the learned rows (core.features.row_sample).
Contributions add up to the score minus the ``base``, which is the score of m.

A feature's columns count as one. Lag columns count by feature and lag: ``load (t-1)``.

**Linear learners**, of numbers and of two classes: calibration turns the learner's linear score s into f = g(s). Along
the straight line from m to x each column contributes

    phi_j = w_j (x_j - m_j) (f(x) - f(m)) / (s(x) - s(m))

which are the Shapley values of s in units of f. ``ga2m`` has a sum over features and pairs instead of s; with the
Shapley values of that sum, phi is scaled in the same way. Everything else is explained by Shapley values of f
(core.numerics.shapley).

Source: the line: Aumann, Shapley: Values of Non-Atomic Games, 1974; Sundararajan, Taly, Yan: Axiomatic Attribution for
Deep Networks, ICML 2017.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from core.contract import Floats, Header, Ints, Prediction
from core.features import Schema, SparseSchema
from core.features.labels import key
from core.model.model import LearnerParts
from core.numerics.rows import column_means
from core.numerics.shapley import shapley_values
from core.switching.space_model import SpaceModel

CONTRIBUTION_MAX = 1e300  # contributions are capped here: a huge weight times a huge value is larger than any number
_SHARE_MIN = 1e-300
_CANCELS = 1e-6


class Explanation(NamedTuple):
    """Contributions by feature, then by lagged feature; together with ``base`` they add up to the score."""

    base: float
    contributions: dict[str, float]
    sampled: bool  # whether the score is not a sum over features, so that contributions come from evaluations
    values: dict[str, float | None]  # of lagged features of one column, else None; clients know the others


def explain(parts: LearnerParts, raw: Floats) -> Explanation:
    """The explanation of the answer for one raw row (1, F) of ``prediction_schema``, not of sparse rows.

    ``RuntimeError`` if there is no feature space yet.
    """
    space = parts.space_model
    X = space.encode(raw)
    groups, background = feature_groups(space), _background(space, X[0])
    phi, base, sampled = _contributions(parts, X[0], [*groups.values()], background)
    lags = [*groups.items()][len(space.schema.names) :]
    values = {name: float(X[0, own[0]]) if len(own) == 1 else None for name, own in lags}
    return Explanation(base, dict(zip(groups, phi.tolist(), strict=True)), sampled, values)


def explain_sparse(parts: LearnerParts, psi: Floats, values: Mapping[str, float]) -> Explanation:
    """The explanation of a row of names and values, whose projection is psi (1, d); absent names are 0.

    With more than two classes, contributions follow the gradient of the score at this row.
    """
    space = parts.space_model
    assert isinstance(space.schema, SparseSchema)
    f = _Score(parts, psi)
    weights, found = space.weights(), dict.fromkeys(values, 0.0)
    w = None if weights is None else _direction(parts, weights.coefficients, psi, f.k)
    score, without = f(np.vstack([psi, np.zeros_like(psi)])).tolist()
    if w is not None:
        linear = space.schema.projection.contributions(values, w)
        total = sum(linear.values())
        slope = (score - without) / total if total and len(parts.labels) < 3 else 1.0
        found = {name: _capped(slope * part) for name, part in linear.items()}
    return Explanation(score - sum(found.values()), found, False, {})


def effects(parts: LearnerParts) -> tuple[dict[str, float], int]:
    """The mean absolute contribution of each feature over the sample, and the number of its rows."""
    space = parts.space_model
    rows = np.empty((0, 0)) if space.sample is None else space.sample.held
    groups = feature_groups(space)
    total = np.zeros(len(groups))
    for x in rows:
        phi, _, _ = _contributions(parts, x, [*groups.values()], _background(space, x))
        total += np.abs(phi) / len(rows)
    return dict(zip(groups, total.tolist(), strict=True)), len(rows)


def experts(parts: LearnerParts, raw: Floats) -> Header:
    """What the experts of ``auto`` predict for one raw row, or the densities of VIGO's classes; {} for others."""
    space = parts.space_model
    found = space.likeliest.explain_encoded(space.encode(raw))
    if found is None:
        return {}
    labels = parts.labels.labels
    if (said := found.get("experts")) is not None:
        names = [key(label) for label in labels]
        for one in said:
            if "probabilities" in one:
                one["probabilities"] = dict(zip(names, one["probabilities"], strict=True))
        return {"experts": said}
    ambiguity = found["ambiguity"]
    if ambiguity is not None:
        ambiguity = {**ambiguity, "nearest": labels[ambiguity["nearest"]]}
    return {"densities": {**found, "classes": [labels[at] for at in found["classes"]], "ambiguity": ambiguity}}


def feature_groups(space: SpaceModel) -> dict[str, Ints]:
    """The columns of each feature by its name, then those of each lagged feature and label."""
    schema, found = space.schema, dict[str, list[int]]()
    assert isinstance(schema, Schema)
    owners = {column: feature.name for feature in schema.features for column in feature.columns}
    for place, name in enumerate(space.row_columns):
        column, _, lag = name.rpartition(" (t-")
        lagged = f"{owners.get(column, column)} (t-{lag.partition(')')[0]})"
        found.setdefault(owners[name] if place < schema.width else lagged, []).append(place)
    return {name: np.array(own, np.int64) for name, own in found.items()}


def _background(space: SpaceModel, x: Floats) -> tuple[Floats, Floats]:
    """Mean and spread (D,) of the sample's columns; the row itself if no row has been learned."""
    if space.sample is None or not len(space.sample.held):
        return x, np.ones_like(x)
    rows = space.sample.held
    with np.errstate(over="ignore", invalid="ignore"):
        mean = 2.0 * column_means(rows / 2.0)  # differences of halves do not overflow
        return mean, np.nan_to_num(np.sqrt(((rows - mean) ** 2).mean(axis=0)))


class _Score:
    """The score of the answer for an encoded row x (1, D), as a function of rows (n, D): numbers, or log odds (n,).

    ``k``: the index of the answer's label, whose log odds these are; -1 without an answer.
    """

    def __init__(self, parts: LearnerParts, x: Floats) -> None:
        self._parts, self._space = parts, parts.space_model
        self.k = 0 if parts.regression else int(self._answers(x).value[0])

    def __call__(self, X: Floats) -> Floats:
        found = self._answers(np.ascontiguousarray(X))
        if self._parts.regression:
            return np.asarray(found.value, np.float64)
        if found.probabilities is None or self.k < 0:
            return np.zeros(len(X))
        return _log_odds(found.probabilities[:, self.k])

    def _answers(self, X: Floats) -> Prediction:
        return self._parts.answers.of(self._space.predict_encoded(X))

    def own(self, X: Floats) -> Floats:
        """The learner's own score, neither held nor calibrated; with two classes, that of the second one."""
        found = self._space.predict_encoded(np.ascontiguousarray(X))
        if found.probabilities is None:
            return np.asarray(found.value, np.float64)
        return _log_odds(found.probabilities[:, 1])


def _log_odds(q: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(q, _SHARE_MIN)) - np.log(np.maximum(1.0 - q, _SHARE_MIN)))


def _contributions(
    parts: LearnerParts, x: Floats, groups: list[Ints], background: tuple[Floats, Floats]
) -> tuple[Floats, float, bool]:
    """Contributions (d,) of groups of columns of a row x (D,), the base, and whether they were sampled."""
    space = parts.space_model
    f = _Score(parts, x[None])
    steady, two = space.mixture is None, parts.regression or len(parts.labels) == 2
    weights = space.weights() if steady else None
    pairwise = steady and getattr(space.own.learner, "pairwise", False)
    if two and (weights is not None or pairwise):
        if weights is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                single = np.nan_to_num(weights.coefficients[-1] * (x - background[0]))
                own = np.array([_capped(float(single[group].sum())) for group in groups])
        else:
            own = shapley_values(f.own, x, background, groups, pairwise=True)
        phi = _in_units_of(f, own, x, background[0], groups)
        sampled = False
    else:
        phi = shapley_values(f, x, background, groups, parts.config.seed)
        sampled = weights is None and not pairwise
    phi = np.clip(np.nan_to_num(phi), -CONTRIBUTION_MAX, CONTRIBUTION_MAX)
    return phi, float(f(x[None])[0]) - float(phi.sum()), sampled


def _in_units_of(f: _Score, own: Floats, x: Floats, m: Floats, groups: list[Ints]) -> Floats:
    """Rescale contributions (d,) to the learner's own score to contributions to f, which is a function of it.

    If they cancel, the change of f divided by their sum says nothing; then the positive ones alone give the scale.
    """
    part, row = own, x
    if abs(own.sum()) <= _CANCELS * np.abs(own).sum():
        part, row = np.maximum(own, 0.0), m.copy()
        for group, value in zip(groups, part.tolist(), strict=True):
            if value > 0.0:
                row[group] = x[group]
    if not part.any():
        return np.zeros(len(own))
    before, after = f(np.vstack([m, row])).tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(own / part.sum() * (after - before))


def _direction(parts: LearnerParts, coefficients: Floats, psi: Floats, k: int) -> Floats | None:
    """The weights (d,) of the score of label k; with several classes, the score's gradient at this row."""
    if parts.regression:
        return np.asarray(coefficients[0])
    label = parts.answers.labels.labels[k] if k >= 0 else None
    c = -1 if label is None else parts.labels.index(label)
    if c < 0:
        return None
    shares = parts.space_model.predict_encoded(psi).probabilities
    if shares is None:
        return np.asarray(coefficients[c])
    others = np.delete(shares[0], c) / max(1.0 - shares[0, c], _SHARE_MIN)
    return np.asarray(coefficients[c] - others @ np.delete(coefficients, c, axis=0))


def _capped(value: float) -> float:
    return float(min(max(np.nan_to_num(value), -CONTRIBUTION_MAX), CONTRIBUTION_MAX))
