"""An algorithm of the catalogue: its description, its parameters, and the cost of its learner."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, cast

from core.contract import Header, Learner, Spec, Task
from core.learners.learner import CLASS_BOUND, RowLearner
from core.learners.parameters import FEATURE_OBJECT_BYTES
from core.problems import Invalid, Param, suggestion

COSINE_COST = 20.0  # cost of a random feature beyond its inner product, in floating-point operations
LOADED: set[str] = set()  # ids of the algorithms that this process has loaded


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of the catalogue.

    A parameter ``mapping`` makes it a learner for changes of features, which also needs ``variant`` and ``horizon``
    (core.switching.phases); ``compressed_dim`` means named sparse rows; ``random_features`` R of them are learned like
    R further columns (core.learners.expanded).
    """

    id: str  # name in the API
    tasks: tuple[Task, ...]  # the tasks it can learn; a model may omit ``task`` only if there is exactly one
    summary: str  # one sentence
    use_when: str  # for which streams to choose it, in one line with measured figures (core/learners/README.md)
    paper: str  # where it comes from
    equation: str  # what it minimises or how it updates, in one line of Unicode text
    params: tuple[Param, ...]
    learner: str  # "module:name" of the learner's class: imported, with its kernels, for the first model
    row_discounts: bool = False  # whether a feedback row may carry its own ``discount``
    row_weights: bool = False  # likewise ``weight``
    row_pasts: bool = False  # whether it learns tracked rows by what was known when they were predicted
    class_bound: int = CLASS_BOUND  # the largest number of classes it learns
    probabilities: bool = True  # whether a classifier gives class probabilities, not only one class
    slow_calibration: bool = False  # whether it mixes predictions that are calibrated already (core.model.calibration)
    selects: bool = False  # whether after a switch one expert is drawn for each row instead of a mixture of all
    observes: bool = False  # whether it makes no predictions but judges those of a model outside Onepass

    @cached_property
    def _class(self) -> type[RowLearner]:
        """The class of the learner: a ``RowLearner``, or a class with the same class methods."""
        found: type[RowLearner] = resolve_name(self.learner)
        return found

    def build(self, spec: Spec) -> Learner:
        """An empty learner."""
        own = expanded(spec)
        learner = self._class(own)
        if own is spec:
            return learner
        from core.learners.expanded import Expanded, Linear  # noqa: PLC0415  its kernels load with the first model

        return Expanded(spec, cast(Linear, learner))

    def state_bytes(self, spec: Spec, classes: int) -> int:
        """Bytes of memory that a state takes, including random features."""
        R = spec.params.get("random_features", 0)
        features = 8 * R * (spec.dimension + 1) + FEATURE_OBJECT_BYTES if R else 0
        return self._class.state_bytes(expanded(spec), classes) + features

    def row_cost(self, spec: Spec, classes: int) -> float:
        """Floating-point operations of learning one row (coarse)."""
        R = int(spec.params.get("random_features", 0))
        return self._class.row_cost(expanded(spec), classes) + R * (2.0 * spec.dimension + COSINE_COST)

    def row_exact(self, spec: Spec) -> bool:
        """Whether a block gives the same bits as its rows, for this spec; otherwise equal up to round-off."""
        return self._class.row_exact(expanded(spec))

    def own_tests(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """The kinds of drift tests that a learner with these parameters runs itself."""
        if not hasattr(self._class, "own_tests"):
            return ()
        return tuple(getattr(self.build(Spec(self.tasks[0], 1, params)), "own_tests", ()))

    @cached_property
    def forgets(self) -> bool:
        """Whether its learner is ``Forgetful``."""
        return hasattr(self._class, "forget")

    @cached_property
    def evolves(self) -> bool:
        """Whether its parameters say how a switch is made."""
        return self._has("mapping")

    @cached_property
    def sparse(self) -> bool:
        """Whether its rows are named and sparse: no features, but ``compressed_dim`` columns of a projection."""
        return self._has("compressed_dim")

    def load(self) -> None:
        """Import its learner, and with it its compiled kernels; that may take a tenth of a second, and 10 MB."""
        self.build(Spec(self.tasks[0], 1, self.complete({})))
        LOADED.add(self.id)

    @property
    def loaded(self) -> bool:
        """Whether ``load`` has nothing left to do."""
        return self.id in LOADED

    def _has(self, name: str) -> bool:
        return any(param.name == name for param in self.params)

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check parameters and fill in the defaults, in the order of ``params``.

        ``Invalid`` for an unknown name (``allowed`` lists the known ones) or a value out of range.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                meant = suggestion(name, sorted(known))
                raise Invalid.of(f"params.{name}", f"is not a parameter of {self.id}{meant}", sorted(known))
        return {
            name: param.check(given[name], f"params.{name}") if name in given else param.default
            for name, param in known.items()
        }

    def describe(self) -> Header:
        """The algorithm as GET /algorithms shows it; ``params`` is a JSON Schema."""
        properties = {param.name: param.schema() for param in self.params}
        return {
            "id": self.id,
            "tasks": list(self.tasks),
            "summary": self.summary,
            "use_when": self.use_when,
            "paper": self.paper,
            "equation": self.equation,
            "params": {"type": "object", "properties": properties, "additionalProperties": False},
        }


def expanded(spec: Spec) -> Spec:
    """The spec of the learner behind R random features: with d + R columns, whose ranges are unknown."""
    R = spec.params.get("random_features", 0)
    return replace(spec, dimension=spec.dimension + R, ranges=()) if R else spec
