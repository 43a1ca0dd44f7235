"""`auto` for classes: experts of all families on shared columns, and their mixture.

    X  -columns->  raw, scaled, random, products  -experts->  P (E, n, K)  -mixture->  classes, probabilities (n, K)

Every expert learns every row. An expert that takes no row weights counts each row once; the mixture counts all by
their weights. Experts and column sets: core.learners.auto.experts; equations: core.learners.auto.mixing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Extensible, Floats, Forgetful, Header, Ints, Learner, Prediction, Spec, Weights
from core.learners.auto.columns import Columns
from core.learners.auto.experts import OBJECT_BYTES, expert_spec, recipes
from core.learners.auto.mixture import Mixture
from core.state.nesting import Nested

_NONE = np.empty(0)
_CHUNK_ROWS = 1024
"""Rows whose columns and predictions are held at once; chunks end at absolute row numbers, as blocks do."""


class AutoClassifier(Nested):
    """The learner behind `auto` for classification.

    State: that of its parts, the scaler of its columns, every expert, and the mixture.

    Attributes:
        experts: the learners by their names.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._recipes = recipes(spec)
        self.columns = Columns(spec, self._recipes)
        self.experts: dict[str, Learner] = {
            recipe.name: recipe.family.build(expert_spec(spec, recipe)) for recipe in self._recipes
        }
        self.mixture = Mixture([*self.experts])
        self._prepare()

    def _prepare(self) -> None:
        """What every row needs of each expert."""
        self._turns = [
            (self.experts[recipe.name], recipe.columns, recipe.family.row_weights) for recipe in self._recipes
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return super().nbytes + OBJECT_BYTES

    @property
    def classes(self) -> int:
        """Classes seen."""
        return self.mixture.classes

    def add_class(self) -> None:
        """One more class, for every expert."""
        for expert in self.experts.values():
            expert.add_class()
        self.mixture.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        if X.shape[0] <= _CHUNK_ROWS:
            return Prediction(*self._predict(X))
        starts = range(0, X.shape[0], _CHUNK_ROWS)
        return _joined([self._predict(X[begin : begin + _CHUNK_ROWS]) for begin in starts])

    def _predict(self, X: Floats) -> tuple[Ints, Floats]:
        return self.mixture.predict(self._said(X))

    def _said(self, X: Floats) -> Floats:
        """Probabilities P (E, n, K) of the experts."""
        sets = self.columns.of(X)
        P = np.empty((len(self._turns), X.shape[0], self.classes))
        for own, (expert, columns, _) in zip(P, self._turns, strict=True):
            own[:] = expert.predict(sets[columns]).probabilities
        return P

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        n, end = X.shape[0], _CHUNK_ROWS - self.mixture.rows % _CHUNK_ROWS
        if n <= end:
            return Prediction(*self._learn(X, y, weights))
        told, begin = [], 0
        while begin < n:
            part = slice(begin, end)
            told.append(self._learn(X[part], y[part], None if weights is None else weights[part]))
            begin, end = end, end + _CHUNK_ROWS
        return _joined(told)

    def _learn(self, X: Floats, y: NDArray[Any], weights: Floats | None) -> tuple[Ints, Floats]:
        sets = self.columns.absorb(X)
        P = np.empty((len(self._turns), X.shape[0], self.classes))
        for own, (expert, columns, weighs) in zip(P, self._turns, strict=True):
            own[:] = expert.learn(sets[columns], y, None, weights if weighs else None).probabilities
        return self.mixture.learn(P, np.ascontiguousarray(y, dtype=np.int64), _NONE if weights is None else weights)

    def forget(self) -> None:
        """Every expert that can discounts its past, and all are weighed anew."""
        for expert in self.experts.values():
            if isinstance(expert, Forgetful):
                expert.forget()
        self.mixture.forget()

    extensible = True

    def extend(self, other: "AutoClassifier", places: Ints) -> None:
        """Go on for a learner of fewer columns; see ``core.contract.Extensible``.

        Experts that cannot start anew with its classes.
        """
        self.columns.scaler.extend(other.columns.scaler, places)
        anew = []
        for recipe in self._recipes:
            mine, smaller = self.experts[recipe.name], other.experts.get(recipe.name)
            at = self.columns.places(recipe.columns, places, other.columns)
            if at is not None and isinstance(mine, Extensible) and type(mine) is type(smaller):
                mine.extend(smaller, at)
            else:
                anew.append(recipe.name)
        self.mixture.extend(other.mixture, anew)

    def weights(self) -> Weights | None:
        """None: the mixture is not linear."""
        return None

    def explain(self, x: Floats) -> Header:
        """What each expert says of one row x (1, d).

        Returns:
            ``classes``: the indices of the classes; ``experts``: for each that reads columns its name, its weight and
            its probabilities of the classes, in their order; ``ambiguity``: None.
        """
        said = self._said(x)[:, 0].tolist()
        weights = self.mixture.weights.tolist()
        told = zip(self.experts, weights, said, strict=False)
        return {
            "classes": [*range(self.classes)],
            "experts": [{"expert": name, "weight": weight, "probabilities": p} for name, weight, p in told],
            "ambiguity": None,
        }

    def info(self) -> Header:
        """Rows, and every expert with its weight and accuracy."""
        return {"rows": self.mixture.rows, "experts": self.mixture.report()}

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
        fresh = AutoClassifier(self._spec)
        Nested.load_arrays(fresh, arrays, header)
        vars(self).update(vars(fresh))


def _joined(told: list[tuple[Ints, Floats]]) -> Prediction:
    values, probabilities = zip(*told, strict=True)
    return Prediction(np.concatenate(values), np.concatenate(probabilities))
