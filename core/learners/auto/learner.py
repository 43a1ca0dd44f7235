"""`auto`: experts of all families on shared columns, and their mixture.

    X  -columns->  raw, scaled, random, products, lagged  -experts->  P  -mixture->  prediction

Every expert learns every row, except resting ones (core.learners.auto.resting). An expert that takes no row weights
counts each row once; the mixture applies the weights. Experts and column sets: core.learners.auto.experts;
equations: core.learners.auto.kernels.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from core.contract import Extensible, Floats, Forgetful, Header, Ints, Prediction, Spec, chunks, in_chunks
from core.features.lags import LagColumns
from core.features.scaling import scaler_bytes
from core.learners.algorithm import COSINE_COST
from core.learners.auto.columns import Columns
from core.learners.auto.experts import LAGGED, LAGGED_LABELS, RANDOM, expert_spec, random_features, recipes
from core.learners.auto.mixture import ExpertMixture
from core.learners.auto.resting import REST_ROWS
from core.learners.learner import NONE_GIVEN, RowLearner
from core.learners.posterior import View
from core.state.envelope import Nested

_CHUNK_ROWS = 1024
"""Rows whose columns and predictions are held at once; chunks end at absolute row numbers, as blocks do. If experts
may rest they are REST_ROWS."""


_STACK_COST = 8.0
"""Floating-point operations of the stacks for every pair of experts."""
_MIXING_COST = 60.0
"""Floating-point operations of mixing one expert's probability of one class."""


