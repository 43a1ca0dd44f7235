"""The contract between the learners and everything that runs them.

A learner is a deterministic state machine over encoded rows. It sees no clock, no ambient randomness and
does no I/O; where it draws, the draw is a function of (seed, absolute row number, purpose). Each sentence
below is a rule that the conformance suite (tests/core/learners/test_conformance.py) tries to break:

- ``predict`` changes nothing.
- ``learn`` returns for every row the prediction made with the state *before* that row (a-priori), then learns it.
- Learning a block gives the predictions and the state of learning its rows one at a time: bit for bit, or to round-off
  where a learner's docstring says from which number of columns on it learns blocks by matrix products. The same
  calls give the same bits in any case; what a learner cuts by itself depends on absolute row numbers only.
- ``to_arrays`` followed by ``load_arrays`` on a fresh learner of the same spec restores the state bit for bit.
- The same rows in the same order give the same bits.
- No finite input makes a state non-finite; inputs are never mutated.
- Learners do not import each other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from core.problems import Invalid

Task = Literal["classification", "regression"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Header = dict[str, Any]
"""JSON-able scalars that go with a state's arrays."""


class Prediction(NamedTuple):
    """A-priori predictions for n rows.

    Attributes:
        value: regression: predicted numbers, float64 (n,). Classification: indices of the predicted class,
            int64 (n,), -1 where no class has been seen yet.
        probabilities: classification: (n, K) over the K classes seen, rows sum to one; None for regression
            and for learners that have none.
        std: regression: predictive standard deviation (n,), or None.
    """

    value: NDArray[Any]
    probabilities: Floats | None = None
    std: Floats | None = None


class Weights(NamedTuple):
    """A linear model in its own terms.

    Attributes:
        coefficients: (m, d), one row per output; m = 1 for regression, the number of classes seen otherwise.
        bias: (m,), zeros where the learner has no bias column.
    """

    coefficients: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Spec:
    """What a learner is built from.

    Attributes:
        task: "classification" or "regression".
        dimension: number of encoded input columns d >= 1, without the bias, which is the learner's own.
        params: complete and checked parameters (defaults filled in) by name.
        seed: seed of every draw the learner makes.
        ranges: the declared (minimum, maximum) of every encoded column, None where there is none; () where no column
            has one.
    """

    task: Task
    dimension: int
    params: Mapping[str, Any]
    seed: int = 0
    ranges: tuple[tuple[float, float] | None, ...] = ()


ALARM_COLUMNS_MAX = 10
"""Most columns that one alarm names."""


class Alarm(NamedTuple):
    """One firing of a drift test.

    Attributes:
        kind: "class_mean" or "error_rate".
        row: the row that completed the window, as an index within the block just learned.
        cls: class index; 0 for regression, which has one class.
        columns: encoded columns whose means differ, largest first, at most ALARM_COLUMNS_MAX; () for error_rate.
        before: their means in the past window; for error_rate the one error rate.
        after: the same in the recent window.
        epsilon: the difference at which the test fires (class_mean: in ranges of the column).
        n_before: rows in the past window.
        n_after: rows in the recent window.
    """

    kind: str
    row: int
    cls: int
    columns: tuple[int, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    epsilon: float
    n_before: int
    n_after: int


class Learner(Protocol):
    """One model's learning state. Classes are known by index, in the order in which they first appeared."""

    def add_class(self) -> None:
        """Make room for one more class (classification only), called just before its first row is learned."""

    def predict(self, X: Floats) -> Prediction:
        """Predict n rows X (n, d), C-contiguous float64, all finite. Changes nothing."""

    def learn(self, X: Floats, y: NDArray[Any], discounts: Floats | None = None) -> Prediction:
        """Test then train on n rows in order.

        Args:
            X: (n, d) C-contiguous float64, all finite; never mutated.
            y: regression: float64 (n,). Classification: class indices int64 (n,), all below the number of classes.
            discounts: (n,) in (0, 1], only for learners whose algorithm says ``row_discounts``; None: the default.

        Returns:
            The predictions made for each row before it was learned.
        """

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: named arrays (copies or read-only views) and a JSON-able header."""

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: shapes, dtypes or values that no state of this spec can have; the state is unchanged.
        """

    def weights(self) -> Weights | None:
        """The linear model in use, or None where there is none."""

    def info(self) -> Header:
        """What a person wants to see of the state, JSON-able and small."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""


@runtime_checkable
class Transferable(Protocol):
    """A linear learner whose model can be moved to another feature space and averaged with others."""

    def start_at(self, weights: Weights) -> None:
        """Take over a model in the terms of ``weights``: one row per class seen, or one for regression."""

    def restart(self) -> None:
        """A switch is complete: learn faster again, where that is of use; the model stays."""


@runtime_checkable
class Explaining(Protocol):
    """A learner that can say what stands behind a prediction, beside or instead of weights."""

    def explain(self, x: Floats) -> Header:
        """What the learner knows about one row x (1, d), JSON-able and finite; classes by index. Changes nothing."""


@runtime_checkable
class Forgetful(Protocol):
    """A learner whose algorithm says ``forgets``."""

    def forget(self) -> None:
        """The past has become doubtful: keep what is known, but let the next rows outweigh it."""


@runtime_checkable
class Watchful(Protocol):
    """A learner that makes drift tests itself (``Algorithm.own_tests``)."""

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the last ``learn``, in the order of their rows; asked again, there are none."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an algorithm, described well enough to check it and to document it.

    Attributes:
        name: as in the API.
        kind: "number", "integer", "boolean" or "choice".
        default: the value used when the client gives none.
        meaning: one sentence; units; the paper's symbol and equation where there is one.
        minimum, maximum: the allowed range (numbers and integers).
        exclusive_minimum, exclusive_maximum: whether the minimum, the maximum itself is refused.
        choices: allowed words of a "choice"; for a number, words allowed beside it (e.g. "auto").
        refusal: words added to the message when the range is broken.
    """

    name: str
    kind: Literal["number", "integer", "boolean", "choice"]
    default: Any
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    choices: tuple[str, ...] = ()
    refusal: str = ""

    def check(self, value: object, where: str = "params") -> Any:
        """Return the value in its canonical type (1 -> 1.0 for numbers).

        Raises:
            Invalid: wrong type or out of range; ``allowed`` states the range.
        """
        name = f"{where}.{self.name}"
        if isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "boolean" and isinstance(value, bool):
            return value
        if self.kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
            return self._in_range(value, name)
        if self.kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
            return self._in_range(_float(value, name), name)
        raise Invalid.of(name, self._expected, self.allowed)

    @property
    def _expected(self) -> str:
        """What a value of another type is told."""
        if self.kind == "choice":
            return "is not one of the choices"
        words = " or one of the words" if self.choices else ""
        return f"must be {'an' if self.kind == 'integer' else 'a'} {self.kind}{words}"

    def _in_range(self, value: Any, name: str) -> Any:
        low = self.minimum is not None and (value < self.minimum or (self.exclusive_minimum and value == self.minimum))
        high = self.maximum is not None and (value > self.maximum or (self.exclusive_maximum and value == self.maximum))
        if low or high or not np.isfinite(value):
            raise Invalid.of(name, f"is out of range{': ' + self.refusal if self.refusal else ''}", self.allowed)
        return value

    @property
    def allowed(self) -> object:
        """What values are allowed, in words or as a list."""
        if self.kind == "boolean":
            return [True, False]
        if self.kind == "choice":
            return list(self.choices)
        low = "" if self.minimum is None else f"{'> ' if self.exclusive_minimum else '>= '}{self.minimum:g}"
        high = "" if self.maximum is None else f"{'< ' if self.exclusive_maximum else '<= '}{self.maximum:g}"
        span = " and ".join(part for part in (low, high) if part) or f"any finite {self.kind}"
        return " or ".join([span, *(f'"{word}"' for word in self.choices)])

    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        described = {"default": self.default, "description": self.meaning}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices), **described}
        span: dict[str, Any] = {"type": self.kind}
        if self.minimum is not None:
            span["exclusiveMinimum" if self.exclusive_minimum else "minimum"] = self.minimum
        if self.maximum is not None:
            span["exclusiveMaximum" if self.exclusive_maximum else "maximum"] = self.maximum
        if self.choices:
            return {"anyOf": [span, {"type": "string", "enum": list(self.choices)}], **described}
        return {**span, **described}


