"""`auto`: experts of all families on shared columns, and their mixture.

    X  -columns->  raw, scaled, random, products, lagged  -experts->  P  -mixture->  prediction

Every expert learns every row, but for those that rest (core.learners.auto.resting). An expert that takes no row weights
counts each row once; the mixture counts all by their weights. Experts and column sets: core.learners.auto.experts;
equations: core.learners.auto.mixing for classes, number_mixing for numbers.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from core.contract import Extensible, Floats, Forgetful, Header, Ints, Learner, Prediction, Spec
from core.learners.auto.columns import Columns
from core.learners.auto.experts import OBJECT_BYTES, expert_spec, recipes
from core.learners.auto.mixture import Mixture
from core.learners.auto.number_mixture import NumberMixture
from core.learners.auto.resting import REST_ROWS
from core.state.nesting import Nested

_NONE = np.empty(0)
_CHUNK_ROWS = 1024
"""Rows whose columns and predictions are held at once; chunks end at absolute row numbers, as blocks do. Where experts
may rest they are REST_ROWS."""


class Auto(Nested):
    """What is the same for classes and numbers.

    State: that of its parts, the columns, every expert, and the mixture.

    Attributes:
        experts: the learners by their names.
    """

    mixing: ClassVar[type[Mixture | NumberMixture]]
    extensible: ClassVar = True

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._recipes = recipes(spec)
        self.columns = Columns(spec, self._recipes)
        self.experts: dict[str, Learner] = {
            recipe.name: recipe.family.build(expert_spec(spec, recipe)) for recipe in self._recipes
        }
        self.mixture: Any = self.mixing([*self.experts])
        exact = all(recipe.family.row_exact(expert_spec(spec, recipe)) for recipe in self._recipes)
        self._chunk = REST_ROWS if exact else _CHUNK_ROWS
        self._take_turns()

    def _take_turns(self) -> None:
        """What every row needs of the experts awake, and which column sets they read."""
        awake = {self.mixture.names[place] for place in self.mixture.awake}
        recipes_awake = [recipe for recipe in self._recipes if recipe.name in awake]
        self._turns = [
            (self.experts[recipe.name], recipe.columns, recipe.family.row_weights) for recipe in recipes_awake
        ]
        self.columns.read = {recipe.columns for recipe in recipes_awake}

    @abstractmethod
    def _predict(self, X: Floats) -> Prediction:
        """Predict one chunk."""

    @abstractmethod
    def _learn(self, X: Floats, y: NDArray[Any], weights: Floats | None) -> Prediction:
        """Test, then train on one chunk."""

    def add_class(self) -> None:
        """One more class, for every expert."""
        for expert in self.experts.values():
            expert.add_class()
        self.mixture.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        if X.shape[0] <= _CHUNK_ROWS:
            return self._predict(X)
        return _joined([self._predict(X[at : at + _CHUNK_ROWS]) for at in range(0, X.shape[0], _CHUNK_ROWS)])

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        n, end = X.shape[0], self._chunk - self.mixture.rows % self._chunk
        if n < end:
            return self._learn(X, y, weights)
        told, begin = [], 0
        while begin < n:
            part = slice(begin, end)
            told.append(self._learn(X[part], y[part], None if weights is None else weights[part]))
            if end <= n and self._chunk == REST_ROWS:
                self.mixture.decide()
                self._take_turns()
            begin, end = end, end + self._chunk
        return _joined(told) if len(told) > 1 else told[0]

    def forget(self) -> None:
        """Every expert that can discounts its past, and all are weighed anew."""
        for expert in self.experts.values():
            if isinstance(expert, Forgetful):
                expert.forget()
        self.mixture.forget()
        self._take_turns()

    def extend(self, other: Self, places: Ints) -> None:
        """Go on for a learner of fewer columns; see ``core.contract.Extensible``.

        Experts that cannot start anew, with its classes.
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

    def _told(self, said: Floats) -> Iterator[tuple[str, float, Any]]:
        """Names and weights of the experts awake that read columns, beside what they say (A, ...)."""
        weights = self.mixture.weights.tolist()
        places = self.mixture.awake[: len(self._turns)].tolist()
        return ((self.mixture.names[at], weights[at], own) for at, own in zip(places, said.tolist(), strict=True))

    def weights(self) -> None:
        """None: the mixture is not linear."""
        return

    def info(self) -> Header:
        """Rows, and every expert with its weight and how well it does."""
        return {"rows": self.mixture.rows, "experts": self.mixture.report()}

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return super().nbytes + OBJECT_BYTES

    def parts(self) -> dict[str, Any]:
        """Columns, experts and mixture."""
        return {"columns": self.columns, **self.experts, "mixture": self.mixture}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        if set(header) != set(self.parts()):
            raise ValueError(f"the state must be one of {sorted(self.parts())}")
        fresh = type(self)(self._spec)
        Nested.load_arrays(fresh, arrays, header)
        if fresh.mixture.resting.any() and fresh._chunk != REST_ROWS:  # noqa: SLF001  of its own class
            raise ValueError("experts that learn in blocks never rest")
        fresh._take_turns()  # noqa: SLF001  likewise
        vars(self).update(vars(fresh))


