"""Reading a model between two entries: predictions, weights, metrics, summaries.

Reading changes nothing. Functions about one learner take its parts: the model's own, or a challenger's.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Self

import numpy as np
from msgspec.structs import replace

from core.config import Config
from core.contract import Floats, Header, Label, Prediction, Task, Weights
from core.drift.outbox import NO_ALARM
from core.entry import ServedPrediction
from core.features import Schema
from core.features.labels import LabelSet, key
from core.metrics import Quality
from core.metrics.prequential import number
from core.model.class_answers import ClassAnswers
from core.model.model import LearnerParts, Model
from core.model.number_answers import NumberAnswers
from core.problems import Conflict

FESL = ("fesl_c", "fesl_s")  # algorithms whose experts are those of a change of features
REWOUND = ("reset", "restore", "import")  # marks from which on the model has other rows than before

# ---------------------------------------------------------------- predictions


def predict(parts: LearnerParts, raw: Floats) -> Prediction:
    """Predict raw rows (n, F) of ``prediction_schema``, classes in terms of ``answers.labels``.

    ``RuntimeError`` if there is no feature space yet, ``Conflict`` for an observer.
    """
    refuse_observer(parts.config)
    return parts.answers.of(parts.space_model.predict(raw))


def judge(parts: LearnerParts, raw: Floats, labels: Sequence[Label] | Floats) -> tuple[Prediction, Floats]:
    """``predict``, and the probability of each row's label (n,) as learning the row would score it; NaN for numbers."""
    refuse_observer(parts.config)
    made, answers = parts.space_model.predict(raw), parts.answers
    answered = answers.of(made)
    if isinstance(labels, np.ndarray):
        return answered, np.full(len(raw), np.nan)
    assert isinstance(answers, ClassAnswers)
    assert answered.probabilities is not None
    return answered, answers.p_true(made, answered.probabilities, labels)


def refuse_observer(config: Config) -> None:
    """``Conflict`` if a model of this configuration never predicts."""
    if config.algorithm.observes:
        raise Conflict("an observer predicts nothing: it judges what another model predicts")


def predict_to_keep(model: Model, raw: Floats) -> tuple[Prediction, list[ServedPrediction]]:
    """Predict raw rows (n, F) that will be tracked, with all learners, each row as the next one."""
    prediction, learners = predict(model.own, raw), [one.parts for one in model.challengers.values()]
    theirs, kept = [predict(parts, raw) for parts in learners], list[ServedPrediction]()
    for row in range(len(raw)):
        returned = returned_prediction(model.own, prediction, row)
        if learners:
            both = zip(learners, theirs, strict=True)
            returned = replace(returned, challengers=tuple([returned_prediction(*one, row) for one in both]))
        kept.append(returned)
    return prediction, kept


def returned_prediction(parts: LearnerParts, prediction: Prediction, row: int) -> ServedPrediction:
    """One row of a prediction as a client receives it, with the present predictions of the baselines."""
    model = parts.switching.in_force
    # the lag columns of the next row: a row that is predicted now will be learned with them
    lags = None if model is None or model.lags is None else model.lags.now()
    past = None if model is None or model.remembering is None else model.remembering.past(prediction, row)
    label, probabilities, baselines, interval, scored = parts.answers.returned(prediction, row)
    more = {"by": parts.learner_id, "scored": scored, "past": past}
    return ServedPrediction(label, probabilities, baselines, interval, lags, **more)


def intervals_of(parts: LearnerParts, prediction: Prediction, level: float) -> Floats | None:
    """The intervals of a regression around n predictions, (n, 2), low and high; None: too few rows were scored.

    ``prediction``: made now; ``level``: the share of labels to cover, above 0 and at most ``core.contract.LEVEL_MAX``.
    """
    assert isinstance(parts.answers, NumberAnswers)
    return parts.answers.intervals.around(prediction.value, level)


def labels_in_use(parts: LearnerParts) -> LabelSet:
    """The labels that a classifier can predict: those that are not retired."""
    assert isinstance(parts.answers, ClassAnswers)
    return parts.answers.in_use