class Auto(Nested):
    """The learner behind `auto`.

    State: the states of its parts, which are the columns, every expert, and the mixture.

    Attributes:
        experts: the learners by their names.
    """

    extensible: ClassVar = True
    object_bytes: ClassVar = 3000

    @classmethod
    def state_bytes(cls, spec: Spec, classes: int) -> int:
        """Bytes of the states of all experts, of their mixture, of the scaler, and of the random features."""
        experts = recipes(spec)
        own = sum(recipe.family.state_bytes(expert_spec(spec, recipe), classes) for recipe in experts)
        mixture = ExpertMixture([recipe.name for recipe in experts], regression=spec.task == "regression")
        mixed = mixture.layout.bytes(**mixture.sizes(classes)) + mixture.object_bytes
        read = {recipe.columns for recipe in experts}
        lags = LagColumns(spec.dimension, 1, LAGGED_LABELS).nbytes if LAGGED in read else 0
        drawn = 8 * random_features(spec) * (spec.dimension + 1) if RANDOM in read else 0
        return own + mixed + lags + drawn + scaler_bytes("robust", spec.dimension) + cls.object_bytes

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """The cost of all experts, a cosine per random feature, and the mixture."""
        experts = recipes(spec)
        own = sum(recipe.family.row_cost(expert_spec(spec, recipe), classes) for recipe in experts)
        drawn = random_features(spec) if any(recipe.columns == RANDOM for recipe in experts) else 0
        mixed = _MIXING_COST * (len(experts) + 4.0) * max(classes, 1)
        stacked = _STACK_COST * (len(experts) + 1.0) ** 2 if spec.task == "regression" else 0.0
        return own + drawn * (2.0 * spec.dimension + COSINE_COST) + mixed + stacked

    @classmethod
    def row_exact(cls, spec: Spec) -> bool:
        """Whether every expert learns a block bit for bit as its rows one by one."""
        return all(recipe.family.row_exact(expert_spec(spec, recipe)) for recipe in recipes(spec))

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._recipes = recipes(spec)
        self.columns = Columns(spec, self._recipes)
        self.experts: dict[str, RowLearner] = {
            recipe.name: cast(RowLearner, recipe.family.build(expert_spec(spec, recipe))) for recipe in self._recipes
        }
        self.mixture = ExpertMixture([*self.experts], regression=spec.task == "regression")
        self._label_type = np.float64 if self.mixture.regression else np.int64
        self._chunk = REST_ROWS if self.row_exact(spec) else _CHUNK_ROWS
        self._take_turns()

    def _take_turns(self) -> None:
        """Prepare for the awake experts: where each one writes, and which column sets they read."""
        awake = {self.mixture.names[place] for place in self.mixture.awake}
        recipes_awake = [recipe for recipe in self._recipes if recipe.name in awake]
        self._turns = [
            (self.experts[recipe.name], recipe.columns, recipe.family.row_weights) for recipe in recipes_awake
        ]
        self._out_of_one = self._room(1)
        self._views_of_one = [*self._out_of_one]
        self.columns.read = {recipe.columns for recipe in recipes_awake}

    def _room(self, n: int) -> Floats:
        """Room for the awake experts' predictions: numbers and deviations (A, 2, n), or probabilities (A, n, K)."""
        return np.empty((len(self._turns), *((2, n) if self.mixture.regression else (n, self.mixture.classes))))

    def _ask(self, X: Floats) -> Floats:
        """The awake experts' predictions, in the form of ``_room``."""
        sets, out, value = self.columns.of(X), self._room(len(X)), np.empty(len(X), dtype=np.int64)
        for (expert, columns, _), own in zip(self._turns, out if out.size else (), strict=False):
            expert.predict_into(sets[columns], value, own)
        return out

    def _learn(self, X: Floats, y: NDArray[Any], numbers: Floats, weights: Floats) -> Prediction:
        """Predict, then learn one chunk; experts may rest afterwards."""
        sets, n, value = self.columns.absorb(X, numbers), len(X), np.empty(len(X), dtype=np.int64)
        out = self._out_of_one if n == 1 else self._room(n)
        for (expert, columns, weighs), own in zip(self._turns, self._views_of_one if n == 1 else out, strict=True):
            expert.learn_into(sets[columns], numbers, NONE_GIVEN, weights if weighs else NONE_GIVEN, value, own)
        mixed = self.mixture.learn(out, y, weights)
        if n and self._chunk == REST_ROWS and self.mixture.rows % REST_ROWS == 0:
            self.mixture.decide()
            self._take_turns()
        return mixed

    def add_class(self) -> None:
        """One more class, for every expert."""
        for expert in self.experts.values():
            expert.add_class()
        self.mixture.add_class()
        self._take_turns()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        return in_chunks(lambda part: self.mixture.predict(self._ask(part)), chunks(0, _CHUNK_ROWS, len(X)), X)

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Predict, then learn X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        own, numbers = np.ascontiguousarray(y, dtype=self._label_type), np.ascontiguousarray(y, dtype=np.float64)
        weights = NONE_GIVEN if weights is None else weights
        if len(X) == 1:
            return self._learn(X, own, numbers, weights)
        return in_chunks(self._learn, chunks(self.mixture.rows, self._chunk, len(X)), X, own, numbers, weights)

    def forget(self) -> None:
        """Every expert that can discounts its past, and the weights start again."""
        for expert in self.experts.values():
            if isinstance(expert, Forgetful):
                expert.forget()
        self.mixture.forget()
        self._take_turns()

    def extend(self, other: Self, places: Ints) -> None:
        """Continue for a learner with fewer columns; see ``core.contract.Extensible``.

        Experts that cannot continue start again, with its classes.
        """
        self.columns.extend(other.columns, places)
        anew = []
        for recipe in self._recipes:
            mine, smaller = self.experts[recipe.name], other.experts.get(recipe.name)
            at = self.columns.places(recipe.columns, places, other.columns)
            if at is not None and isinstance(mine, Extensible) and type(mine) is type(smaller):
                mine.extend(smaller, at)
            else:
                anew.append(recipe.name)
        self.mixture.extend(other.mixture, anew)
        self._take_turns()

    def weights(self) -> None:
        """None: the mixture is not linear."""
        return

    def posterior(self, view: View) -> Header:
        """Every expert with its share, its family and its own posterior over the columns that it reads.

        Those of the family "labels" read none.
        """
        shares = zip(self.mixture.names, self.mixture.weights.tolist(), strict=True)
        found: Header = {name: {"share": share, "family": "labels", "posterior": None} for name, share in shares}
        for recipe in self._recipes:
            own = self.experts[recipe.name].posterior(self.columns.view(recipe.columns, view))
            found[recipe.name] |= {"family": recipe.algorithm, "posterior": own}
        return {"experts": found}

    def info(self) -> Header:
        """Rows, and every expert with its weight and its performance."""
        return {"rows": self.mixture.rows, "experts": self.mixture.report()}

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return super().nbytes + self.object_bytes

    def parts(self) -> dict[str, Any]:
        """Columns, experts and mixture."""
        return {"columns": self.columns, **self.experts, "mixture": self.mixture}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``core.contract.Learner``."""
        if set(header) != set(self.parts()):
            raise ValueError(f"the state must be one of {sorted(self.parts())}")
        fresh = type(self)(self._spec)
        Nested.load_arrays(fresh, arrays, header)
        if fresh.mixture.resting.any() and self._chunk != REST_ROWS:
            raise ValueError("experts that learn in blocks never rest")
        self.columns, self.experts, self.mixture = fresh.columns, fresh.experts, fresh.mixture
        self._take_turns()

    def explain(self, x: Floats) -> Header:
        """What each expert predicts for one row x (1, d).

        Returns:
            ``experts``: for each awake expert that reads columns, its name, its weight, and its probabilities of the
            ``classes``, in their order, or its ``prediction``; ``classes``: their indices; ``ambiguity``: None.
        """
        weights, out = self.mixture.weights.tolist(), self._ask(x)
        out = (out[:, 0] if len(out) else out).tolist()
        return {
            "classes": [*range(self.mixture.classes)],
            "experts": [
                {"expert": self.mixture.names[at], "weight": weights[at]}
                | ({"prediction": own[0]} if self.mixture.regression else {"probabilities": own})
                for at, own in zip(self.mixture.awake, out, strict=False)
            ],
            "ambiguity": None,
        }