class AutoClassifier(Auto):
    """The learner behind `auto` for classification."""

    mixing = Mixture

    def _predict(self, X: Floats) -> Prediction:
        return Prediction(*self.mixture.predict(self._said(X)))

    def _said(self, X: Floats) -> Floats:
        """Probabilities P (E, n, K) of the experts."""
        sets = self.columns.of(X)
        P = np.empty((len(self._turns), X.shape[0], self.mixture.classes))
        for own, (expert, columns, _) in zip(P, self._turns, strict=True):
            own[:] = expert.predict(sets[columns]).probabilities
        return P

    def _learn(self, X: Floats, y: NDArray[Any], weights: Floats | None) -> Prediction:
        labels = np.ascontiguousarray(y, dtype=np.int64)
        sets = self.columns.absorb(X)
        P = np.empty((len(self._turns), X.shape[0], self.mixture.classes))
        for own, (expert, columns, weighs) in zip(P, self._turns, strict=True):
            own[:] = expert.learn(sets[columns], labels, None, weights if weighs else None).probabilities
        return Prediction(*self.mixture.learn(P, labels, _NONE if weights is None else weights))

    def explain(self, x: Floats) -> Header:
        """What each expert says of one row x (1, d).

        Returns:
            ``classes``: the indices of the classes; ``experts``: for each that is awake and reads columns its name, its
            weight and its probabilities of the classes, in their order; ``ambiguity``: None.
        """
        told = self._told(self._said(x)[:, 0])
        return {
            "classes": [*range(self.mixture.classes)],
            "experts": [{"expert": name, "weight": weight, "probabilities": p} for name, weight, p in told],
            "ambiguity": None,
        }


class AutoRegressor(Auto):
    """The learner behind `auto` for regression."""

    mixing = NumberMixture

    def _predict(self, X: Floats) -> Prediction:
        value, std = self.mixture.predict(*self._said(X))
        return Prediction(value, None, std)

    def _said(self, X: Floats) -> tuple[Floats, Floats]:
        """What the experts predict (E, n), and their deviations (E, n)."""
        sets = self.columns.of(X)
        P, S = np.empty((2, len(self._turns), X.shape[0]))
        for e, (expert, columns, _) in enumerate(self._turns):
            P[e], _, S[e] = expert.predict(sets[columns])
        return P, S

    def _learn(self, X: Floats, y: NDArray[Any], weights: Floats | None) -> Prediction:
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        sets = self.columns.absorb(X, numbers)
        P, S = np.empty((2, len(self._turns), X.shape[0]))
        for e, (expert, columns, weighs) in enumerate(self._turns):
            P[e], _, S[e] = expert.learn(sets[columns], numbers, None, weights if weighs else None)
        value, std = self.mixture.learn(P, S, numbers, _NONE if weights is None else weights)
        return Prediction(value, None, std)

    def explain(self, x: Floats) -> Header:
        """What each expert says of one row x (1, d).

        Returns:
            ``experts``: for each that is awake and reads columns its name, its weight and its ``prediction``;
            ``classes``: none; ``ambiguity``: None.
        """
        told = self._told(self._said(x)[0][:, 0])
        return {
            "classes": [],
            "experts": [{"expert": name, "weight": weight, "prediction": value} for name, weight, value in told],
            "ambiguity": None,
        }


def _joined(told: list[Prediction]) -> Prediction:
    """The predictions of consecutive rows."""
    value, probabilities, std = zip(*told, strict=True)
    return Prediction(
        np.concatenate(value),
        None if probabilities[0] is None else np.concatenate(probabilities),
        None if std[0] is None else np.concatenate(std),
    )
