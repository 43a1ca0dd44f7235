"""The DFOP family in the catalogue: ``dfop``, ``gdfop``, ``rls`` and ``sparse_dfop``."""

from dataclasses import replace
from functools import partial

from core.learners.algorithm import Algorithm
from core.learners.parameters import BIAS, RANDOM_FEATURES, UNSCALED, variant
from core.problems import Param

AUTO = "auto"


_PAPER = "Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021"
_RATE = Param(
    "forgetting_rate",
    "number",
    0.01,
    "mu = 1 - lambda in (3) of the paper, the weight of the newest row; rows older than 1/mu count little.",
    gt=0.0,
    le=0.5,
    refusal=(
        "this is mu = 1 - lambda, the weight of the newest row; a factor lambda such as 0.99 is forgetting_rate 0.01"
    ),
)
_RATE_OR_AUTO = replace(
    _RATE,
    default=AUTO,
    meaning=(
        f'{_RATE.meaning} "{AUTO}": 10 rates from 0 to 0.5 in parallel, at 10 times the cost, weighted by how well '
        "they predict."
    ),
    choices=(AUTO,),
)
_VARIANCE = Param(
    "initial_variance",
    "number",
    1e3,
    "p0, where P_0 = p0 I in Algorithm 1: how far from zero the weights may start; large values trust the first rows. "
    "It depends on the units of labels and columns: columns of deviation .01 or less need a larger one or scaling.",
    gt=0.0,
    le=1e12,
)
_VARIANT = variant(
    'Predicts the most probable label after calibration; "paper": the sign of the score, of several classes the '
    "largest (Algorithm 1, line 6). In regression they are the same."
)
_COMPRESSED_DIM = Param(
    "compressed_dim",
    "integer",
    100,
    "d, the number of columns that the names of a row are projected onto (Algorithm 2); a row costs d^2, however many "
    "names it has. Rare classes need more columns, and class_costs.",
    ge=1,
    le=10_000,
)
_PROJECTION = Param(
    "projection",
    "choice",
    "sign",
    "Entries of M: signs +-1/sqrt(d), or the paper's Gaussian, which costs about a hundred times as much per name.",
    choices=("sign", "gaussian"),
)
_SPARSITY = Param(
    "sparsity",
    "integer",
    10,
    "s, how many weights RECOVER keeps per output unless the request sets it (Definition 2).",
    ge=1,
    le=10_000,
)

_family = partial(
    Algorithm,
    tasks=("classification", "regression"),
    paper=_PAPER,
    learner="core.learners.dfop.learner:Dfop",
    row_weights=True,
)

ALGORITHMS = (
    _family(
        id="dfop",
        summary="Least squares with exponential forgetting, at a rate it finds itself; needs no drift alarms.",
        use_when=(
            "You have about 4 us per row, or want to read the weights: 91.7 % on drifting streams (rls 89.3); in "
            "regression, squared errors of .171 of the variance, with lags .055 (auto .054)."
        ),
        equation="min Σᵢ (1 − μ)^(t − i) (yᵢ − wᵀxᵢ)² over w, exactly, row by row",
        params=(_RATE_OR_AUTO, _VARIANCE, BIAS, _VARIANT, UNSCALED, RANDOM_FEATURES),
        row_pasts=True,
    ),
    _family(
        id="gdfop",
        summary="DFOP with a discount per row: a feedback row can set how much of the past to keep.",
        use_when=(
            "Your rows can say how much of the past still counts. Without discounts it is dfop with a fixed rate, 2 "
            "points less accurate when classes drift. Columns of small scale need scaling."
        ),
        equation="min Σᵢ (λᵢ₊₁ ⋯ λₜ) (yᵢ − wᵀxᵢ)² over w, exactly; λⱼ = 1 − μ where none is given",
        params=(_RATE, _VARIANCE, BIAS, _VARIANT, UNSCALED, RANDOM_FEATURES),
        row_discounts=True,
    ),
    _family(
        id="rls",
        summary="Recursive least squares: all rows count equally; best if nothing drifts.",
        use_when=(
            "Nothing drifts: about as good as dfop on shuffled files (75.9 and 76.4 %) in less than half the time, "
            "but 10 points less accurate when classes rotate. Columns of small scale need scaling."
        ),
        equation="min Σᵢ (yᵢ − wᵀxᵢ)² + |w|² / p₀ over w, exactly, row by row",
        params=(_VARIANCE, BIAS, _VARIANT, UNSCALED, RANDOM_FEATURES),
    ),
    _family(
        id="sparse_dfop",
        summary="DFOP on a random projection: rows with any number of named features, most of them absent.",
        use_when=(
            "Rows have named features, most of them absent, such as words: the only algorithm that takes them. The "
            "rarer a class, the larger compressed_dim must be."
        ),
        paper=f"{_PAPER}, Algorithm 2",
        equation="dfop on ψ = M x, M (d × D) hashed from the names; weights: min |x|₁ where M x = v, the s largest",
        params=(_RATE_OR_AUTO, _VARIANCE, BIAS, _COMPRESSED_DIM, _PROJECTION, _SPARSITY),
        row_pasts=True,
    ),
)