def probabilities(parts: LearnerParts, prediction: Prediction) -> tuple[LabelSet, Floats | None]:
    """The labels that are not retired, and their probabilities (n, K) in a prediction of a classifier."""
    assert isinstance(parts.answers, ClassAnswers)
    shares = prediction.probabilities
    return parts.answers.in_use, None if shares is None else parts.answers.shares_in_use(shares)


# ---------------------------------------------------------------- the learner


def weights(parts: LearnerParts) -> Weights | None:
    """The current linear model over the encoded columns, or None; with several experts, their mean."""
    model = parts.switching.in_force
    return None if model is None else model.weights()


def weight_deviations(parts: LearnerParts) -> Floats | None:
    """Standard deviations of ``weights`` (m, D); None if the learner has none, or if there are several experts."""
    model = parts.switching.in_force
    return None if model is None or model.mixture is not None else model.own.weight_deviations()


def posterior(model: Model, features: Collection[str] | None = None, *, diagonal: bool = False) -> Header:
    """What the learner holds; numbers may be arrays (core.learners.posterior).

    ``features`` names those whose columns are shown; None: all. With ``diagonal``, only the diagonals of matrices are
    included. ``RuntimeError`` if there is no feature space yet.
    """
    parts, wanted = model.own, None
    space = parts.space_model
    if features is not None:
        declared = [feature for feature in space.schema.features if feature.name in features]
        own = [column for feature in declared for column in feature.columns]
        encoded, columns = len(space.schema.columns), parts.row_columns
        unlagged = (*columns[:encoded], *(name.rpartition(" (t-")[0] for name in columns[encoded:]))
        wanted = {name for name, column in zip(columns, unlagged, strict=True) if column in own}
    outputs = ["value"] if parts.regression else [key(label) for label in model.labels.labels]
    shares = [1.0] if space.mixture is None else space.mixture.weights.tolist()
    held = [one.posterior(wanted, outputs, diagonal) for one in space.experts.values()]
    known = [*zip(space.experts, shares, held, strict=True)]
    if model.config.algorithm_id in FESL:
        experts = [{"name": name, "share": share, **own} for name, share, own in known]
    elif space.mixture is None:
        return held[0]
    else:
        experts = [{"name": name, "share": share, "posterior": own} for name, share, own in known]
    return {"experts": experts, "mapping_error": parts.switching.mapping_error}


def linear_share(parts: LearnerParts) -> float | None:
    """After a change of features, the total weight of the experts averaged by ``weights``; else None."""
    model = parts.switching.in_force
    return None if model is None else model.linear_share


def feature_means(parts: LearnerParts) -> dict[str, float]:
    """Means of numeric and boolean features, over the rows in the windows of the drift test of class means.

    Empty without such a test (or if the learner runs it itself), without rows, or in a space without features.
    """
    means = None if parts.drift_response is None else parts.drift_response.detector.column_means()
    schema = None if parts.switching.now is None else parts.switching.now.schema
    if means is None or not isinstance(schema, Schema):
        return {}
    known = dict(zip(schema.columns, means.tolist(), strict=False))  # lag columns follow the schema's columns
    return {name: known[name] for name in schema.names if name in known}


def learner_info(parts: LearnerParts) -> Header:
    """The learner's own report."""
    model = parts.switching.in_force
    return {} if model is None else model.info()


def info(model: Model) -> Header:
    """Facts about the model: its features, its labels, its size, and its learner's report."""
    schema, own = model.prediction_schema, model.own
    features = [] if schema is None else [feature.to_json() for feature in schema.features]
    labels = list(model.labels.labels)
    found = {"features": features, "labels": labels, "state_bytes": model.nbytes, **learner_info(own)}
    if own.rows_before_start:  # the learner has not learned all rows of the model
        found["learner_rows"] = own.metrics.rows
    if own.answers.retired:
        found["retired_labels"] = [*own.answers.retired]
    unknown = unknown_categories(model)
    return {**found, "unknown": unknown} if unknown else found


def unknown_categories(model: Model) -> dict[str, int]:
    """Number of undeclared values of each feature with declared categories."""
    schema = model.prediction_schema
    names = () if schema is None else [schema.names[column] for column in schema.exact]
    return {name: model.unknown.get(name, 0) for name in names}


