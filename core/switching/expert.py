"""An expert: input mapping, scaler and learner of a set of columns, whatever space the rows are in.

    X (n, D)  -input mapping->  own columns (n, d)  -scaler->  Z (n, d)  -learner->

The columns of an expert never change; for another feature space it gets another input mapping. Weights are given over
X, so that clients never see the scale.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Explaining, Floats, Forgetful, Header, Learner, Prediction, Transferable, Weights
from core.features import Space
from core.features.scaling import Scaler
from core.learners.posterior import View
from core.state.envelope import Nested
from core.switching.feature_recovery import FeatureRecovery

PerRow = Floats | None
"""A number for each row (n,), if the rows have one."""
WEIGHT_MAX = 1e300  # weights are capped here: a tiny spread can make them larger than any number


class SpaceExpert(Nested):
    """Input mapping, scaler and learner of a model's configuration.

    The learner is built for the d ``columns`` of a space, ``schema``; ``input_mapping`` recovers them from rows of
    another space, and is None if rows have them.
    """

    def __init__(self, config: Config, schema: Space) -> None:
        self._algorithm, scaling = config.algorithm, config.params.get("scaling", "none")
        columns, ranges = row_columns(config, schema), _row_ranges(config, schema)
        width = config.params["compressed_dim"] if config.algorithm.sparse else len(columns)
        self.schema, self.columns, self.width = schema, columns, width
        # The parts that encode rows, by their names in a state; {} if they are not saved with this expert.
        self.input_mapping: FeatureRecovery | None = None
        self.reader = dict[str, Any]()
        self.scaler = None if scaling == "none" else Scaler(scaling, width, ranges)
        # Declared ranges are in clients' units, so they do not apply to scaled columns.
        self._spec = config.spec(width, ranges if self.scaler is None else None)
        self.learner = self._algorithm.build(self._spec)
        self._takes_both = self.scaler is not None and bool(getattr(self.learner, "own_tests", ()))

    @property
    def row_exact(self) -> bool:
        """Whether a block of rows gives the same bits as its rows one by one."""
        return self._algorithm.row_exact(self._spec)

    def with_input_mapping(self, input_mapping: FeatureRecovery, rows: Space) -> "SpaceExpert":
        """An expert that shares scaler and learner and reads rows of another space."""
        input_mapping.read_as(self.schema, rows)
        found = copy(self)
        found.input_mapping, found.reader = input_mapping, {}
        return found

    def to_own_columns(self, X: Floats) -> Floats:
        """Encoded rows X (n, D) as the expert's own columns (n, d)."""
        return X if self.input_mapping is None else self.input_mapping.recover(X)

    def predict_encoded(self, X: Floats) -> Prediction:
        """Predict encoded rows X (n, D); changes nothing."""
        own = X if self.input_mapping is None else self.input_mapping.recover(X)
        return self.learner.predict(own if self.scaler is None else self.scaler.scale(own))

    def predict_from_columns(self, Y: Floats) -> Prediction:
        """Predict rows given as ``columns`` (n, d); changes nothing."""
        return self.learner.predict(Y if self.scaler is None else self.scaler.scale(Y))

    def learn(
        self,
        X: Floats,
        truth: NDArray[Any],
        discounts: PerRow = None,
        weights: PerRow = None,
        new: bool = False,
        past: Floats | None = None,
    ) -> Prediction:
        """Test then train on encoded rows X (n, D); returns the predictions made before each row.

        Truth, discounts and weights are as ``core.contract.Learner.learn`` takes them. ``new``: whether the one row is
        of a class that the learner has not seen; it is tested without that class. ``past``: for algorithms with
        ``row_pasts``, what was known when tracked rows were predicted (``RowLearner.learn``).
        """
        own = X if self.input_mapping is None else self.input_mapping.recover(X)
        Z = own if self.scaler is None else self.scaler.scale(own, absorb=True)
        rows = np.hstack([Z, own]) if self._takes_both else Z
        more: Any = () if past is None else (past,)
        if not new:
            return self.learner.learn(rows, truth, discounts, weights, *more)
        predictions = self.learner.predict(Z)
        self.learner.add_class()
        self.learner.learn(rows, truth, discounts, weights, *more)
        return predictions

    def weights(self) -> Weights | None:
        """The current linear model over the rows' encoded columns (D), before scaling, or None."""
        found = self.learner.weights()
        if found is not None and self.scaler is not None:
            centre, spread = self.scaler.affine()
            with np.errstate(over="ignore"):
                shift = _clipped(found.coefficients * _clipped(centre / spread)).sum(axis=1)
                found = Weights(_clipped(found.coefficients / spread), _clipped(found.bias - shift))
        return found if found is None or self.input_mapping is None else self.input_mapping.carry(found)

    def weight_deviations(self) -> Floats | None:
        """Standard deviations of ``weights`` (m, D), before scaling; None if the learner has none."""
        found: Callable[[], Floats] | None = getattr(self.learner, "deviations", None)
        if found is None or self.input_mapping is not None or self._algorithm.sparse:
            return None
        spread = 1.0 if self.scaler is None else self.scaler.affine()[1]
        with np.errstate(over="ignore"):
            return _clipped(found() / spread)

    def posterior(self, wanted: Collection[str] | None, outputs: Sequence[str], diagonal: bool) -> Header:
        """What the learner holds, over its own columns: those of the ``wanted`` names, None: all.

        ``outputs`` has one name per class, or "value". ``diagonal`` leaves out numbers off the diagonals of matrices.
        """
        sparse = self._algorithm.sparse
        names = tuple(f"psi {at}" for at in range(1, self.width + 1)) if sparse else self.columns
        at = [at for at, name in enumerate(names) if wanted is None or name in wanted]
        affine = None if self.scaler is None else self.scaler.affine()
        view = View(names, np.array(at, np.int64), tuple(outputs), diagonal, affine)
        found = self.learner.posterior(view)
        return {"compressed": True, **found} if sparse else found

    def start_at(self, weights: Weights, steps_of: Learner) -> None:
        """Start from a linear model of the expert's own columns, before scaling, with the step sizes of the
        learner ``steps_of``; both are ``Transferable``.
        """
        assert isinstance(self.learner, Transferable)
        if self.scaler is not None:
            centre, spread = self.scaler.moments
            with np.errstate(over="ignore", invalid="ignore"):
                bias = weights.bias + _clipped(np.nan_to_num(weights.coefficients * centre)).sum(axis=1)
                # a column that never varied has a spread of 0: its weight would mean nothing once it varies
                scaled = weights.coefficients * spread
                weights = Weights(_clipped(np.nan_to_num(scaled)), _clipped(np.nan_to_num(bias)))
        self.learner.start_at(weights, steps_of)

    def reset_learner(self, classes: int) -> None:
        """Reset the learner to its first state, with this many classes; encoder, input mapping and scaling continue."""
        self.learner = self._algorithm.build(self._spec)
        for _ in range(classes):
            self.learner.add_class()

    def forget(self) -> None:
        """Discount what the learner has learned, if it can."""
        if isinstance(self.learner, Forgetful):
            self.learner.forget()

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the learner's own tests over the rows learned last.

        With an input mapping, alarms of a test of means name no columns: those tested are not the rows' columns.
        """
        # not isinstance, which takes a microsecond or more for a runtime protocol: this runs after every row
        own: Callable[[], list[Alarm]] | None = getattr(self.learner, "take_alarms", None)
        alarms = [] if own is None else own()
        if self.input_mapping is None:
            return alarms
        return [alarm._replace(columns=(), before=(), after=()) if alarm.columns else alarm for alarm in alarms]

    def explain_encoded(self, X: Floats) -> Header | None:
        """The explanation of one encoded row (1, D) by a learner without weights; None if it has none."""
        if not isinstance(self.learner, Explaining):
            return None
        own = self.to_own_columns(X)
        return self.learner.explain(own if self.scaler is None else self.scaler.scale(own))

    def restart(self) -> None:
        """Reset the step-size schedule after a completed switch."""
        if isinstance(self.learner, Transferable):
            self.learner.restart()

    def classes_differ(self, classes: int) -> bool:
        """Whether the learner's number of classes differs."""
        shares = self.learner.predict(np.zeros((1, self.width))).probabilities
        return shares is not None and shares.shape[1] != classes

    def parts(self) -> dict[str, Any]:
        """The existing parts, by their names in a state, where the input mapping is called "front"."""
        held = {**self.reader, "front": self.input_mapping, "scaler": self.scaler, "learner": self.learner}
        return {name: part for name, part in held.items() if part is not None}


def row_columns(config: Config, schema: Space) -> tuple[str, ...]:
    """Names of the encoded columns of a space, then those of its lag columns."""
    if not config.lags:
        return tuple(schema.columns)
    from core.features.lags import lagged_names  # noqa: PLC0415  its kernels are loaded later, see core.model

    return (*schema.columns, *lagged_names(schema.columns, config.lags, config.lags, config.lag_classes))


def _row_ranges(config: Config, schema: Space) -> Floats:
    """(2, D) the declared ends of those columns, NaN if not declared."""
    if not config.lags:
        return schema.ranges
    labels = np.full((2, config.lags * (config.lag_classes or 1)), np.nan)
    return np.hstack([np.tile(schema.ranges, config.lags + 1), labels])


def _clipped(values: Floats) -> Floats:
    """Values within +-WEIGHT_MAX."""
    return np.clip(values, -WEIGHT_MAX, WEIGHT_MAX)
