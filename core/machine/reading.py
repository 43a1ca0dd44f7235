"""What can be read of a model and changes nothing: predictions, weights, where it stands in a change of features."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats, Header, Prediction, Weights
from core.entry import ServedPrediction
from core.features import Feature, Schema, Space
from core.features.labels import LabelSet
from core.switching.feature_recovery import Kind
from core.switching.phases import Phase, Switching


class Readable:
    """The readers of ``core.machine.Machine``.

    Attributes:
        config: the model's configuration.
        labels: the classes seen.
        switching: the feature spaces and what reads and learns their rows.
    """

    config: Config
    labels: LabelSet
    switching: Switching

    @property
    def pipeline(self) -> Phase | None:
        """What reads and learns rows in this phase, or None until the first row fixes the features."""
        return self.switching.now

    @property
    def prediction_schema(self) -> Space | None:
        """The feature space that predictions are made in, or None until the first row fixes it."""
        return None if self.pipeline is None else self.pipeline.schema

    @property
    def feedback_schema(self) -> Space | None:
        """The feature space that feedback rows come in: the union of both in an overlap period, else ``schema``."""
        return None if self.pipeline is None else self.pipeline.feedback_schema

    @property
    def next_schema(self) -> Schema | None:
        """The feature space that a change of features leads to, or None."""
        return None if self.pipeline is None else self.pipeline.next_schema

    @property
    def spaces(self) -> dict[str, Space]:
        """Every feature space, by id, in which rows are accepted for learning."""
        return self.switching.spaces

    @property
    def phase(self) -> str:
        """Where the model stands in a change of features: "steady", "overlap" or "ensemble"."""
        return "steady" if self.pipeline is None else self.pipeline.phase

    @property
    def overlap_rows(self) -> int:
        """Rows that have taught the mapping of the change under way, or of the last one."""
        return self.switching.overlap_rows

    @property
    def mapping_error(self) -> float | None:
        """Its relative squared error on the latest rows, before each was learned; or None."""
        return self.switching.mapping_error

    @property
    def ensemble(self) -> list[Header] | None:
        """The experts after a change, each with ``expert``, ``weight`` and cumulative ``loss``; else None."""
        return self.switching.report()

    def parse_next(self, raw: object, field: str = "features") -> tuple[Feature, ...]:
        """The features of a space that is to follow the one in force, as a client declares them.

        Raises:
            Conflict: none can begin now; saying what is under way.
            Invalid: naming the field.
        """
        return self.switching.parse_next(raw, field)

    def bytes_to_begin(self, features: Sequence[Feature], mapping: Kind | None) -> int:
        """Bytes of memory that a change to these features will take at most beside what is held now."""
        return self.switching.bytes_to_begin(features, mapping)

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F) of the current space; changes nothing.

        Raises:
            RuntimeError: the space is not fixed yet (callers ask ``schema`` first).
        """
        if self.pipeline is None:
            raise RuntimeError("no feature space yet")
        return self.pipeline.predict(raw)

    def served(self, prediction: Prediction, row: int) -> ServedPrediction:
        """One row of a prediction as a client receives it."""
        if self.config.task == "regression":
            return ServedPrediction(float(prediction.value[row]))
        if prediction.value[row] < 0:
            return ServedPrediction(None)
        shares = prediction.probabilities
        pairs = None if shares is None else tuple(zip(self.labels.labels, shares[row].tolist(), strict=True))
        return ServedPrediction(self.labels.labels[prediction.value[row]], pairs)

    def named(self, values: NDArray[Any]) -> list[Any]:
        """Predicted values in the client's terms: labels, None before the first class, or numbers."""
        if self.config.task == "regression":
            return list(values.tolist())
        labels = self.labels.labels
        return [labels[index] if index >= 0 else None for index in values.tolist()]

    def weights(self) -> Weights | None:
        """The linear model in use over the encoded columns, or None."""
        return None if self.pipeline is None else self.pipeline.weights()

    def explain(self, raw: Floats) -> Header | None:
        """What a learner without weights knows about one raw row (1, F), classes as their labels.

        None where it has nothing to say; weights explain a linear one.
        """
        found = None if self.pipeline is None else self.pipeline.explain(raw)
        if found is None:
            return None
        labels, ambiguity = self.labels.labels, found["ambiguity"]
        if ambiguity is not None:
            ambiguity = {**ambiguity, "nearest": labels[ambiguity["nearest"]]}
        return {**found, "classes": [labels[index] for index in found["classes"]], "ambiguity": ambiguity}

    def learner_info(self) -> Header:
        """What the learner says of itself."""
        return {} if self.pipeline is None else self.pipeline.info()
