"""One feature space and what learns in it: rows are encoded, scaled, then learned.

    raw (n, F)  --encoder-->  X (n, D)  --scaler-->  Z (n, D)  --learner-->  Prediction

A machine in a steady phase is one pipeline. Its state machine is the parts', row by row: a row is absorbed by encoder
and scaler once, then tested and learned. Weights are told on X, so that clients never see the scale.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.features import Encoder, Space
from core.model import Alarm, Explaining, Floats, Forgetful, Header, Learner, Prediction, Watchful, Weights
from core.scaling import Scaler

WEIGHT_MAX = 1e300
"""Weights are told up to here: a tiny spread can make them larger than any number."""


class Pipeline:
    """Encoder, scaler and learner of one feature space.

    Args:
        config: the model's configuration.
        schema: the feature space.

    Attributes:
        schema, encoder, scaler, learner: the parts; ``scaler`` is None for algorithms that have no scaling.
    """

    def __init__(self, config: Config, schema: Space) -> None:
        self._config = config
        self.schema = schema
        self.encoder = Encoder(schema, config.missing)
        scaling = config.params.get("scaling", "none")
        self.scaler = None if scaling == "none" else Scaler(scaling, schema.width)
        self.learner = self._built()

    def _built(self) -> Learner:
        # Declared ranges are those of the columns as clients send them.
        ranges = self.schema.ranges if self.scaler is None else None
        return self._config.entry.build(self._config.spec(self.schema.width, ranges))

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F); changes nothing."""
        X = self.encoder.encode(raw)
        return self.learner.predict(X if self.scaler is None else self.scaler.scale(X))

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
        Z = X if self.scaler is None else self.scaler.absorb(X)
        return self.learner.learn(Z, truth, discounts)

    def learn_new_class(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on one encoded row whose class the learner has not seen: it is tested without it."""
        Z = X if self.scaler is None else self.scaler.absorb(X)
        told = self.learner.predict(Z)
        self.learner.add_class()
        self.learner.learn(Z, truth, discounts)
        return told

    def reset_learner(self, classes: int) -> None:
        """The learner back in its first state, with so many classes; encoder and scaling go on."""
        self.learner = self._built()
        for _ in range(classes):
            self.learner.add_class()

    def forget(self) -> None:
        """The learner trusts its past less, where it can."""
        if isinstance(self.learner, Forgetful):
            self.learner.forget()

    def take_alarms(self) -> list[Alarm]:
        """Alarms that the learner raised by itself over the rows learned last, their means on the columns X."""
        alarms = self.learner.take_alarms() if isinstance(self.learner, Watchful) else []
        if self.scaler is None or not alarms:
            return alarms
        centre, spread = self.scaler.affine()
        return [
            _unscaled(alarm, centre, spread) if alarm.columns else alarm  # a rate has no unit
            for alarm in alarms
        ]

    def weights(self) -> Weights | None:
        """The linear model in use over the encoded columns, or None."""
        found = self.learner.weights()
        if found is None or self.scaler is None:
            return found
        centre, spread = self.scaler.affine()
        with np.errstate(over="ignore"):
            shift = _told(found.coefficients * _told(centre / spread)).sum(axis=1)
            coefficients, bias = _told(found.coefficients / spread), _told(found.bias - shift)
        return Weights(coefficients, bias)

    def explain(self, raw: Floats) -> Header | None:
        """What a learner without weights knows about one raw row (1, F); None where it has nothing to say."""
        if not isinstance(self.learner, Explaining):
            return None
        X = self.encoder.encode(raw)
        return self.learner.explain(X if self.scaler is None else self.scaler.scale(X))

    def info(self) -> Header:
        """What a person wants to see of the learner."""
        return self.learner.info()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self._parts().values())

    def classes_differ(self, classes: int) -> bool:
        """Whether the learner knows another number of classes."""
        shares = self.predict(np.zeros((1, self.schema.raw_width))).probabilities
        return shares is not None and shares.shape[1] != classes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the parts, each under its name."""
        return gather(self._parts())

    def _parts(self) -> dict[str, Any]:
        held = {"encoder": self.encoder, "scaler": self.scaler, "learner": self.learner}
        return {name: part for name, part in held.items() if part is not None}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave; after an error the pipeline is of no use.

        Raises:
            ValueError: not a state of this space and configuration.
        """
        scatter(self._parts(), arrays, header)


def _unscaled(alarm: Alarm, centre: Floats, spread: Floats) -> Alarm:
    """The means of an alarm in the columns' own units."""
    at = list(alarm.columns)
    before, after = (_told(np.array(means) * spread[at] + centre[at]) for means in (alarm.before, alarm.after))
    return alarm._replace(before=tuple(before.tolist()), after=tuple(after.tolist()))


def _told(values: Floats) -> Floats:
    """Weights within what is told."""
    return np.clip(values, -WEIGHT_MAX, WEIGHT_MAX)


def gather(parts: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Header]:
    """The states of named parts as one: arrays as ``part.name``, headers by part."""
    arrays: dict[str, NDArray[Any]] = {}
    header: Header = {}
    for part, holder in parts.items():
        own, header[part] = holder.to_arrays()
        arrays.update({f"{part}.{name}": array for name, array in own.items()})
    return arrays, header


def scatter(parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
    """Load named parts from what ``gather`` gave.

    Raises:
        ValueError: arrays of a part that is not there, or a state that its part does not take.
    """
    if any(name.partition(".")[0] not in parts for name in arrays):
        raise ValueError("the state has parts that this model has not")
    for part, holder in parts.items():
        start = len(part) + 1
        own = {name[start:]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
        holder.load_arrays(own, header[part])
