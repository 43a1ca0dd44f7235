r"""The overlap period of a change of features: rows carry both spaces, and the old model still predicts.

    union row  ->  old columns X1, new columns X2        X = [X1 X2], encoded; with lags [X1 Y X2], see below
    old model        tested and trained on X1; the model's predictions are its predictions
    recovery         learns X2 -> the columns of the old model (core.switching.feature_recovery), with or without labels
    new model        trained on X2, so that it does not start from nothing (not in the paper's variant)
    trial            how well both predict labelled rows from the new space's columns alone

A row of the old space trains only the old model. It enters no lag columns of the new one, whose history has new columns
that the row lacks: any value in their place would teach lags that never occur. So the new space's lags come from rows
of the union only, and are empty at first. The recovery pairs them with Y, the old columns with lags from the same rows
(``history``), not with the lags that the old model learns; the trial begins when the history is full. The old model may
be the ensemble of an earlier switch: the overlap treats it as a single model and changes it only by learning, so
aborting simply drops the rest.

**The first weights of the experts after the switch.** Each labelled row is predicted, before any model learns it, by
the old model on recovered columns and by the new model on its own. core.switching.mixture weighs both, b_r and b_n,
from 1/2 each and with its share of 1/t, so that either can rise late. Rows before there is a mapping count for neither.
At the end, with r the share of the recovered model and of the carried one, which starts at its weights:

    r = 1                    there is a mapping, and the new model has learned no labelled row: it cannot be judged
    r = min(b_r, .1)         the mapping is poor: fewer than five rows, or a held-out error of .8 and more
    r = b_r                  otherwise

If nothing has vanished there is nothing to recover, so the mapping is not poor. After the switch the 1/t share gives
every expert some weight at the first label; in a regression, one that starts at zero must predict a row well first.
With ``variant: "paper"`` weights are equal unless there are fewer than five rows.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Floats, Prediction, Transferable, joined
from core.features.feature import Feature
from core.features.feature_space import RowPart, union
from core.features.schema import Schema
from core.state.envelope import Nested
from core.switching.expert import PerRow
from core.switching.feature_recovery import ROWS_ENOUGH, ROWS_MIN, FeatureRecovery, MappingKind
from core.switching.space_model import SpaceModel

if TYPE_CHECKING:
    from core.switching.mixture import TrialMixture

POOR_SHARE_MAX = 0.1  # largest first weight of experts whose columns are recovered poorly

ROW_FLOPS = 3e5  # about sixty microseconds of interpreted work per overlap row, in floating-point operations


class OverlapPeriod(Nested):
    """An old model, a new one, the recovery of the old one's columns, and the trial of both.

    ``old`` is the model of the space in force, of dense rows; or its experts, if that space came with a switch.
    ``features`` are those of the new space, ``kind`` is that of the mapping. Predictions are made in the old space,
    ``schema``; feedback comes in the union of both, ``feedback_schema``.
    """

    phase = "overlap"

    def __init__(self, config: Config, old: SpaceModel, features: tuple[Feature, ...], kind: MappingKind) -> None:
        assert isinstance(old.schema, Schema)
        self.encoder = old.encoder
        self.schema: Schema = old.schema
        self.next_schema = Schema(features)
        self.feedback_schema = union(self.schema, features)
        self.old, self.new = old, SpaceModel(config, self.next_schema)
        self.new.encoder.adopt(old.encoder)
        # the paper's forms of the switch; other algorithms' variants mean other things
        paper = config.algorithm.evolves and config.params["variant"] == "paper"
        self.recovery = new_recovery(kind, self.new.row_columns, old.columns, paper)
        self.recovery.read_as(old.own.schema, self.next_schema)
        self.history = None if old.lags is None else old.lags.empty()
        from core.switching.mixture import TrialMixture  # noqa: PLC0415  its kernels are loaded later, see core.model

        self.trial = TrialMixture()
        self._alarms: list[Alarm] = []
        self._old_part = RowPart(self.schema, self.feedback_schema)
        self._new_part = RowPart(self.next_schema, self.feedback_schema)

    def configure(self, config: Config) -> None:
        """Continue with another configuration: the old side and the new model."""
        self.old.configure(config)
        self.new.configure(config)

    def encode(self, raw: Floats, truth: NDArray[Any], lags: Floats | None = None) -> Floats:
        """Raw rows of the union, about to be learned: the old space's columns, then the new one's, each with its lags;
        with lags the old columns of the recovery, Y, come between them.

        Tracked rows were predicted by the old model: the lag columns that they bring are its own.
        """
        old, new = self._parted(raw)
        X1 = self.old.encode(old, truth, lags)
        return np.hstack([X1, self._in_step(X1, truth), self.new.encode(new, truth)])

    def _in_step(self, X1: Floats, truth: NDArray[Any] | None = None) -> Floats:
        """Y: the old space's columns with lags from rows of the union; no columns if the model has no lags."""
        if self.history is None:
            return X1[:, :0]
        return self.history.lag(np.ascontiguousarray(X1[:, : self.old.schema.width]), truth)

    def _parted(self, raw: Floats) -> tuple[Floats, Floats]:
        return self._old_part.of(raw), self._new_part.of(raw)

    def learn(
        self,
        X: Floats,
        truth: NDArray[Any],
        discounts: PerRow = None,
        weights: PerRow = None,
        new: bool = False,
        past: Floats | None = None,
    ) -> Prediction:
        """Test the old model, then train all models, on rows from ``encode``; see ``SpaceExpert.learn``.

        Tracked rows were predicted by the old model: of their ``past`` the new one reads the last label only.
        """
        old, between = len(self.old.row_columns), X.shape[1] - len(self.new.row_columns)
        X1, Y, X2 = (np.ascontiguousarray(part) for part in np.split(X, [old, between], axis=1))
        Y = self.old.to_own_columns(X1 if self.history is None else Y)
        if self.recovery.paper:
            if new:
                self.new.add_class()
        else:
            tried = self.trial.taught
            of_new = self.new.learn(X2, truth, discounts, weights, new, None if past is None else past[:, :1])
            self.trial.taught += len(X)
        if self.recovery.paper or new:
            self.recovery.learn(X2, Y)
            return self.old.learn(X1, truth, discounts, weights, new, past)
        made: list[Prediction] = []
        self._alarms = []
        for at in range(len(X)):  # each row is tried with the mapping and the old model from before it
            one = slice(at, at + 1)
            x1, x2, (discount, weight, kept) = X1[one], X2[one], _part((discounts, weights, past), one)
            if self.recovery.ready and tried + at >= self.new.config.lags:
                recovered = self.old.predict_from_columns(self.recovery.recover(x2))
                self.trial.learn([recovered, Prediction(*_part(astuple(of_new), one))], truth[one], weight)
            self.recovery.learn(x2, Y[one])
            made.append(self.old.learn(x1, truth[one], discount, weight, past=kept))
            self._alarms += [alarm._replace(row=alarm.row + at) for alarm in self.old.take_alarms()]
        return joined(made)

    def map(self, raw: Floats) -> None:
        """Train the recovery, and the scale of the new space's columns, with raw rows of the union."""
        old, new = self._parted(raw)
        encoded, lags = self.new.encoder.encode(new, absorb=True), self.new.lags
        X1, X2 = self.old.encode(old), encoded if lags is None else lags.lag(encoded)  # rows join no history
        if self.history is not None and self.history.known[0]:
            X1 = self._in_step(X1)
        self.recovery.learn(X2, self.old.to_own_columns(X1))
        if self.new.own.scaler is not None:
            self.new.own.scaler.scale(X2, absorb=True)

    @property
    def row_exact(self) -> bool:
        """Whether a block of rows gives the same bits as its rows one by one."""
        return self.old.row_exact and self.new.row_exact

    def flops_to_map(self, rows: int) -> float:
        """Floating-point operations of learning the mapping from some rows and solving it once."""
        return rows * ROW_FLOPS + self.recovery.flops_to_learn(rows)

    def complete(self, first_row: int, classes: int) -> SpaceModel:
        """The experts after the period; the next row has number ``first_row``. Several old experts become one."""
        self.recovery.freeze()
        former, new = self.old.merge(), self.new
        recovery = self.recovery.only(former.columns)
        weights = _initial_weights(_names(former, new, recovery), recovery, self.trial)
        new.join(former, recovery, self.feedback_schema, weights, first_row)
        new.begin(classes)
        return new

    def add_class(self) -> None:
        """Add a class without learning a row of it now."""
        self.old.add_class()
        self.new.add_class()

    def take_alarms(self) -> list[Alarm]:
        """The old learner's alarms; the new one's are dropped, because in its first rows they are not drifts."""
        self.new.take_alarms()
        found, self._alarms = [*self._alarms, *self.old.take_alarms()], []
        return found

    def classes_differ(self, classes: int) -> bool:
        """Whether one of the models has another number of classes."""
        return self.old.classes_differ(classes) or self.new.classes_differ(classes)

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Any) -> None:
        """Load a state from ``to_arrays``; see ``Nested``."""
        super().load_arrays(arrays, header)
        if self.recovery.frozen:
            raise ValueError("the mapping of an overlap lacks the rows that it has learned")

    def parts(self) -> dict[str, Any]:
        """The models, the recovery and the trial of both models; with lags the history of the old columns."""
        parts = {"old": self.old, "new": self.new, "recovery": self.recovery, "trial": self.trial}
        return parts if self.history is None else {**parts, "history": self.history}


