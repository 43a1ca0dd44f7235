"""What the catalogue lists of `auto`; its parameter, costs."""

from core.contract import Learner, Spec
from core.features.lags import LagColumns
from core.features.scaling import scaler_bytes
from core.learners.algorithm import Algorithm
from core.learners.auto.experts import (
    LAGGED,
    LAGGED_LABELS,
    OBJECT_BYTES,
    RANDOM,
    SIZES,
    Recipe,
    expert_spec,
    random_features,
    recipes,
)
from core.problems import Param

_FEATURE_COST, _MIXING_COST = 20.0, 60.0
"""Floating-point operations of a cosine, and of mixing one expert's probability of one class."""


def build(spec: Spec) -> Learner:
    """An empty learner."""
    from core.learners.auto.learner import Auto  # noqa: PLC0415  kernels load with a model

    return Auto(spec)


def size(spec: Spec, classes: int) -> int:
    """Bytes of the states of all experts, of their mixture, of the scaler, and of the random features."""
    from core.learners.auto.mixture import Mixture  # noqa: PLC0415  likewise

    experts = recipes(spec)
    own = sum(recipe.family.state_bytes(expert_spec(spec, recipe), classes) for recipe in experts)
    mixture = Mixture([recipe.name for recipe in experts], regression=spec.task == "regression")
    lags = LagColumns(spec.dimension, 1, LAGGED_LABELS).nbytes if _read(experts, LAGGED) else 0
    features = 8 * _drawn(spec, experts) * (spec.dimension + 1)
    mixed = mixture.layout.bytes(**mixture.sizes(classes)) + mixture.object_bytes
    return own + mixed + lags + features + scaler_bytes("robust", spec.dimension) + OBJECT_BYTES


def cost(spec: Spec, classes: int) -> float:
    """Floating-point operations of a row: all experts', a cosine per random feature, and the mixture's."""
    experts = recipes(spec)
    own = sum(recipe.family.row_cost(expert_spec(spec, recipe), classes) for recipe in experts)
    features = _drawn(spec, experts) * (2.0 * spec.dimension + _FEATURE_COST)
    return own + features + _MIXING_COST * (len(experts) + 4.0) * max(classes, 1)


def row_exact(spec: Spec) -> bool:
    """Whether every expert learns a block as its rows one by one, bit for bit."""
    return all(recipe.family.row_exact(expert_spec(spec, recipe)) for recipe in recipes(spec))


def _drawn(spec: Spec, experts: tuple[Recipe, ...]) -> int:
    return random_features(spec) if _read(experts, RANDOM) else 0


def _read(experts: tuple[Recipe, ...], columns: int) -> bool:
    return any(recipe.columns == columns for recipe in experts)


_SIZE = Param(
    "size",
    "choice",
    "medium",
    "How many experts learn every row: speed for accuracy; core/learners/README.md has measured figures.",
    choices=SIZES,
)

ALGORITHMS = (
    Algorithm(
        id="auto",
        tasks=("classification", "regression"),
        summary="Experts of all families side by side, mixed row by row: nothing has to be chosen.",
        use_when=(
            "Nothing speaks for another one: it is the most accurate on every kind of stream measured, at 16 us a "
            "row where dfop takes 4."
        ),
        paper="Hinton, Neural Computation 14, 2002 (pools); Herbster, Warmuth, Machine Learning 32, 1998 (fixed share)",
        equation="p = c · Πₑ pₑ^(aₑ vₑ) / Z + (1 − c) · Σₑ bₑ pₑ^aₑ; weights follow the a-priori losses",
        params=(_SIZE,),
        build=build,
        size=size,
        cost=cost,
        row_exact=row_exact,
        row_weights=True,
    ),
)
