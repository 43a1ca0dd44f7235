"""`auto`: experts of all families on shared columns, and their mixture.

    X  -columns->  raw, scaled, random, products, lagged  -experts->  P  -mixture->  prediction

Experts and their mixture form a team. When the error rate of a classification jumps, a second team begins, and both are
mixed (core.learners.auto.horizon).

Every expert learns every row, except resting ones (core.learners.auto.resting). An expert that takes no row weights
counts each row once; the mixture applies the weights. Experts and column sets: core.learners.auto.experts;
equations: core.learners.auto.kernels.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Prediction, Spec, chunks, in_chunks
from core.features.lags import BEFORE_ALL, LagColumns
from core.features.scaling import scaler_bytes
from core.learners.algorithm import COSINE_COST
from core.learners.auto.columns import Columns
from core.learners.auto.experts import (
    GROWING,
    LAGGED,
    LAGGED_LABELS,
    RANDOM,
    expert_spec,
    own_columns,
    random_features,
    recipes,
)
from core.learners.auto.horizon import AGE, BLOCK, TEAM_BYTES_MAX, Horizon, mix_teams
from core.learners.auto.label_unit import LabelUnit
from core.learners.auto.mixture import ExpertMixture
from core.learners.auto.resting import REST_ROWS
from core.learners.auto.team import Team
from core.learners.learner import KEPT_ROWS, NO_VALUE, NONE_GIVEN, NONE_TOLD
from core.learners.posterior import View
from core.state.envelope import Nested

_CHUNK_ROWS = 1024
"""Rows whose columns and predictions are in memory at once; chunks end at absolute row numbers, as blocks do. If
experts may rest, a chunk has REST_ROWS rows, and for classes BLOCK."""
_KEPT_MAX, _KEPT_UNIT = 256, 65535  # most probabilities of a team that tracked rows keep; the whole number for 1
_NEW = "new_"  # the prefix of the names of a second team's experts

_STACK_COST = 8.0  # floating-point operations of the stacks for every pair of experts
_MIXING_COST = 60.0  # floating-point operations of mixing one expert's probability of one class


class Auto(Nested):
    """The learner behind `auto`.

    State: the states of its parts, which are the columns, every expert, the mixture, and for classes the horizon and,
    while it lives, the second team.
    """

    object_bytes: ClassVar = 3000

    @classmethod
    def state_bytes(cls, spec: Spec, classes: int) -> int:
        """Bytes of the scaler, random features, experts and mixture, the last two twice if there may be two teams."""
        experts = recipes(spec)
        own = [recipe.family.state_bytes(expert_spec(spec, recipe), classes) for recipe in experts]
        mixture = ExpertMixture([recipe.name for recipe in experts], regression=spec.task == "regression")
        mixed = mixture.layout.bytes(**mixture.sizes(classes)) + mixture.object_bytes
        read = {recipe.columns for recipe in experts}
        history = LagColumns(own_columns(spec), 1, LAGGED_LABELS).nbytes + LabelUnit().nbytes
        lags = history if LAGGED in read else 0
        drawn = 8 * random_features(spec) * (own_columns(spec) + 1) if RANDOM in read else 0
        teams = sum(own) + mixed
        if spec.task != "regression" and cls.row_exact(spec):
            later = sum(size for size, recipe in zip(own, experts, strict=True) if recipe.algorithm in GROWING)
            teams += _room(teams, later) + Horizon().nbytes
        return teams + lags + drawn + scaler_bytes("robust", spec.dimension) + cls.object_bytes

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """The cost of all experts, a cosine per random feature, and the mixture; a second team is not counted."""
        experts = recipes(spec)
        own = sum(recipe.family.row_cost(expert_spec(spec, recipe), classes) for recipe in experts)
        drawn = random_features(spec) if any(recipe.columns == RANDOM for recipe in experts) else 0
        mixed = _MIXING_COST * (len(experts) + 4.0) * max(classes, 1)
        stacked = _STACK_COST * (len(experts) + 1.0) ** 2 if spec.task == "regression" else 0.0
        return own + drawn * (2.0 * own_columns(spec) + COSINE_COST) + mixed + stacked

    @classmethod
    def row_exact(cls, spec: Spec) -> bool:
        """Whether every expert learns a block bit for bit as its rows one by one."""
        return all(recipe.family.row_exact(expert_spec(spec, recipe)) for recipe in recipes(spec))

    def __init__(self, spec: Spec) -> None:
        self._spec, self._recipes = spec, recipes(spec)
        self.columns = Columns(spec, self._recipes)
        regression, exact = spec.task == "regression", self.row_exact(spec)
        self._label_type = np.float64 if regression else np.int64
        self._rests = exact
        self.horizon = Horizon() if exact and not regression else None
        self._chunk = _CHUNK_ROWS if not exact else BLOCK if self.horizon else REST_ROWS
        self.team = self._new_team()
        self.second: Team | None = None
        self._read()

    def _new_team(self, classes: int = 0) -> Team:
        team = Team(self._spec, self._recipes, self._rests)
        for _ in range(classes):
            team.add_class()
        return team

    @property
    def _teams(self) -> tuple[Team, ...]:
        return (self.team,) if self.second is None else (self.team, self.second)

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self.team.mixture.rows if self.horizon is None else self.horizon.rows

    def _read(self) -> None:
        """Select the column sets that the teams read."""
        self.columns.read = self.team.read if self.second is None else self.team.read | self.second.read

    def _predict(self, X: Floats, keep: bool) -> Prediction:
        sets = self.columns.of(X)
        asked = [(team, team.ask(sets, len(X))) for team in self._teams]
        found = self._mixed([team.mixture.predict(out) for team, out in asked], NO_VALUE, NONE_GIVEN)
        if keep and self.team.mixture.regression:
            found.experts = asked[0][1][:, 0].T
        elif keep and 1 < self.team.mixture.classes <= _KEPT_MAX / len(self.team.mixture.names):
            found.experts = np.concatenate([out for _, out in asked]).swapaxes(0, 1)
        return found

    def _learn(
        self, X: Floats, y: NDArray[Any], numbers: Floats, weights: Floats, past: Floats | None = None
    ) -> Prediction:
        """Predict, then learn one chunk; experts may rest and teams begin or end afterwards."""
        returned = None
        if past is not None and past.shape[1] > 1 and self.team.mixture.regression:
            returned = np.ascontiguousarray(past[:, 1 + len(self._recipes) :])
        sets = self.columns.of(X, numbers, returned)
        found = [team.learn(sets, y, numbers, weights, self._told(team, past)) for team in self._teams]
        mixed = self._mixed(found, y, weights)
        if self._rests and self.rows % self._chunk == 0:
            if self.horizon is not None:
                self._judge(self.horizon)
            self._read()
        return mixed

    def _told(self, team: Team, past: Floats | None) -> Floats:
        """What ``Team.learn`` is told of the moment when rows were predicted."""
        if past is None:
            return NONE_TOLD
        if team.mixture.regression:
            return np.ascontiguousarray(past[:, : 1 + len(self._recipes)])
        K, width = team.mixture.classes, 2 + len(team.mixture.names) * team.mixture.classes
        told = np.full((len(past), width), np.nan)
        told[:, 0] = past[:, 0]
        for at in range(2, past.shape[1] - width + 1, width):
            same = (past[:, 1] == K) & (past[:, at] == self._first_row(team))
            told[same, 1:] = past[same, at + 1 : at + width]
        told[:, 2:] /= _KEPT_UNIT
        return told

    def _first_row(self, team: Team) -> int:
        """The row with which a team began: no other team did."""
        return self.rows - team.mixture.rows

    def _mixed(self, found: list[Prediction], y: NDArray[Any], weights: Floats) -> Prediction:
        """The prediction of one team, or of both (core.learners.auto.horizon)."""
        first = found[0]
        if self.horizon is not None and first.probabilities is not None and first.probabilities.shape[1]:
            second = found[1].probabilities if len(found) > 1 else None
            other = first.probabilities[:0] if second is None else second
            mix_teams(first.probabilities, other, y, weights, self.horizon.state, first.value)
        return first

    def _judge(self, horizon: Horizon) -> None:
        """Begin a second team, or end one of the two, if the horizon says so."""
        ends, begins = horizon.judge()
        if ends:
            if self.second is not None and horizon.share > 0.5:
                self.team = self.second
            begins = begins and bool(_room(self.team.nbytes, self.team.growing_bytes))
            self.second = self._new_team(self.team.mixture.classes) if begins else None
            horizon.restart()

    def add_class(self) -> None:
        """Add a class for every expert."""
        for team in self._teams:
            team.add_class()
        self._read()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        predict = partial(self._predict, keep=len(X) <= KEPT_ROWS)
        return in_chunks(predict, chunks(0, _CHUNK_ROWS, len(X)), X)

    def learn(
        self,
        X: Floats,
        y: NDArray[Any],
        discounts: Floats | None = None,
        weights: Floats | None = None,
        past: Floats | None = None,
    ) -> Prediction:
        """Predict, then learn X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts.

        ``past`` (n, 1 + W), or (n, 1): of tracked rows, the last label when they were predicted (a class plus 1; 0:
        none; NaN: the present one), then what ``returned_past`` gives; None: no row was tracked.
        """
        del discounts
        own, numbers = np.ascontiguousarray(y, dtype=self._label_type), np.ascontiguousarray(y, dtype=np.float64)
        weights = NONE_GIVEN if weights is None else weights
        if len(X) == 1:
            return self._learn(X, own, numbers, weights, past)
        return in_chunks(self._learn, chunks(self.rows, self._chunk, len(X)), X, own, numbers, weights, past)

    def past(self, prediction: Prediction, row: int) -> tuple[float, ...] | None:
        """What to keep with one row of ``predict`` until its label comes: the experts' numbers, and the lag columns.

        Of classes, if they are few: their number; and for each team its first row, its rows, and the probabilities of
        all experts as whole numbers, which take few bytes. A resting expert's are those of the mixture, or the mean.
        """
        if prediction.experts is None:
            return None
        if self.team.mixture.regression:
            said = prediction.experts[row]
            lags = () if self.columns.history is None else self.columns.history.now()
            numbers = np.full(len(self._recipes), prediction.value[row])
            numbers[self.team.mixture.awake[: len(said)]] = said
            return (*numbers.tolist(), *lags)
        if prediction.experts.ndim == 3:  # once for all rows
            prediction.experts = self._kept(prediction.experts)
        return tuple(prediction.experts[row].tolist())

    def _kept(self, said: Floats) -> Ints:
        """What ``past`` gives for n rows of classes, (n, W); ``said`` (n, A, K): by the teams' awake experts."""
        n, E, K = len(said), len(self._recipes), said.shape[2]
        kept = [np.full((n, 1), K)]
        for team in self._teams:
            awake = team.mixture.awake[team.mixture.awake < E]
            own, said = said[:, : len(awake)], said[:, len(awake) :]
            every = np.empty((n, len(team.mixture.names), K))
            every[:, :E], every[:, E:] = own.mean(axis=1, keepdims=True), team.mixture.label_shares()
            every[:, awake] = own
            shares = np.rint(every * _KEPT_UNIT).astype(np.int64).reshape(n, -1)
            kept += [np.full((n, 2), (self._first_row(team), team.mixture.rows)), shares]
        return np.hstack(kept)

    def returned_past(self, kept: Sequence[tuple[float, ...] | None]) -> Floats:
        """What ``past`` has kept for rows, (n, W); NaN for rows without."""
        E, L = len(self._recipes), 0 if self.columns.history is None else self.columns.history.width
        regression, names = self.team.mixture.regression, len(self.team.mixture.names)
        found = np.full((len(kept), E + L if regression else max([len(own or ()) for own in kept], default=0)), np.nan)
        for row, one in enumerate(kept):
            own = np.array(one or ())
            if not len(own) or not np.isfinite(own).all():
                continue
            if len(own) in {E, E + L} if regression else len(own) % (2 + names * int(own[0])) == 1:
                if regression:
                    found[row, E : E + 1] = BEFORE_ALL
                found[row, : len(own)] = own
        return found

    def forget(self) -> None:
        """Discount the past of every expert that can do so, and restart the weights; a second team ends."""
        self.team.forget()
        self.second = None
        if self.horizon is not None:
            self.horizon.restart()
        self._read()

    def extend(self, other: Self, places: Ints) -> None:
        """Continue from a learner with fewer columns; see ``core.contract.Extensible``.

        Experts that cannot continue restart with the same classes.
        """
        self.columns.extend(other.columns, places)
        self.team.extend(other.team, self.columns, other.columns, places)
        if self.horizon is not None and other.horizon is not None:
            self.horizon.state[:] = other.horizon.state
            if other.second is not None:
                self.second = self._new_team(other.second.mixture.classes)
                self.second.extend(other.second, self.columns, other.columns, places)
        self._read()

    def weights(self) -> None:
        """None: the mixture is not linear."""
        return

    def posterior(self, view: View) -> Header:
        """Every expert with its share, its family and its own posterior over the columns that it reads.

        Experts of the family "labels" read none; those of a second team are named ``new_NAME``.
        """
        merged: Header = {}
        for team, (start, share) in zip(self._teams, self._shares(), strict=True):
            found = team.posterior(self.columns, view)
            merged |= {start + name: own | {"share": share * own["share"]} for name, own in found.items()}
        return {"experts": merged}

    def _shares(self) -> list[tuple[str, float]]:
        """The prefix of the names of each team's experts, and the team's share."""
        if self.second is None or self.horizon is None:
            return [("", 1.0)]
        return [("", 1.0 - self.horizon.share), (_NEW, self.horizon.share)]

    def _named(self, found: Iterable[list[Header]]) -> list[Header]:
        """The experts of all teams, with their names and weights in `auto`."""
        return [
            own | {"expert": start + own["expert"], "weight": share * own["weight"]}
            for experts, (start, share) in zip(found, self._shares(), strict=True)
            for own in experts
        ]

    def info(self) -> Header:
        """Rows, and every expert with its weight and its performance; those of a second team are named ``new_NAME``."""
        return {"rows": self.rows, "experts": self._named(team.mixture.report() for team in self._teams)}

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, with room for a second team while there is none."""
        held = super().nbytes + self.object_bytes
        if self.horizon is None or self.second is not None:
            return held
        return held + _room(self.team.nbytes, self.team.growing_bytes)

    def parts(self) -> dict[str, Any]:
        """Columns, experts and mixture; if there may be a second team, also the horizon and, if any, that team."""
        found = {"columns": self.columns, **self.team.parts()}
        if self.horizon is not None:
            found["horizon"] = self.horizon
        return found if self.second is None else found | {"second": self.second}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``core.contract.Learner``."""
        fresh = type(self)(self._spec)
        if "second" in header and fresh.horizon is not None:
            fresh.second = self._new_team()
        second, horizon = fresh.second, fresh.horizon
        Nested.load_arrays(fresh, arrays, header)
        fresh.team.settle()
        if second is not None and second.mixture.classes != fresh.team.mixture.classes:
            raise ValueError("the teams know different classes")
        if horizon is not None and horizon.state[AGE] != (0 if second is None else second.mixture.rows):
            raise ValueError("the second team has learned another number of rows")
        self.columns, self.team, self.second, self.horizon = fresh.columns, fresh.team, second, horizon
        self._read()

    def explain(self, x: Floats) -> Header:
        """What each expert predicts for one row x (1, d).

        ``experts``: for each awake expert that reads columns, its name, its weight, and its probabilities of the
        ``classes``, in their order, or its ``prediction``; ``classes``: their indices; ``ambiguity``: None.
        """
        sets = self.columns.of(x)
        return {
            "classes": [*range(self.team.mixture.classes)],
            "experts": self._named(team.explain(sets) for team in self._teams),
            "ambiguity": None,
        }


def _room(team: int, growing: int) -> int:
    """Bytes to reserve for a second team of ``team`` bytes, ``growing`` of them after many rows; 0: none may begin."""
    return team if team - growing <= TEAM_BYTES_MAX else 0
