"""What is read of a model between two entries: predictions, weights, explanations, metrics, summaries.

Reading changes nothing.
"""

from typing import Any

from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction, Weights
from core.entry import ServedPrediction
from core.features import Schema
from core.metrics import Quality, RegressionMetrics
from core.model.estimates import Estimates
from core.model.summary import Summary
from core.switching.ensemble import Ensemble


class Readings(Estimates):
    """The state of one model with everything that can be read of it."""

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F) of ``prediction_schema``, classes in terms of ``answers.said``; changes nothing.

        Raises:
            RuntimeError: the space is not fixed yet.
        """
        if self.switching.in_force is None:
            raise RuntimeError("no feature space yet")
        prediction = self.switching.in_force.predict(raw)
        if self.label_range is None:
            return self.answers.of(prediction, self.rows)
        self.label_range.hold(prediction.value)
        return prediction

    def served(self, prediction: Prediction, row: int) -> ServedPrediction:
        """One row of a prediction as a client receives it, with what the baselines of the metrics say now."""
        made = self._lags(), self.born
        if isinstance(self.metrics, RegressionMetrics):
            assert self.intervals is not None
            value = float(prediction.value[row])
            return ServedPrediction(value, None, self.metrics.baselines(), self.intervals.served(value), *made)
        labels = self.answers.said.labels
        said = tuple(labels[index] if index >= 0 else None for index in self.metrics.baselines())
        if prediction.value[row] < 0:
            return ServedPrediction(None, None, said, None, *made)
        shares = prediction.probabilities
        pairs = None if shares is None else tuple(zip(labels, shares[row].tolist(), strict=True))
        return ServedPrediction(labels[prediction.value[row]], pairs, said, None, *made)

    def _lags(self) -> tuple[float, ...] | None:
        """The lag columns of the next row, which a row that is predicted now will be learned with; None: no lags."""
        model = self.switching.in_force
        return None if model is None or model.lags is None else model.lags.now()

    def encoded(self, raw: Floats) -> Floats:
        """Raw rows (n, F) of ``prediction_schema`` as ``row_columns`` (n, D), each as the next one; changes nothing."""
        assert self.switching.in_force is not None
        return self.switching.in_force.encode(raw)

    def intervals_of(self, prediction: Prediction, level: float) -> Floats | None:
        """The intervals of a regression around n predictions, (n, 2), low and high; None: too few rows were scored.

        Args:
            prediction: made now.
            level: the share of labels to cover, above 0 and at most ``core.intervals.levels.LEVEL_MAX``.
        """
        assert self.intervals is not None
        return self.intervals.around(prediction.value, level)

    def named(self, values: NDArray[Any]) -> list[Any]:
        """Predicted values in the client's terms: labels, None where none is known, or numbers."""
        if self.regression:
            return values.tolist()  # type: ignore[no-any-return]
        labels = self.answers.said.labels
        return [labels[index] if index >= 0 else None for index in values.tolist()]

    def weights(self) -> Weights | None:
        """The linear model in use over the encoded columns, or None; of several experts their mean."""
        model = self.switching.in_force
        return None if model is None else model.weights()

    def linear_share(self) -> float | None:
        """After a change of features the weight of the experts that ``weights`` is the mean of; else None."""
        model = self.switching.in_force
        return model.linear_share if isinstance(model, Ensemble) else None

    def explain(self, raw: Floats) -> Header | None:
        """What a learner without weights knows about one raw row (1, F), classes as their labels.

        None where it has no explanation; a linear learner is explained by its weights.
        """
        model = self.switching.in_force
        found = None if model is None else model.explain(raw)
        if found is None:
            return None
        labels, ambiguity = self.labels.labels, found["ambiguity"]
        if ambiguity is not None:
            ambiguity = {**ambiguity, "nearest": labels[ambiguity["nearest"]]}
        return {**found, "classes": [labels[index] for index in found["classes"]], "ambiguity": ambiguity}

    def metrics_report(self) -> Header:
        """The prequential metrics, classes by their labels; of a regression also the coverage of its intervals.

        ``rows`` are those that this learner has scored; points and marks have the row numbers of the model.
        """
        if isinstance(self.metrics, RegressionMetrics):
            assert self.intervals is not None
            found = self.metrics.report()
            for span, coverage in zip(("overall", "window", "fading"), self.intervals.spans(), strict=True):
                found[span]["coverage"] = coverage
        else:
            said = self.answers.said
            found = self.metrics.report(said.labels, said.keys, self.answers.costs)
        if self.before:
            found["history"] = [{**point, "row": point["row"] + self.before} for point in found["history"]]
        return found

    def quality(self) -> Quality:
        """How well the model has done in the window of its metrics."""
        return self.metrics.quality(None if self.regression else self.answers.costs)

    def coverage(self) -> Header:
        """The share of labels in the window that the intervals of a regression covered, by level; {}: no regression."""
        return {} if self.intervals is None else self.intervals.spans()[1]

    def feature_means(self) -> dict[str, float]:
        """Means of numeric and boolean features, over the rows in the windows of the drift test of class means.

        Empty where there is no such test (also: the learner makes it itself), no row yet, or a space without features.
        """
        means = None if self.drift_response is None else self.drift_response.detector.column_means()
        schema = self.prediction_schema
        if means is None or not isinstance(schema, Schema):
            return {}
        known = dict(zip(schema.columns, means.tolist(), strict=False))  # lags stand behind the schema's columns
        return {name: known[name] for name in schema.names if name in known}

    def learner_info(self) -> Header:
        """What the learner reports of itself."""
        model = self.switching.in_force
        return {} if model is None else model.info()

    def summary(self) -> Summary:
        """What a list of models shows of this one."""
        costs = None if self.regression else self.answers.costs
        scores = self.metrics.headline(costs)
        return Summary(self.config.algorithm_id, self.config.task, self.rows, phase=self.phase, **scores)

    def info(self) -> Header:
        """What the model has become: its features, its labels, its size, and what its learner reports."""
        schema = self.prediction_schema
        features = [] if schema is None else [feature.to_json() for feature in schema.features]
        labels = list(self.labels.labels)
        found = {"features": features, "labels": labels, "state_bytes": self.nbytes, **self.learner_info()}
        if self.before:  # the learner has not learned all rows of the model
            found["learner_rows"] = self.rows - self.before
        unknown = self.unknown.report(schema)
        return {**found, "unknown": unknown} if unknown else found
