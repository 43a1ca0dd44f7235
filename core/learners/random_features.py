"""The parameter ``random_features`` of algorithms whose learners are linear: all that is known without any kernels."""

from dataclasses import replace
from typing import cast

from core.contract import Learner, Spec
from core.learners.algorithm import Algorithm
from core.problems import Param

RANDOM_FEATURES = Param(
    "random_features",
    "integer",
    0,
    "How many random Fourier features are added to the columns, for what is not linear in them; 100 are a good start. "
    "They need columns of like scale: use scaling with them. There are no weights to show then.",
    minimum=0,
    maximum=10_000,
)
OBJECT_BYTES = 600
"""Memory of the objects around the draws."""
_FEATURE_FLOPS = 20.0
"""What a cosine costs, in floating-point operations."""


def with_random_features(algorithm: Algorithm) -> Algorithm:
    """The algorithm with one more parameter, ``random_features``: R of them are learned like R further columns.

    Its learner says how many rows it has learned and can forget (core.learners.expanded).
    """

    def build(spec: Spec) -> Learner:
        learner = algorithm.build(expanded(spec))
        if not count(spec):
            return learner
        from core.learners.expanded import Expanded, Linear  # noqa: PLC0415  its kernels load with the first model

        return Expanded(spec, cast(Linear, learner))

    def size(spec: Spec, classes: int) -> int:
        own = algorithm.state_bytes(expanded(spec), classes)
        return own + (8 * count(spec) * (spec.dimension + 1) + OBJECT_BYTES if count(spec) else 0)

    def cost(spec: Spec, classes: int) -> float:
        expansion = count(spec) * (2.0 * spec.dimension + _FEATURE_FLOPS)
        return algorithm.row_cost(expanded(spec), classes) + expansion

    def row_exact(spec: Spec) -> bool:
        return algorithm.row_exact(expanded(spec))

    return replace(
        algorithm,
        params=(*algorithm.params, RANDOM_FEATURES),
        build=build,
        size=size,
        cost=cost,
        row_exact=row_exact,
    )


def count(spec: Spec) -> int:
    """R."""
    return int(spec.params["random_features"])


def expanded(spec: Spec) -> Spec:
    """The spec of the learner behind the features: itself, or of d + R columns, of whose ranges nothing is known."""
    R = count(spec)
    return replace(spec, dimension=spec.dimension + R, ranges=()) if R else spec