def _float(value: float, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Invalid.of(name, "is too large for a floating-point number") from None


def no_tests(_params: Mapping[str, Any]) -> tuple[str, ...]:
    """The drift tests of a learner that makes none itself."""
    return ()


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One entry of the catalogue.

    Attributes:
        id: name in the API.
        tasks: tasks it can learn; a model may leave ``task`` out only where there is exactly one.
        summary: one sentence.
        paper: where it comes from.
        equation: what it minimises or how it updates, in one line of plain text.
        params: its parameters.
        build: makes an empty learner from a spec.
        state_bytes: bytes of memory a state takes, from a spec and the number of classes.
        row_cost: floating-point operations of learning one row, from a spec and the number of classes (coarse).
        row_discounts: whether a feedback row may carry its own ``discount``.
        class_bound: the largest number of classes it learns.
        evolves: whether its parameters ``mapping``, ``variant`` and ``horizon`` say how a switch is made.
        selects: whether after a switch one expert's prediction is drawn for each row instead of a mixture of all.
        sparse: whether its rows are named and sparse: no features, but ``compressed_dim`` columns of a projection.
        likeliest: whether the class it predicts is always the most probable one; some have better labels than that.
        forgets: whether its learner is ``Forgetful``.
        own_tests: the kinds of drift tests that its learner makes itself (``Watchful``), from its parameters; it
            answers them itself, too, and starts the class anew.
    """

    id: str
    tasks: tuple[Task, ...]
    summary: str
    paper: str
    equation: str
    params: tuple[Param, ...]
    build: Callable[[Spec], Learner]
    state_bytes: Callable[[Spec, int], int]
    row_cost: Callable[[Spec, int], float]
    row_discounts: bool = False
    class_bound: int = 100
    evolves: bool = False
    selects: bool = False
    sparse: bool = False
    likeliest: bool = True
    forgets: bool = False
    own_tests: Callable[[Mapping[str, Any]], tuple[str, ...]] = no_tests

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check parameters and fill in the defaults, in the order of the catalogue.

        Raises:
            Invalid: an unknown name (``allowed`` lists the known ones) or a value out of range.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                raise Invalid.of(f"params.{name}", f"is not a parameter of {self.id}", sorted(known))
        return {name: param.check(given[name]) if name in given else param.default for name, param in known.items()}

    def describe(self) -> Header:
        """The entry as /algorithms shows it; ``params`` is a JSON Schema."""
        properties = {param.name: param.schema() for param in self.params}
        return {
            "id": self.id,
            "tasks": list(self.tasks),
            "summary": self.summary,
            "paper": self.paper,
            "equation": self.equation,
            "params": {"type": "object", "properties": properties, "additionalProperties": False},
        }
