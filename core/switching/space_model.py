r"""Predicts and learns the rows of one feature space: one expert, or several after a change of features.

    raw (n, F)  -encoder, lags->  X (n, D)  -experts->  their predictions  -mixture->  one

A steady model has one expert. A switch makes the model of the new space one of several, until the next switch:

    recovered   the old model on recovered columns; it continues to learn
    new         the model of the new space, trained in the overlap
    carried     a learner of the new space that starts at the old model's weights M w1 (linear models only)

Least-squares learners are not carried: they find their own weights within some tens of rows (measured once).

core.switching.mixture combines the predictions and moves the experts' weights; core.switching.overlap sets
the first ones. Rows of the old space that were tracked before the switch still train the old model, whose scaler and
learner are the recovered expert's own.

**Merge.** In the overlap of the next change, the experts continue to predict and learn as its old side. When it is
complete, the one with the largest weight is kept. If that is the recovered one, its input mapping is kept too, and the
next recovery goes straight from the newest space to the columns its learner reads. Which one will be kept is unknown
during the overlap, so the recovery learns the columns of both. The state is as large after any number of switches as
after two, and an abort leaves the experts as they would be without the overlap.
"""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import (
    Alarm,
    Extensible,
    Floats,
    Header,
    Ints,
    Prediction,
    Weights,
    chunks,
    in_chunks,
)
from core.features import Schema, Space
from core.features.encoder import Encoder
from core.features.feature_space import column_places
from core.features.row_sample import RowSample
from core.problems import Invalid
from core.state.envelope import Nested
from core.switching.expert import PerRow, SpaceExpert, row_columns
from core.switching.feature_recovery import FeatureRecovery, unlagged

if TYPE_CHECKING:
    from core.switching.mixture import Mixture

CELLS_AT_ONCE = 2**21  # most cells of rows that are encoded at once to be predicted: 16 MiB