# ---------------------------------------------------------------- scores


def metrics_report(model: Model) -> Header:
    """The prequential metrics of the model; ``rows`` continue through promotions."""
    found = {**learner_metrics(model.own), "rows": model.rows}
    if model.due_rows or model.config.labels_due is not None:
        found["due_rows"] = model.due_rows
    if model.outside is not None:  # a baseline in each span, and the comparison
        figures = model.outside.figures(model.regression)
        found["baselines"]["served"] = figures["overall"]
        for span in ("window", "fading"):
            found[span]["baselines"]["served"] = figures[span]
        found["served"] = model.outside.report(model.config.cost_max)
    return found


def learner_metrics(parts: LearnerParts) -> Header:
    """The prequential metrics, with classes as labels; for regression also the coverage of its intervals.

    ``rows`` are those that this learner has scored; points and marks have the row numbers of the model.
    """
    found = parts.answers.report()
    if before := parts.rows_before_start:
        found["history"] = [{**point, "row": point["row"] + before} for point in found["history"]]
    return found


def quality(parts: LearnerParts) -> Quality:
    """How well the learner has done in the window of its metrics."""
    return parts.metrics.quality(parts.answers.costs)


def coverage(parts: LearnerParts) -> Header:
    """The share of labels in the window covered by the intervals of a regression, by level; {} for classification."""
    return parts.answers.intervals.spans()[1] if isinstance(parts.answers, NumberAnswers) else {}


class LastDrift(NamedTuple):
    """The newest drift event in the rows of a model, by its first alarm."""

    row: int
    time_ms: int
    kind: str
    label: Label | None  # the class whose rows were compared; None for regression


class Summary(NamedTuple):
    """A model in one line."""

    algorithm: str
    task: Task
    rows: int | None  # rows learned; None if only the configuration of the model is known
    score: float | None  # overall accuracy, or mean squared error; None before the first row
    baseline: float | None  # score of the best baseline; None if none has predicted a row yet
    phase: str  # of a change of features: "steady", "overlap" or "ensemble"
    drift: LastDrift | None = None
    challengers: int = 0
    ahead: int = 0  # challengers that are better: the interval of the paired difference lies above 0
    mean_cost: float | None = None  # mean cost per row of the model's predictions, by its ``class_costs``
    baseline_cost: float | None = None  # mean cost of the cheapest constant prediction
    paired_score: float | None = None  # score of a regression on the baseline's rows, for comparing the two
    recent: tuple[float, ...] = ()  # accuracy, or mean squared error, of the window in the last points of the history
    error: float | None = None  # in the window: the share of wrong rows, mean cost, or mse on the baseline's rows
    baseline_error: float | None = None  # the same of the best baseline

    @classmethod
    def first(cls, config: Config) -> Self:
        """The summary of an untrained model, without building it."""
        return cls(config.algorithm_id, config.task, 0, None, None, "steady")


def summary(model: Model) -> Summary:
    """The summary of a model for the list of models."""
    config, k, own = model.config, len(model.challengers), model.own
    error, baseline = map(number, own.metrics.window_errors(own.answers.costs))
    return Summary(
        *(config.algorithm_id, config.task, model.rows),
        phase=model.phase,
        drift=_last_drift(model),
        challengers=k,
        ahead=sum([one.difference.interval(k)[0] > 0 for one in model.challengers.values()]),
        recent=own.metrics.recent(),
        error=error,
        baseline_error=baseline,
        **own.metrics.headline(own.answers.costs),
    )


def _last_drift(model: Model) -> LastDrift | None:
    """The newest drift event; after a reset or restore, the newest that has a mark in the metrics of a learner.

    The outbox also keeps events of rows that the model no longer has, and new rows reuse the numbers of those rows.
    """
    found = model.outbox.after(NO_ALARM)
    if found and model.own.metrics.rows_marked(*REWOUND):
        rows = {row for parts in model.learners for row in parts.metrics.rows_marked("drift")}
        found = [drift for drift in found if drift.row in rows]
    return LastDrift(found[-1].row, found[-1].time_ms, found[-1].kind, found[-1].label) if found else None
