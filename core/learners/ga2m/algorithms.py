"""What the catalogue lists of additive models: ``ga2m``; parameters, costs."""

from core.contract import Learner, Spec
from core.learners.algorithm import Algorithm, declared_bytes
from core.learners.ga2m.bins import active
from core.learners.parameters import SCALING
from core.problems import Param


def build(spec: Spec) -> Learner:
    """An empty learner."""
    from core.learners.ga2m.learner import Ga2m  # noqa: PLC0415  its kernels load with the first model

    return Ga2m(spec)


def size(spec: Spec, classes: int) -> int:
    """Bytes of a state and its objects."""
    from core.learners.ga2m.learner import Ga2m  # noqa: PLC0415  its kernels load with the first model

    return declared_bytes(Ga2m, spec, classes)


def cost(spec: Spec, classes: int) -> float:
    """Floating-point operations of a row: some twenty for every cell that it is in, and column of the classes."""
    return 20.0 * active(spec) * (max(classes, 1) if classes > 2 else 1) + 20.0 * max(classes, 1)


_RATE = Param(
    "learning_rate",
    "number",
    0.2,
    "r: how far a row may move the number of a cell.",
    minimum=0.0,
    maximum=10.0,
    exclusive_minimum=True,
)
_PAIRS = Param("pairs", "boolean", True, "Whether pairs of columns have cells, too; there are none above 64 columns.")

ALGORITHMS = (
    Algorithm(
        id="ga2m",
        tasks=("classification",),
        summary="Adds up one number per bin of a column and of a pair of columns: thresholds, stripes, interactions.",
        paper="Lou, Caruana, Gehrke, Hooker: Accurate Intelligible Models with Pairwise Interactions, KDD 2013",
        equation="p = softmax(Σⱼ fⱼ(zⱼ) + Σᵢⱼ fᵢⱼ(zᵢ, zⱼ)), f constant in bins; AdaGrad on each of them",
        use_when=(
            "Boundaries are thresholds, stripes or interactions of two columns: 89.9 % where no plane parts the "
            "classes (dfop 60.2) at three quarters of its cost, robust to outliers."
        ),
        params=(_RATE, _PAIRS, SCALING),
        build=build,
        size=size,
        cost=cost,
        row_weights=True,
    ),
)