class SpaceModel(Nested):
    """The model of one space, for predictions and feedback alike.

    ``expert``: an existing one that learns the space's rows; None: a new one for the space's columns.
    """

    next_schema: Schema | None = None

    def __init__(self, config: Config, schema: Space, expert: SpaceExpert | None = None) -> None:
        self.config, self.schema, self.feedback_schema = config, schema, schema
        self.row_columns = row_columns(config, schema)  # D
        self.encoder, self.lags = Encoder(schema, config.missing), None
        if config.lags:
            from core.features.lags import LagColumns  # noqa: PLC0415  its kernels are loaded later, see core.model

            self.lags = LagColumns(schema.width, config.lags, config.lags, config.lag_classes)
        self.sample = RowSample(config.seed, len(self.row_columns)) if self.row_columns else None  # not for sparse rows
        self._rely_on(expert or SpaceExpert(config, schema))

    def _rely_on(self, expert: SpaceExpert) -> None:
        """Use a single expert, whose state includes the parts that encode its rows."""
        reader = {"encoder": self.encoder, "lags": self.lags, "sample": self.sample}
        expert.reader = {name: part for name, part in reader.items() if part is not None}
        self.own, self.experts = expert, {"new": expert}  # the space's own expert; all of them by name
        self.mixture: "Mixture | None" = None  # the experts' weights; None in a steady phase, as are the next
        self.former: "SpaceModel | None" = None  # the model of the space before
        self.recovery: FeatureRecovery | None = None  # the frozen recovery of its columns
        self.union: Schema | None = None  # the space of the overlap's rows

    def join(
        self, former: "SpaceModel", recovery: FeatureRecovery, union: Schema, weights: dict[str, float], first_row: int
    ) -> None:
        """Become one of several experts.

        ``former`` is the steady model of the space before, ``recovery`` the frozen recovery of its columns, ``union``
        the space of the overlap's rows. ``weights`` are the experts' first weights, in their order: "new",
        and maybe "recovered" before and "carried" after it. The next row has the absolute number ``first_row``.
        """
        from core.switching.mixture import Mixture  # noqa: PLC0415  its kernels are loaded later, see core.model

        config, self.former, self.recovery, self.union = self.config, former, recovery, union
        made = {"new": self.own}
        if "recovered" in weights:
            made["recovered"] = former.own.with_input_mapping(recovery, self.schema)
        if "carried" in weights:
            made["carried"] = SpaceExpert(config, self.schema)
        self.experts = {name: made[name] for name in weights}
        horizon = config.params.get("horizon") if recovery.paper else None
        first = np.array([*weights.values()])
        self.mixture = Mixture(first, first_row, config.algorithm.selects, horizon, config.seed)

    def begin(self, classes: int) -> None:
        """Start after a switch: the carried expert at the recovered one's weights and step sizes; classifiers' step
        sizes at their first values.

        If its columns are an image of the new ones, the recovered expert continues as it was, (7): nothing changed.
        """
        if (carried := self.experts.get("carried")) is not None:
            recovered = self.experts["recovered"]
            weights = recovered.weights()
            for _ in range(classes):
                carried.learner.add_class()
            if carried.scaler is not None and self.own.scaler is not None:
                carried.scaler.load_arrays(*self.own.scaler.to_arrays())
            assert weights is not None
            carried.start_at(weights, recovered.learner)
        for name, expert in self.experts.items():
            if name != "recovered" or self.recovery is None or not self.recovery.exact:
                expert.restart()

    @property
    def phase(self) -> str:
        """The phase while no change of features is under way: "steady" or "ensemble"."""
        return "steady" if self.mixture is None else "ensemble"

    def configure(self, config: Config) -> None:
        """Continue with another configuration; missing values are filled as it says."""
        self.config = config
        self.encoder.configure(config.missing)
        if self.former is not None:
            self.former.configure(config)

    @property
    def row_exact(self) -> bool:
        """Whether a block of rows gives the same bits as its rows one by one."""
        former = self.former is None or self.former.row_exact
        return former and all(expert.row_exact for expert in self.experts.values())

    # ---------------------------------------------------------------- rows

    def encode(self, raw: Floats, truth: NDArray[Any] | None = None, lags: Floats | None = None) -> Floats:
        """Encode raw rows (n, F) as X (n, D), each as the next row; changes nothing.

        With labels ``truth`` (n,), the rows are about to be learned: each is encoded after the rows before it, with the
        lag columns that it brings (``LagColumns.lag``).
        """
        X = self.encoder.encode(raw, truth is not None)
        if self.lags is not None:
            X = self.lags.lag(X, truth, lags)
        if truth is not None and self.sample is not None:
            self.sample.absorb(X)
        return X

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F), each as the next one; changes nothing.

        A row of a few texts may be encoded as thousands of columns, so many rows are encoded in chunks.
        """
        rows = max(1, CELLS_AT_ONCE // self.schema.width)
        if len(raw) > rows:
            return in_chunks(self.predict, chunks(0, rows, len(raw)), raw)
        return self.predict_encoded(self.encode(raw))

    def predict_encoded(self, X: Floats) -> Prediction:
        """Predict encoded rows X (n, D); changes nothing."""
        if self.mixture is None:
            return self.own.predict_encoded(X)
        return self.mixture.predict([expert.predict_encoded(X) for expert in self.experts.values()])

    @property
    def remembering(self) -> Any:
        """The single learner if it has ``past``, to be kept with tracked predictions; else None."""
        learner = getattr(self.own.learner, "learner", self.own.learner)  # without its random features
        return learner if self.mixture is None and hasattr(learner, "returned_past") else None

    def learn(
        self,
        X: Floats,
        truth: NDArray[Any],
        discounts: PerRow = None,
        weights: PerRow = None,
        new: bool = False,
        past: Floats | None = None,
    ) -> Prediction:
        """Test, then train every expert on encoded rows, and move their weights.

        See ``SpaceExpert.learn``. A row of a new class does not move the experts' weights.
        """
        if self.mixture is None or self.former is None:
            return self.own.learn(X, truth, discounts, weights, new, past)
        made = [expert.learn(X, truth, discounts, weights, new, past) for expert in self.experts.values()]
        if not new:
            return self.mixture.learn(made, truth, weights)
        if "recovered" not in self.experts:
            self.former.add_class()
        return self.mixture.predict(made)

    def add_class(self) -> None:
        """Add a class without learning a row of it now."""
        if self.former is not None:
            self.former.add_class()
        self.add_class_to_others()

    def add_class_to_others(self) -> None:
        """Add a class to every expert except the recovered one, whose learner is the former model's."""
        for name, expert in self.experts.items():
            if name != "recovered":
                expert.learner.add_class()

    def reset_learner(self, classes: int) -> None:
        """Reset every learner to its first state."""
        for expert in self.experts.values():
            expert.reset_learner(classes)
        if self.former is not None:
            if "recovered" in self.experts:
                self.former.own.learner = self.experts["recovered"].learner
            else:
                self.former.reset_learner(classes)

    def forget(self) -> None:
        """Discount what every learner has learned."""
        for expert in self.experts.values():
            expert.forget()

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the space's own expert; which one has the largest weight may change within a block."""
        return self.own.take_alarms()

    # ---------------------------------------------------------------- the old side of a change

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a recovery from the next space must give: those that the expert reads; with several experts
        the space's columns, and those that the recovered one reads if it may be kept.
        """
        if self.recovery is None:
            return self.own.columns
        return (*self.row_columns, *(self.recovery.targets[at] for at in self._foreign))

    @property
    def _foreign(self) -> Ints:
        """Which of the recovered expert's columns are not columns of the space, but may need to be read."""
        if self.recovery is None or "recovered" not in self.experts:
            return np.empty(0, dtype=np.int64)
        return self.recovery.vanished

    def to_own_columns(self, X: Floats) -> Floats:
        """Encoded rows (n, D) as ``columns``."""
        if self.recovery is None:
            return self.own.to_own_columns(X)
        foreign = self._foreign
        return np.hstack([X, self.recovery.recover(X)[:, foreign]]) if len(foreign) else X

    def predict_from_columns(self, Y: Floats) -> Prediction:
        """Predict rows given as ``columns``; changes nothing."""
        if self.recovery is None:
            return self.own.predict_from_columns(Y)
        return self.predict_encoded(np.ascontiguousarray(Y[:, : len(self.row_columns)]))

    def merge(self) -> "SpaceModel":
        """The model with a single expert that continues after a switch; see above."""
        if self.mixture is None:
            return self
        found = copy(self)
        found._rely_on(self.likeliest)  # noqa: SLF001 - of the same class
        return found

    # ---------------------------------------------------------------- further categories

    @property
    def extensible(self) -> bool:
        """Whether it can continue with additional columns."""
        grows = self.mixture is None and self.own.input_mapping is None and self.lags is None
        return grows and isinstance(self.own.learner, Extensible)

    def extended(self, schema: Schema, classes: int) -> "SpaceModel":
        """The model, with all its classes, for a space with additional categories; it has learned the same rows."""
        assert isinstance(self.schema, Schema)
        found, own = SpaceModel(self.config, schema), self.own
        for _ in range(classes):
            found.add_class()
        places = column_places(self.schema, schema)
        found.encoder.extend(self.encoder)
        if found.sample is not None and self.sample is not None:
            found.sample.extend(self.sample, places)
        if found.own.scaler is not None and own.scaler is not None:
            found.own.scaler.extend(own.scaler, places)
        cast("Extensible", found.own.learner).extend(own.learner, places)
        return found

    # ---------------------------------------------------------------- reports

    @property
    def likeliest(self) -> SpaceExpert:
        """The expert with the largest weight."""
        return self.own if self.mixture is None else [*self.experts.values()][int(self.mixture.weights.argmax())]

    def report(self) -> list[Header] | None:
        """The experts with their weights and cumulative losses, if there are several."""
        if self.mixture is None:
            return None
        known = zip(self.experts, self.mixture.weights.tolist(), self.mixture.losses.tolist(), strict=True)
        return [{"expert": name, "weight": weight, "loss": loss} for name, weight, loss in known]

    def weights(self) -> Weights | None:
        """The mean of the experts' linear models over the space's columns, by their weights; predictions may differ.

        Experts that are not linear in these columns, because a kernel recovers those they read, are left out; None if
        all are.
        """
        if self.mixture is None:
            return self.own.weights()
        models = self._linear_models
        if not models:
            return None
        a = np.array([share for share, _ in models])
        if len(models) < len(self.experts):
            a = a / a.sum() if a.sum() > 0.0 else np.full(len(models), 1.0 / len(models))
        weighed = [(share, model) for share, (_, model) in zip(a, models, strict=True)]
        coefficients, bias = (sum(share * model[part] for share, model in weighed) for part in range(2))
        return Weights(coefficients, bias)

    @property
    def linear_share(self) -> float | None:
        """The weight, 0 to 1, of the experts whose linear models ``weights`` averages; None for a single expert."""
        return None if self.mixture is None else min(1.0, sum([share for share, _ in self._linear_models], 0.0))

    @property
    def _linear_models(self) -> list[tuple[float, Weights]]:
        """The experts' linear models, each with its weight."""
        assert self.mixture is not None
        weighed = zip(self.mixture.weights.tolist(), self.experts.values(), strict=True)
        return [(share, model) for share, expert in weighed if (model := expert.weights()) is not None]

    def info(self) -> Header:
        """The likeliest expert's summary for people."""
        return self.likeliest.learner.info()

    def classes_differ(self, classes: int) -> bool:
        """Whether the number of classes of one of the learners differs."""
        former = self.former is not None and self.former.classes_differ(classes)
        return former or any(expert.classes_differ(classes) for expert in self.experts.values())

    def parts(self) -> dict[str, Any]:
        """The parts, by their names in a state, where ``recovery`` is called "front"."""
        if self.mixture is None:
            return self.own.parts()
        carried = {"carried": self.experts["carried"]} if "carried" in self.experts else {}
        return {"old": self.former, "new": self.own, "front": self.recovery, **carried, "mixture": self.mixture}


def refuse_lag_names(configs: Sequence[Config], schema: Space) -> None:
    """Refuse features that are named like a lag column: mappings of a switch, and weights, identify columns by name.

    ``Invalid`` names the column.
    """
    lags = max(config.lags for config in configs)
    own, columns = {*schema.columns, "label"} if lags else set(), schema.columns if lags else ()
    for column in columns:
        name, lag = unlagged(column.partition(" #")[0])
        if (1 <= lag <= lags and name in own) or (column == "label" and configs[0].task == "regression"):
            raise Invalid.of("features", f"has {column}: with lags, two columns would have one name; rename it")
