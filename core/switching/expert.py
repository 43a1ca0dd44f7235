"""What learns encoded rows: a learner behind its scaling and, after a switch, behind the recovery of its own columns.

    X (n, D)  --input mapping-->  columns it was built for (n, d)  --scaler-->  Z (n, d)  --learner-->  Prediction

In a steady phase a pipeline has one expert; after a switch there are several over the same rows (ensemble.py). An
expert's columns never change: a new feature space brings another input mapping.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import (
    Alarm,
    Explaining,
    Floats,
    Forgetful,
    Header,
    Learner,
    Prediction,
    Transferable,
    Watchful,
    Weights,
)
from core.features.scaling import Scaler
from core.state.nesting import flatten, unflatten
from core.switching.feature_recovery import FeatureRecovery

WEIGHT_MAX = 1e300
"""Weights are capped here: a tiny spread can make them larger than any number."""


class Expert:
    """Front, scaler and learner.

    Args:
        config: the model's configuration.
        columns: names of the d columns that the learner is built for.
        ranges: (2, d) their declared ends, NaN where there are none.

    Attributes:
        columns, ranges: as given.
        width: d.
        learner: as built.
        scaler: None for algorithms that have no scaling.
        input_mapping: what recovers the columns from rows of another space; None where rows have them.
    """

    def __init__(self, config: Config, columns: Sequence[str], ranges: Floats) -> None:
        self._config = config
        scaling = config.params.get("scaling", "none")
        width = config.params["compressed_dim"] if config.algorithm.sparse else len(columns)
        self.columns, self.ranges, self.width = tuple(columns), ranges, width
        self.input_mapping: FeatureRecovery | None = None
        self.scaler = None if scaling == "none" else Scaler(scaling, width)
        self.learner = self._built()

    def _built(self) -> Learner:
        # Declared ranges are those of the columns as clients send them.
        return self._config.algorithm.build(self._config.spec(self.width, self.ranges if self.scaler is None else None))

    def with_input_mapping(self, input_mapping: FeatureRecovery | None) -> "Expert":
        """The same scaler and learner behind another input mapping; None: rows have its own columns."""
        other = object.__new__(Expert)
        other.__dict__.update(self.__dict__)
        other.input_mapping = input_mapping
        return other

    def to_own_columns(self, X: Floats) -> Floats:
        """Rows X (n, D) as the expert's own columns (n, d)."""
        return X if self.input_mapping is None else self.input_mapping.recover(X)

    def predict(self, X: Floats) -> Prediction:
        """Predict encoded rows; changes nothing."""
        own = self.to_own_columns(X)
        return self.learner.predict(own if self.scaler is None else self.scaler.scale(own))

    def learn(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on encoded rows; see ``core.contract.Learner``."""
        own = self.to_own_columns(X)
        return self.learner.learn(own if self.scaler is None else self.scaler.absorb(own), truth, discounts)

    def learn_new_class(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on one encoded row whose class the learner has not seen: it is tested without it."""
        own = self.to_own_columns(X)
        Z = own if self.scaler is None else self.scaler.absorb(own)
        predictions = self.learner.predict(Z)
        self.learner.add_class()
        self.learner.learn(Z, truth, discounts)
        return predictions

    def own_weights(self) -> Weights | None:
        """The linear model in use over the expert's own columns as they were before they were scaled, or None."""
        found = self.learner.weights()
        if found is None or self.scaler is None:
            return found
        centre, spread = self.scaler.affine()
        with np.errstate(over="ignore"):
            shift = _clipped(found.coefficients * _clipped(centre / spread)).sum(axis=1)
            coefficients, bias = _clipped(found.coefficients / spread), _clipped(found.bias - shift)
        return Weights(coefficients, bias)

    def weights(self) -> Weights | None:
        """The linear model in use over the rows' columns (D), or None."""
        own = self.own_weights()
        return own if own is None or self.input_mapping is None else self.input_mapping.carry(own)

    def start_at(self, weights: Weights) -> bool:
        """Take over a linear model of the expert's own columns, before scaling; whether the learner can."""
        if not isinstance(self.learner, Transferable):
            return False
        if self.scaler is not None:
            centre, spread = self.scaler.affine()
            with np.errstate(over="ignore", invalid="ignore"):
                bias = weights.bias + _clipped(np.nan_to_num(weights.coefficients * centre)).sum(axis=1)
                # a column that never varied has no scale yet: its weight would have no meaning once it does
                scaled = weights.coefficients * np.where(self.scaler.varies, spread, 0.0)
                weights = Weights(_clipped(np.nan_to_num(scaled)), _clipped(np.nan_to_num(bias)))
        self.learner.start_at(weights)
        return True

    def reset_learner(self, classes: int) -> None:
        """The learner back in its first state, with so many classes; input mapping and scaling go on."""
        self.learner = self._built()
        for _ in range(classes):
            self.learner.add_class()

    def forget(self) -> None:
        """The learner trusts its past less, where it can."""
        if isinstance(self.learner, Forgetful):
            self.learner.forget()

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the learner's own tests over the rows learned last, their means on the rows' columns.

        With an input mapping a test of means names no columns: those it has seen are none of the rows'.
        """
        alarms = self.learner.take_alarms() if isinstance(self.learner, Watchful) else []
        if self.input_mapping is not None:
            return [alarm._replace(columns=(), before=(), after=()) if alarm.columns else alarm for alarm in alarms]
        if self.scaler is None or not alarms:
            return alarms
        centre, spread = self.scaler.affine()
        return [
            _unscaled(alarm, centre, spread) if alarm.columns else alarm  # a rate has no unit
            for alarm in alarms
        ]

    def explain(self, X: Floats) -> Header | None:
        """What a learner without weights knows about one encoded row (1, D); None where it has nothing to say."""
        if not isinstance(self.learner, Explaining):
            return None
        own = self.to_own_columns(X)
        return self.learner.explain(own if self.scaler is None else self.scaler.scale(own))

    def restart(self) -> None:
        """A switch is complete: a learner whose steps have become short takes long ones again."""
        if isinstance(self.learner, Transferable):
            self.learner.restart()

    def classes_differ(self, classes: int) -> bool:
        """Whether the learner knows another number of classes."""
        shares = self.learner.predict(np.zeros((1, self.width))).probabilities
        return shares is not None and shares.shape[1] != classes

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self.parts().values())

    def parts(self) -> dict[str, Any]:
        """The parts there are, by name."""
        held = {"front": self.input_mapping, "scaler": self.scaler, "learner": self.learner}
        return {name: part for name, part in held.items() if part is not None}

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the parts, each under its name."""
        return flatten(self.parts())

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave; after an error the expert is of no use.

        Raises:
            ValueError: not a state of these columns and this configuration.
        """
        unflatten(self.parts(), arrays, header)


def _unscaled(alarm: Alarm, centre: Floats, spread: Floats) -> Alarm:
    """The means of an alarm in the columns' own units."""
    at = list(alarm.columns)
    before, after = (_clipped(np.array(means) * spread[at] + centre[at]) for means in (alarm.before, alarm.after))
    return alarm._replace(before=tuple(before.tolist()), after=tuple(after.tolist()))


def _clipped(values: Floats) -> Floats:
    """Values within +-WEIGHT_MAX."""
    return np.clip(values, -WEIGHT_MAX, WEIGHT_MAX)
