"""The catalogue entry of additive models: ``ga2m``, with its parameters."""

from dataclasses import replace

from core.learners.algorithm import Algorithm
from core.learners.parameters import SCALING
from core.problems import Param

_RATE = Param(
    "learning_rate",
    "number",
    0.2,
    "r: how far one row may move the number of a cell; only for classes.",
    gt=0.0,
    le=10.0,
)
_PAIRS = Param(
    "pairs", "boolean", True, "Whether pairs of columns have cells, too; with more than 64 columns they never do."
)
_SCALING = replace(SCALING, meaning=f"{SCALING.meaning} With minmax, two thirds of the bins stay empty.")

ALGORITHMS = (
    Algorithm(
        id="ga2m",
        tasks=("classification", "regression"),
        summary="Adds up one number per bin of each column and pair of columns: thresholds, stripes, interactions.",
        paper="Lou, Caruana, Gehrke, Hooker: Accurate Intelligible Models with Pairwise Interactions, KDD 2013",
        equation=(
            "p = softmax(Σⱼ fⱼ(zⱼ) + Σᵢⱼ fᵢⱼ(zᵢ, zⱼ)), f constant in bins; AdaGrad on each of them; numbers: the sum, "
            "by a diagonal Kalman filter"
        ),
        use_when=(
            "Boundaries are thresholds, stripes or interactions of two columns: 89.9 % if no plane separates the "
            "classes (dfop 60.2), at three quarters of dfop's cost; numbers of that kind with squared errors of .15 of "
            "the variance (dfop .44); robust to outliers."
        ),
        params=(_RATE, _PAIRS, _SCALING),
        learner="core.learners.ga2m.learner:Ga2m",
        row_weights=True,
    ),
)
