"""A team of `auto`: experts and the mixture of their predictions (core.learners.auto.learner)."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from core.contract import Extensible, Floats, Forgetful, Header, Ints, Prediction, Spec
from core.learners.auto.columns import Columns
from core.learners.auto.experts import GROWING, Recipe, expert_spec
from core.learners.auto.mixture import ExpertMixture
from core.learners.auto.resting import REST_ROWS
from core.learners.learner import NONE_GIVEN, RowLearner
from core.learners.posterior import View
from core.state.envelope import Nested


class Team(Nested):
    """Experts, and the mixture of their predictions; when they rest depends on the rows that the team has learned.

    ``spec`` is that of `auto`; with ``rests`` experts may rest.
    """

    def __init__(self, spec: Spec, recipes: tuple[Recipe, ...], rests: bool) -> None:
        self._recipes, self._rests = recipes, rests
        self.experts: dict[str, RowLearner] = {
            recipe.name: cast(RowLearner, recipe.family.build(expert_spec(spec, recipe))) for recipe in recipes
        }
        self.mixture = ExpertMixture([*self.experts], regression=spec.task == "regression")
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
        self.read = {recipe.columns for recipe in recipes_awake}  # column sets

    def _room(self, n: int) -> Floats:
        """Room for the awake experts' predictions: numbers and deviations (A, 2, n), or probabilities (A, n, K)."""
        return np.empty((len(self._turns), *((2, n) if self.mixture.regression else (n, self.mixture.classes))))

    def ask(self, sets: dict[int, Floats], n: int) -> Floats:
        """The awake experts' predictions of n rows, in the form of ``_room``."""
        out, value = self._room(n), np.empty(n, dtype=np.int64)
        for (expert, columns, _), own in zip(self._turns, out if out.size else (), strict=False):
            expert.run_rows(sets[columns], NONE_GIVEN, NONE_GIVEN, NONE_GIVEN, value, own)
        return out

    def learn(
        self, sets: dict[int, Floats], y: NDArray[Any], numbers: Floats, weights: Floats, told: Floats
    ) -> Prediction:
        """Predict, then learn one chunk; experts may rest afterwards."""
        n = len(y)
        value, out = np.empty(n, dtype=np.int64), self._out_of_one if n == 1 else self._room(n)
        for (expert, columns, weighs), own in zip(self._turns, self._views_of_one if n == 1 else out, strict=True):
            expert.run_rows(sets[columns], numbers, NONE_GIVEN, weights if weighs else NONE_GIVEN, value, own)
        mixed = self.mixture.learn(out, y, weights, told)
        if n and self._rests and self.mixture.rows % REST_ROWS == 0:
            self.mixture.decide()
            self._take_turns()
        return mixed

    def add_class(self) -> None:
        """Add a class for every expert."""
        for expert in self.experts.values():
            expert.add_class()
        self.mixture.add_class()
        self._take_turns()

    def forget(self) -> None:
        """Discount the past of every expert that can do so, and restart the weights."""
        for expert in self.experts.values():
            if isinstance(expert, Forgetful):
                expert.forget()
        self.mixture.forget()
        self._take_turns()

    def extend(self, other: "Team", columns: Columns, smaller: Columns, places: Ints) -> None:
        """Continue from a team whose ``smaller`` columns are those at ``places``.

        Experts that cannot continue restart with the same classes.
        """
        anew = []
        for recipe in self._recipes:
            mine, theirs = self.experts[recipe.name], other.experts.get(recipe.name)
            at = columns.places(recipe.columns, places, smaller)
            if at is not None and isinstance(mine, Extensible) and type(mine) is type(theirs):
                mine.extend(theirs, at)
            else:
                anew.append(recipe.name)
        self.mixture.extend(other.mixture, anew)
        if not self._rests:  # with this many columns nothing would wake them later
            self.mixture.wake_all()
        self._take_turns()

    def posterior(self, columns: Columns, view: View) -> Header:
        """Every expert with its share, its family and its own posterior over the columns that it reads.

        Experts of the family "labels" read none.
        """
        shares = zip(self.mixture.names, self.mixture.weights.tolist(), strict=True)
        found: Header = {name: {"share": share, "family": "labels", "posterior": None} for name, share in shares}
        for recipe in self._recipes:
            own = self.experts[recipe.name].posterior(columns.view(recipe.columns, view))
            found[recipe.name] |= {"family": recipe.algorithm, "posterior": own}
        return found

    def explain(self, sets: dict[int, Floats]) -> list[Header]:
        """Each awake expert that reads columns: its weight, and what it predicts for one row."""
        weights, out = self.mixture.weights.tolist(), self.ask(sets, 1)
        out = (out[:, 0] if len(out) else out).tolist()
        return [
            {"expert": self.mixture.names[at], "weight": weights[at]}
            | ({"prediction": own[0]} if self.mixture.regression else {"probabilities": own})
            for at, own in zip(self.mixture.awake, out, strict=False)
        ]

    @property
    def growing_bytes(self) -> int:
        """Bytes of ``nbytes`` that a team takes only after many rows."""
        return sum(self.experts[recipe.name].nbytes for recipe in self._recipes if recipe.algorithm in GROWING)

    def parts(self) -> dict[str, Any]:
        """Experts and mixture."""
        return {**self.experts, "mixture": self.mixture}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; after a ``ValueError`` the team is unusable."""
        super().load_arrays(arrays, header)
        self.settle()

    def settle(self) -> None:
        """Adopt a state that was just loaded; refuse one in which experts rest although they may not."""
        if self.mixture.resting.any() and not self._rests:
            raise ValueError("experts that learn in blocks never rest")
        self._take_turns()