def new_recovery(kind: MappingKind, sources: Sequence[str], targets: Sequence[str], paper: bool) -> FeatureRecovery:
    """An untrained mapping."""
    from core.switching.kernel_mapping import KernelMapping  # noqa: PLC0415  its kernels are loaded later, see core.model
    from core.switching.linear_mapping import LinearMapping  # noqa: PLC0415  likewise

    return (LinearMapping if kind == "linear" else KernelMapping)(sources, targets, paper)


def _names(former: SpaceModel, new: SpaceModel, recovery: FeatureRecovery) -> tuple[str, ...]:
    """The experts after a period: without a mapping and without kept columns, the new model alone."""
    if recovery.count < ROWS_MIN and not len(recovery.kept):
        return ("new",)
    linear = former.own.with_input_mapping(recovery, new.schema).weights() is not None
    carries = linear and isinstance(new.own.learner, Transferable) and not recovery.paper
    return ("recovered", "new", "carried") if carries else ("recovered", "new")


def _initial_weights(names: Sequence[str], recovery: FeatureRecovery, trial: "TrialMixture") -> dict[str, float]:
    """The first weights of the experts of these names."""
    E = len(names)
    if E == 1:
        return {"new": 1.0}
    if recovery.paper:
        share = POOR_SHARE_MAX if recovery.count < ROWS_ENOUGH else 1.0 - 1.0 / E
    elif not trial.taught and recovery.ready:
        share = 1.0
    else:
        b_r, b_n = trial.weights
        share = (E - 1) * b_r / ((E - 1) * b_r + b_n)
        share = min(share, POOR_SHARE_MAX) if recovery.problem is not None else share
    return {name: 1.0 - share if name == "new" else share / (E - 1) for name in names}


def _part(columns: Sequence[NDArray[Any] | None], at: slice) -> list[Any]:
    """Some of the rows of each column; None stays None."""
    return [None if column is None else column[at] for column in columns]
