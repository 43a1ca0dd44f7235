r"""The phase after a switch: several experts over the rows of the new space, until the next switch merges them.

    recovered   the old model on recovered columns; it goes on learning
    new         a model of the new space, trained in the overlap
    carried     a learner of the new space that starts at the old model's weights M w1 (linear models only)

Least-squares learners are not carried: they find weights of their own within some tens of rows
(``python -m tests.benchmarks.fesl``).

core.switching.mixture combines the predictions and moves the experts' weights; core.switching.overlap sets
the first ones. Rows of the old space that were tracked before the switch still train the old model, whose scaler and
learner are the recovered expert's own.

**Merge.** In the overlap of the next change the experts go on predicting and learning as its old side. When it is
complete, linear models (core.contract.Transferable) become one: v = sum_k a_k v_k with v_recovered = M w1, a the
weights of the last prediction. Of other models the one with the largest weight is kept. If that is the recovered one,
its input mapping is kept too, and the next recovery goes straight from the newest space to what its learner reads.
Which one will be kept is unknown during the overlap, so the recovery learns the columns of both. The state is as large
after any number of switches as after two, and an abort leaves the experts as they would be without the overlap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Floats, Header, Ints, Prediction, Transferable, Weights
from core.features.schema import Schema
from core.state.envelope import Nested
from core.switching.feature_recovery import FeatureRecovery
from core.switching.expert import Expert, Given, Pipeline


class Ensemble(Nested):
    """Experts over one feature space, which feedback comes in as well.

    Args:
        old: the model of the space before.
        new: the model of this space.
        input_mapping: the recovery of the old model's columns, frozen.
        union: the space that rows of the overlap came in.
        names: which experts there are, in order: "new", and maybe "recovered" before and "carried" after it.
        weights: what they begin with, (E,); None: equal ones.
        first_row: absolute number of the first row.
    """

    phase = "ensemble"
    next_schema: Schema | None = None

    def __init__(
        self,
        config: Config,
        old: Pipeline,
        new: Pipeline,
        input_mapping: FeatureRecovery,
        union: Schema,
        names: tuple[str, ...],
        weights: Floats | None = None,
        first_row: int = 0,
    ) -> None:
        assert isinstance(new.schema, Schema)
        self.config, self.old, self.new, self.input_mapping, self.union = config, old, new, input_mapping, union
        self.schema = self.feedback_schema = new.schema
        self.encoder, self.lags, self.row_columns = new.encoder, new.lags, new.row_columns
        made: dict[str, Expert] = {"new": new}
        if "recovered" in names:
            made["recovered"] = old.with_input_mapping(input_mapping)
        if "carried" in names:
            made["carried"] = Expert(config, new.row_columns, new.row_ranges)
        self.experts = {name: made[name] for name in names}
        horizon = config.params.get("horizon") if input_mapping.paper else None
        if weights is None:
            weights = np.full(len(names), 1.0 / len(names))
        self._raise_alarms = bool(config.algorithm.own_tests(config.params))
        from core.switching.mixture import Mixture  # noqa: PLC0415  its kernels are loaded later, see core.model

        self.mixture = Mixture(weights, first_row, config.algorithm.selects, horizon, config.seed)

    def configure(self, config: Config) -> None:
        """Go on under another configuration: all experts, and the model of the space before."""
        self.config = config
        for expert in (self.old, *self.experts.values()):
            expert.configure(config)

    def begin(self, classes: int) -> None:
        """Start after a switch: the carried expert at the recovered one's weights, step sizes at their first values.

        The recovered one goes on, (7), as it was where its columns are an image of the new ones: nothing has changed.
        """
        if "carried" in self.experts:
            self._carry(classes)
        for name, expert in self.experts.items():
            if name != "recovered" or not self.input_mapping.exact:
                expert.restart()

    def _carry(self, classes: int) -> None:
        """Start the carried expert at the old one's weights and the new one's scale."""
        expert, weights = self.experts["carried"], self.experts["recovered"].weights()
        for _ in range(classes):
            expert.add_class()
        if expert.scaler is not None and self.new.scaler is not None:
            expert.scaler.load_arrays(*self.new.scaler.to_arrays())
        assert weights is not None
        expert.start_at(weights)

    @property
    def row_exact(self) -> bool:
        """Whether a block of rows is learned as its rows are one by one, bit for bit.

        Not where learners raise alarms: a block's are those of the expert with the largest weight after it.
        """
        return (
            not self._raise_alarms and self.old.row_exact and all(expert.row_exact for expert in self.experts.values())
        )

    # ---------------------------------------------------------------- the old side of the next change

    @property
    def _averages(self) -> bool:
        """Whether the experts are merged into an average of their weights, in the columns of the space."""
        return self.input_mapping.kind == "linear" and isinstance(self.new.learner, Transferable)

    @property
    def columns(self) -> tuple[str, ...]:
        """What a recovery from the next space has to give: the space's columns, and those the kept one may read."""
        return (*self.row_columns, *(self.input_mapping.targets[at] for at in self._foreign))

    @property
    def _foreign(self) -> Ints:
        """Which of the recovered expert's columns are none of the space's."""
        if self._averages or "recovered" not in self.experts:
            return np.empty(0, dtype=np.int64)
        return self.input_mapping.vanished

    def to_own_columns(self, X: Floats) -> Floats:
        """Encoded rows (n, D) as ``columns``."""
        foreign = self._foreign
        return np.hstack([X, self.input_mapping.recover(X)[:, foreign]]) if len(foreign) else X

    def predict_from_columns(self, Y: Floats) -> Prediction:
        """Predict rows given as ``columns``; changes nothing."""
        X = np.ascontiguousarray(Y[:, : len(self.row_columns)])
        return self.mixture.predict([expert.predict_encoded(X) for expert in self.experts.values()])

    def merge(self) -> Pipeline:
        """The one model that remains; see above."""
        kept = self._likeliest
        if self._averages and len(self.experts) > 1:
            shares, weights = self.shares(), self.weights()
            kept = self.experts[max((name for name in shares if name != "recovered"), key=shares.__getitem__)]
            if weights is not None:  # there are none before the first class
                kept.start_at(weights)
        return Pipeline(self.config, self.schema, self.encoder, kept, self.lags)

    def shares(self) -> dict[str, float]:
        """The experts' weights by name."""
        return dict(zip(self.experts, self.mixture.weights.tolist(), strict=True))

    def report(self) -> list[Header]:
        """The experts with their weights and cumulative losses."""
        losses = self.mixture.losses.tolist()
        return [
            {"expert": name, "weight": weight, "loss": loss}
            for (name, weight), loss in zip(self.shares().items(), losses, strict=True)
        ]

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows of the new space, each as the next one; changes nothing."""
        X = self.new.encode(raw)
        return self.mixture.predict([expert.predict_encoded(X) for expert in self.experts.values()])

    def encode(self, raw: Floats) -> Floats:
        """Raw rows of the new space as its columns, each as the next one; changes nothing."""
        return self.new.encode(raw)

    def absorb(self, raw: Floats, truth: NDArray[Any], told: Floats | None = None) -> Floats:
        """Encode raw rows of the new space that are about to be learned; see ``Pipeline.absorb``."""
        return self.new.absorb(raw, truth, told)

    def learn(
        self, X: Floats, truth: NDArray[Any], discounts: Given = None, weights: Given = None, new: bool = False
    ) -> Prediction:
        """Test, then train every expert on encoded rows, and weigh them, for which every row counts once.

        See ``Expert.learn``. A row of a new class does not move the experts' weights.
        """
        made = [expert.learn(X, truth, discounts, weights, new) for expert in self.experts.values()]
        if not new:
            return self.mixture.learn(made, truth)
        if "recovered" not in self.experts:
            self.old.add_class()
        return self.mixture.predict(made)

    def add_class(self) -> None:
        """One more class, which no row is learned of now."""
        self.old.add_class()
        self.add_class_to_others()

    def add_class_to_others(self) -> None:
        """One more class for every expert but the old model, which has it."""
        for name, expert in self.experts.items():
            if name != "recovered":
                expert.add_class()

    def reset_learner(self, classes: int) -> None:
        """Every learner in its first state."""
        for expert in self.experts.values():
            expert.reset_learner(classes)
        if "recovered" in self.experts:
            self.old.learner = self.experts["recovered"].learner
        else:
            self.old.reset_learner(classes)

    def forget(self) -> None:
        """Discount what every learner has learned."""
        for expert in self.experts.values():
            expert.forget()

    def take_alarms(self) -> list[Alarm]:
        """That of the expert with the largest weight."""
        found = [expert.take_alarms() for expert in self.experts.values()]
        return found[int(self.mixture.weights.argmax())]

    def weights(self) -> Weights | None:
        """The mean of the experts' linear models over the space's columns, by their weights; predictions may differ.

        Experts that are not linear in these columns, since a kernel recovers what they read, are left out; None where
        all are.
        """
        found = [expert.weights() for expert in self.experts.values()]
        models = [weights for weights in found if weights is not None]
        if not models:
            return None
        a = self.mixture.weights
        if len(models) < len(found):
            a = a[[weights is not None for weights in found]]
            a = a / a.sum() if a.sum() > 0.0 else np.full(len(models), 1.0 / len(models))
        return Weights(
            sum(share * model.coefficients for share, model in zip(a, models, strict=True)),
            sum(share * model.bias for share, model in zip(a, models, strict=True)),
        )

    @property
    def linear_share(self) -> float:
        """The weight, from 0 to 1, of the experts whose linear models ``weights`` averages."""
        weighed = zip(self.mixture.weights.tolist(), self.experts.values(), strict=True)
        return min(1.0, sum([share for share, expert in weighed if expert.weights() is not None], 0.0))

    def explain(self, raw: Floats) -> Header | None:
        """What the expert with the largest weight knows about one raw row (1, F)."""
        return self._likeliest.explain_encoded(self.new.encode(raw))

    def info(self) -> Header:
        """That of the expert with the largest weight."""
        return self._likeliest.info()

    @property
    def _likeliest(self) -> Expert:
        return list(self.experts.values())[int(self.mixture.weights.argmax())]

    def classes_differ(self, classes: int) -> bool:
        """Whether one of the experts has another number of classes."""
        return self.old.classes_differ(classes) or any(e.classes_differ(classes) for e in self.experts.values())

    def parts(self) -> dict[str, Any]:
        """The models, what connects them and their weights."""
        carried = {"carried": self.experts["carried"]} if "carried" in self.experts else {}
        return {"old": self.old, "new": self.new, "front": self.input_mapping, **carried, "mixture": self.mixture}
