"""One feature space and what learns in it: rows are encoded, then learned by an expert (core.switching.expert).

    raw (n, F)  --encoder-->  X (n, D)  --expert-->  Prediction

A machine in a steady phase is one pipeline. Its state machine is the parts', row by row: a row is absorbed by encoder
and expert once, in that order. Weights are told on X, so that clients never see the scale.
"""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Floats, Header, Learner, Prediction, Weights
from core.features import Encoder, Schema, Space
from core.features.scaling import Scaler
from core.state.nesting import flatten, unflatten
from core.switching.expert import Expert


class Pipeline:
    """Encoder and expert of one feature space.

    Args:
        config: the model's configuration.
        schema: the feature space.
        encoder, expert: those of the space where there are some already; else new ones.

    Attributes:
        schema, encoder, expert: the parts.
        phase: "steady".
    """

    phase = "steady"

    def __init__(
        self, config: Config, schema: Space, encoder: Encoder | None = None, expert: Expert | None = None
    ) -> None:
        self.schema = schema
        self.encoder = encoder or Encoder(schema, config.missing)
        self.expert = expert or Expert(config, schema.columns, schema.ranges)

    @property
    def columns(self) -> tuple[str, ...]:
        """What a recovery from another space has to give: the expert's own columns."""
        return self.expert.columns

    def to_own_columns(self, X: Floats) -> Floats:
        """Encoded rows (n, D) as ``columns``."""
        return self.expert.to_own_columns(X)

    def predict_from_columns(self, Y: Floats) -> Prediction:
        """Predict rows given as ``columns``; changes nothing."""
        return self.expert.with_input_mapping(None).predict(Y)

    def merge(self) -> "Pipeline":
        """The one model that goes on: itself."""
        return self

    @property
    def learner(self) -> Learner:
        """The expert's learner."""
        return self.expert.learner

    @property
    def scaler(self) -> Scaler | None:
        """The expert's scaler."""
        return self.expert.scaler

    @property
    def feedback_schema(self) -> Space:
        """The space of feedback rows."""
        return self.schema

    @property
    def next_schema(self) -> Schema | None:
        """No other space is on its way."""
        return None

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F); changes nothing."""
        return self.expert.predict(self.encoder.encode(raw))

    def absorb(self, raw: Floats) -> Floats:
        """Encode raw rows (n, F) that are about to be learned, each by the rows before it: X (n, D)."""
        return self.encoder.absorb(raw)

    def learn(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on encoded rows (n, D) as ``absorb`` gave them; the predictions made before each row.

        Args:
            X: encoded rows.
            truth: class indices (n,), all below the number of classes, or numbers (n,).
            discounts: (n,) or None.
        """
        return self.expert.learn(X, truth, discounts)

    def learn_new_class(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on one encoded row whose class the learner has not seen: it is tested without it."""
        return self.expert.learn_new_class(X, truth, discounts)

    def add_class(self) -> None:
        """One more class, which no row is learned of now."""
        self.expert.learner.add_class()

    def reset_learner(self, classes: int) -> None:
        """The learner back in its first state, with so many classes; encoder and scaling go on."""
        self.expert.reset_learner(classes)

    def forget(self) -> None:
        """The learner trusts its past less, where it can."""
        self.expert.forget()

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the learner's own tests, of the rows just learned."""
        return self.expert.take_alarms()

    def watched(self, X: Floats) -> Floats:
        """The columns of the space in force, of rows as ``absorb`` gave them."""
        return X

    def weights(self) -> Weights | None:
        """The linear model in use over the encoded columns, or None."""
        return self.expert.weights()

    def explain(self, raw: Floats) -> Header | None:
        """What a learner without weights knows about one raw row (1, F); None where it has nothing to say."""
        return self.expert.explain(self.encoder.encode(raw))

    def info(self) -> Header:
        """What a person wants to see of the learner."""
        return self.expert.learner.info()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.encoder.nbytes + self.expert.nbytes

    def classes_differ(self, classes: int) -> bool:
        """Whether the learner knows another number of classes."""
        return self.expert.classes_differ(classes)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the parts, each under its name."""
        return flatten(self._parts())

    def _parts(self) -> dict[str, Any]:
        return {"encoder": self.encoder, **self.expert.parts()}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave; after an error the pipeline is of no use.

        Raises:
            ValueError: not a state of this space and configuration.
        """
        unflatten(self._parts(), arrays, header)
