"""The catalogue entries of FESL: ``fesl_c`` and ``fesl_s``, with their parameters.

Between two switches both are online gradient descent (kernels.py); they differ in how the ensemble after a switch
predicts (core.switching.mixture): combined, or by one expert drawn per row.
"""

from dataclasses import replace

from core.learners.algorithm import Algorithm
from core.learners.parameters import BIAS, SCALING, variant
from core.problems import Param

_PAPER = "Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021"
_PARAMS = (
    Param(
        "learning_rate",
        "number",
        0.7,
        'Length of the AdaGrad steps; with variant "paper" the 1/c of the step 1/(c sqrt t) (Section 6).',
        gt=0.0,
        le=1e3,
    ),
    Param(
        "mapping",
        "choice",
        "linear",
        "How to recover old features from new ones, unless a switch sets its own mapping ((2) and (3)).",
        choices=("linear", "kernel"),
    ),
    variant("Ridge mappings, three experts, AdaGrad; or the paper's mappings, its two experts, horizon and step."),
    Param(
        "horizon",
        "integer",
        1000,
        'T_2, rows until the next switch, which sets the rates of the weights with variant "paper" (Theorems 1 and 3).',
        ge=2,
        le=2**53,
    ),
    SCALING,
    BIAS,
)

_COMBINED = Algorithm(
    id="fesl_c",
    tasks=("classification", "regression"),
    summary="Gradient descent for features that change: after a switch, it combines the experts' predictions.",
    use_when=(
        "A class is rare and class_costs say what missing it costs: it finds .74 of the frauds, auto .73, dfop .66. "
        "After a change of features, dfop is usually more accurate."
    ),
    paper=_PAPER,
    equation="p = Σₖ aₖ pₖ, aₖ ∝ exp(−Σₜ lossₖₜ), over the recovered, the new and the carried model",
    params=_PARAMS,
    learner="core.learners.fesl.learner:GradientDescent",
    row_weights=True,
)
_SELECTED = replace(
    _COMBINED,
    id="fesl_s",
    summary="Like fesl_c, but after a switch, one expert drawn by weight predicts each row.",
    use_when="Like fesl_c, if each prediction after a change of features must come from one expert, not a mixture.",
    equation="p = pₖ with probability aₖ, over the recovered, the new and the carried model",
    selects=True,
)
ALGORITHMS = (_COMBINED, _SELECTED)
