"""An algorithm as the catalogue lists it: what it is, its parameters, and what its learner will cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast, runtime_checkable

from core.contract import Forgetful, Header, Learner, Spec, Task, Watchful
from core.problems import Invalid, Param, suggestion
from core.state.layout import Layout

CLASS_BOUND = 100
"""Classes that a model learns at most, if its algorithm says nothing else."""
_NUMBER_COST = 6.0


@runtime_checkable
class Declared(Protocol):
    """A class of learners that says how large they will be: an algorithm that builds it needs no ``size``."""

    layout: Layout
    object_bytes: int
    """Memory of the objects around the arrays."""

    @staticmethod
    def sizes(spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""


def _always(_spec: Spec) -> bool:
    return True


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of the catalogue.

    Attributes:
        id: name in the API.
        tasks: tasks it can learn; a model may leave ``task`` out only where there is exactly one.
        summary: one sentence.
        use_when: for which streams to take it, in one line with measured figures (core/learners/README.md).
        paper: where it comes from.
        equation: what it minimises or how it updates, in one line of plain text, with the letters of Unicode.
        params: its parameters. One named ``mapping`` makes it a learner for changes of features, which also needs
            ``variant`` and ``horizon`` (core.switching.phases); ``compressed_dim`` means named sparse rows.
        build: makes an empty learner from a spec.
        size: bytes of memory a state takes, from a spec and the number of classes; None: as ``build`` declares.
        cost: floating-point operations of learning one row (coarse); None: some for every number of the state.
        row_exact: whether with a spec a block is its rows bit for bit, however it is cut; else to round-off only.
        row_discounts: whether a feedback row may carry its own ``discount``.
        row_weights: whether a feedback row may carry its own ``weight``.
        class_bound: the largest number of classes it learns.
        probabilities: whether a classifier says how probable the classes are, not only which one it takes.
        selects: whether after a switch one expert's prediction is drawn for each row instead of a mixture of all.
    """

    id: str
    tasks: tuple[Task, ...]
    summary: str
    use_when: str
    paper: str
    equation: str
    params: tuple[Param, ...]
    build: Callable[[Spec], Learner]
    size: Callable[[Spec, int], int] | None = None
    cost: Callable[[Spec, int], float] | None = None
    row_exact: Callable[[Spec], bool] = _always
    row_discounts: bool = False
    row_weights: bool = False
    class_bound: int = CLASS_BOUND
    probabilities: bool = True
    selects: bool = False

    def __post_init__(self) -> None:
        if None in {self.size, self.cost} and not isinstance(self.build, Declared):
            raise TypeError(f"{self.id}: its learner declares no sizes, so it needs size and cost")

    def state_bytes(self, spec: Spec, classes: int) -> int:
        """Bytes of memory that a state takes."""
        if self.size is not None:
            return self.size(spec, classes)
        return declared_bytes(cast(Declared, self.build), spec, classes)

    def row_cost(self, spec: Spec, classes: int) -> float:
        """Floating-point operations of learning one row (coarse)."""
        if self.cost is not None:
            return self.cost(spec, classes)
        return _NUMBER_COST * self.state_bytes(spec, classes) / 8

    def own_tests(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """The kinds of drift tests that a learner with these parameters makes itself."""
        if not isinstance(self._example, Watchful):
            return ()
        return tuple(getattr(self._smallest(params), "own_tests", ()))

    @cached_property
    def forgets(self) -> bool:
        """Whether its learner is ``Forgetful``."""
        return isinstance(self._example, Forgetful)

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
        assert self._example is not None

    @property
    def loaded(self) -> bool:
        """Whether ``load`` has nothing left to do."""
        return "_example" in vars(self)

    @cached_property
    def _example(self) -> Learner:
        return self._smallest(self.complete({}))

    def _smallest(self, params: Mapping[str, Any]) -> Learner:
        return self.build(Spec(self.tasks[0], 1, params))

    def _has(self, name: str) -> bool:
        return any(param.name == name for param in self.params)

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check parameters and fill in the defaults, in the order of ``params``.

        Raises:
            Invalid: an unknown name (``allowed`` lists the known ones) or a value out of range.
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


def declared_bytes(learner: Declared, spec: Spec, classes: int) -> int:
    """Bytes of memory that a learner of this class takes."""
    return learner.layout.bytes(**learner.sizes(spec, classes)) + learner.object_bytes
