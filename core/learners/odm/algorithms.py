"""The catalogue entries of optimal margin distribution machines: ``odm`` and ``dynamic_odm``."""

from functools import partial

from core.learners.algorithm import Algorithm
from core.learners.odm.candidates import AUTO, COUNT_MAX
from core.learners.parameters import BIAS, RANDOM_FEATURES, SCALING, variant
from core.problems import Param

_PAPER = "Zhang, Zhao, Jin: Optimal Margin Distribution Learning in Dynamic Environments, AAAI 2020"
_LOSS_WEIGHT = Param(
    "loss_weight",
    "number",
    10.0,
    "lambda in f(w) = |w|^2 / 2 + lambda l(w; x): how much the losses of the rows count against small weights.",
    gt=0.0,
    le=1e6,
)
_TRADEOFF = Param(
    "deviation_tradeoff",
    "number",
    0.1,
    "mu in the ODM loss: what a margin above 1 + theta costs, relative to one below 1 - theta.",
    ge=0.0,
    le=1e3,
)
_TOLERANCE = Param(
    "tolerance", "number", 0.1, "theta in the ODM loss: how far from 1 a margin may be at no cost.", ge=0.0, le=0.95
)
_STEP = Param(
    "step",
    "choice",
    AUTO,
    'Implicit (proximal) steps, which cannot overshoot, or explicit gradient steps; "auto": explicit in the variant '
    '"paper", else implicit.',
    choices=(AUTO, "implicit", "explicit"),
)
_LEARNING_RATE = Param(
    "learning_rate",
    "number",
    AUTO,
    'eta in Algorithm 1, constant; "auto": 1 / (tau + kappa) in row tau of an epoch, kappa the curvature of the loss.',
    gt=0.0,
    le=1.0,
    choices=(AUTO,),
)
_ODM_VARIANT = variant(
    'Implicit steps, or with "paper" the explicit ones of Algorithm 1 (with its sign corrected).', "anytime"
)
_VARIANT = variant(
    'Epochs 8 2^i as the rows come and fixed share, which need no horizon; or with "paper" the epochs, the number of '
    "candidates and the learning rate of the weights that follow from horizon, bound and variation.",
    "anytime",
)
_CANDIDATES = Param(
    "candidates",
    "integer",
    AUTO,
    'Number of restarted learners; "auto": it grows with the rows, by doubling epochs, or is the paper\'s N.',
    ge=1,
    le=COUNT_MAX,
    choices=(AUTO,),
)
_VOTE = Param(
    "vote",
    "choice",
    "weighted",
    "Whether the candidates' scores are averaged by their weights (Algorithm 2), or only their signs.",
    choices=("weighted", "majority"),
)
_HORIZON = Param("horizon", "number", 1e4, 'T in Theorem 1, rows; only used in the variant "paper".', ge=1.0, le=1e15)
_BOUND = Param("bound", "number", 40.0, 'C with |f| <= C; only used in the variant "paper".', ge=1e-3, le=1e9)
_VARIATION = Param("variation", "number", 1.0, 'V_T in (3); only used in the variant "paper".', ge=1e-9, le=1e15)
_CANDIDATE = (_LOSS_WEIGHT, _TRADEOFF, _TOLERANCE)
_STEPS = (_STEP, _LEARNING_RATE)
_INPUTS = (SCALING, BIAS, RANDOM_FEATURES)

_family = partial(
    Algorithm, tasks=("classification",), paper=_PAPER, learner="core.learners.odm.learner:DynamicOdm", row_weights=True
)

ALGORITHMS = (
    _family(
        id="odm",
        summary="A linear classifier that optimises its whole margin distribution; one learner that never forgets.",
        use_when=(
            "The boundary never moves: as good as dynamic_odm on shuffled files (74.3 and 73.9 %), 2 points less "
            "accurate when classes drift."
        ),
        equation="min |w|²/2 + λ meanᵢ([1 − θ − mᵢ]₊² + μ [mᵢ − 1 − θ]₊²) / (1 − θ)² over w, mᵢ = yᵢ wᵀxᵢ",
        params=(*_CANDIDATE, _ODM_VARIANT, *_STEPS, *_INPUTS),
    ),
    _family(
        id="dynamic_odm",
        summary="ODM learners that restart every 8, 16, 32 ... rows, weighted by performance: follows drift.",
        use_when=(
            "Classes drift and some rows are measured wrongly: 91.8 %, and 91.3 with 1 % of the rows multiplied by "
            "1e4 (dfop 91.7 and 82.9, with robust scaling 90.4)."
        ),
        equation="Σₖ bₖ wₖᵀx; wₖ: odm since its last restart; bₖ ← share(bₖ exp(−3 min(fₖ / (4 λ), 1)))",
        params=(*_CANDIDATE, _VARIANT, _CANDIDATES, _VOTE, _HORIZON, _BOUND, _VARIATION, *_STEPS, *_INPUTS),
        row_pasts=True,
    ),
)
