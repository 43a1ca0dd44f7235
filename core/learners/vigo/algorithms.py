"""The catalogue entries of the VIGO family: ``vigo``, ``vigod`` and ``vigow``, with their parameters."""

from dataclasses import replace
from functools import partial

from core.learners.algorithm import Algorithm
from core.learners.parameters import UNSCALED, variant
from core.problems import Param

_PAPER = (
    "Nguyen, Nguyen, Liew, Wang: Variational inference based Bayes online classifiers with concept drift adaptation, "
    "Pattern Recognition 81, 2018"
)
_VARIANT = variant(
    '"paper": W_0 = I without a floor, nu grows by one per update, one building step for all classes, a reset of only '
    "beta, and VIGOw does not forget the covariance."
)
_BATCH = Param(
    "batch_size",
    "integer",
    200,
    "|B|: rows of a class that are learned together, and the size of its recent window.",
    ge=2,
    le=1_000_000,
)
_KEPT = replace(
    _BATCH, meaning="How many rows the past of a class counts for after it forgets at a drift; has no effect otherwise."
)
_DELTA = Param(
    "delta",
    "number",
    0.3,
    "Confidence of the test of class means, in (12): the bound on its false alarms per test.",
    gt=0.0,
    lt=1.0,
)
_RESET = Param(
    "reset",
    "choice",
    "full",
    'What an alarm resets of its class: "full", mean and covariance, or "mean" (Algorithm 3: beta_0 = 0).',
    choices=("full", "mean"),
)
_RESET_ON = Param(
    "reset_on",
    "choice",
    "class_mean",
    'Which alarms reset a class: those of its means (Algorithm 3), or "both": also those of a higher error rate.',
    choices=("class_mean", "both"),
)

_family = partial(Algorithm, tasks=("classification",), paper=_PAPER)

ALGORITHMS = (
    _family(
        id="vigo",
        summary="One Gaussian per class by variational Bayes: quadratic boundaries from few rows, if nothing drifts.",
        use_when=(
            "Classes are clusters that do not move: 80.7 % on shuffled files (dfop 76.4), but 57.1 if 1 % of the rows "
            "are outliers."
        ),
        equation="argmaxₖ cₖ N(x | mₖ, Σₖ), E[Λₖ] = νₖ Wₖ = Σₖ⁻¹; updated after mistakes",
        params=(_KEPT, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigo",
    ),
    _family(
        id="vigod",
        summary="VIGO that tests every |B| rows of a class against all earlier ones, and resets the class at a drift.",
        use_when="Like vigo, if classes sometimes jump: 80.2 % on streams with abrupt changes, vigo 72.8.",
        equation="drift in class k: |mᵢ − x̄ᵢ| / Rᵢ ≥ √(ln(4 D / δ) / (2 nₕ)) for a column i",
        params=(_BATCH, _DELTA, _RESET, _RESET_ON, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigod",
    ),
    _family(
        id="vigow",
        summary="VIGO that weights the last |B| rows of a class as much as all earlier ones; needs no drift alarms.",
        use_when=(
            "Like vigod, if classes move slowly: 87.2 % on drifting streams (vigod 86.9), but 78.6 on streams with "
            "abrupt changes."
        ),
        equation="mₖ ← (mₖ + x̄ₖ) / 2 every |B| rows of class k",
        params=(_BATCH, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigow",
    ),
)
