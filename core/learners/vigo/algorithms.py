"""What the catalogue lists of the VIGO family: ``vigo``, ``vigod`` and ``vigow``; parameters, costs."""

from functools import partial

from core.learners.algorithm import Algorithm
from core.learners.parameters import UNSCALED
from core.problems import Param

_PAPER = (
    "Nguyen, Nguyen, Liew, Wang: Variational inference based Bayes online classifiers with concept drift adaptation, "
    "Pattern Recognition 81, 2018"
)
_VARIANT = Param(
    "variant",
    "choice",
    "default",
    '"paper": W_0 = I without a floor, nu one larger per update, one building step for all classes, a reset of beta '
    "alone, a covariance that VIGOw does not forget.",
    choices=("default", "paper"),
)
_BATCH = Param(
    "batch_size",
    "integer",
    200,
    "|B|: rows of a class that are learned together, and that the recent window holds.",
    minimum=2,
    maximum=1_000_000,
)
_KEPT = Param(
    "batch_size",
    "integer",
    200,
    "Rows that a class counts for after a drift that is answered by forgetting; without one it has no effect.",
    minimum=2,
    maximum=1_000_000,
)
_DELTA = Param(
    "delta",
    "number",
    0.3,
    "Confidence of the test of class means, in (12): the bound on its false alarms per test.",
    minimum=0.0,
    maximum=1.0,
    exclusive_minimum=True,
    exclusive_maximum=True,
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
    'Which alarms reset: of moved class means (Algorithm 3), or "both" those and those of a risen error rate.',
    choices=("class_mean", "both"),
)

_family = partial(Algorithm, tasks=("classification",), paper=_PAPER)

ALGORITHMS = (
    _family(
        id="vigo",
        summary="A Gaussian per class by variational Bayes: quadratic boundaries from few rows, where nothing drifts.",
        use_when=(
            "Classes are clouds that stay where they are: 80.7 % on shuffled files (dfop 76.4), but 57.1 where 1 % "
            "of the rows are outliers."
        ),
        equation="argmaxₖ cₖ N(x | mₖ, Σₖ), E[Λₖ] = νₖ Wₖ = Σₖ⁻¹; updated after mistakes",
        params=(_KEPT, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigo",
    ),
    _family(
        id="vigod",
        summary="VIGO that tests every |B| rows of a class against all before them, and restarts the class on a drift.",
        use_when="As vigo, where classes jump now and then: 80.2 % on streams that turn at once, vigo 72.8.",
        equation="drift in class k: |mᵢ − x̄ᵢ| / Rᵢ ≥ √(ln(4 D / δ) / (2 nₕ)) for a column i",
        params=(_BATCH, _DELTA, _RESET, _RESET_ON, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigod",
    ),
    _family(
        id="vigow",
        summary="VIGO that weighs the last |B| rows of a class as much as all before them; no drift need be announced.",
        use_when=(
            "As vigod, where classes move slowly: 87.2 % on drifting streams (vigod 86.9), but 78.6 on those that "
            "turn at once."
        ),
        equation="mₖ ← (mₖ + x̄ₖ) / 2 every |B| rows of class k",
        params=(_BATCH, _VARIANT, UNSCALED),
        learner="core.learners.vigo.learner:Vigow",
    ),
)
