"""The DFOP family in the catalogue: ``dfop``, ``gdfop``, ``rls`` and ``sparse_dfop``."""

from dataclasses import replace
from functools import partial

from core.learners.algorithm import Algorithm
from core.learners.parameters import BIAS, RANDOM_FEATURES, UNSCALED
from core.problems import Param

AUTO = "auto"


_PAPER = "Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021"
_RATE = Param(
    "forgetting_rate",
    "number",
    0.01,
    "mu = 1 - lambda in (3) of the paper, the weight of the newest row; rows older than 1/mu count little.",
    minimum=0.0,
    maximum=0.5,
    exclusive_minimum=True,
    refusal=(
        "this is mu = 1 - lambda, the weight of the newest row; a factor lambda such as 0.99 is forgetting_rate 0.01"
    ),
)
_RATE_OR_AUTO = replace(
    _RATE,
    default=AUTO,
    meaning=(
        f'{_RATE.meaning} "{AUTO}": 10 rates from 0 to 0.5 side by side, at 10 times the cost, weighed by how well '
        "they predict."
    ),
    choices=(AUTO,),
)
_VARIANCE = Param(
    "initial_variance",
    "number",
    1e3,
    "p0, where P_0 = p0 I in Algorithm 1: how far from zero the weights may start; large values trust the first rows.",
    minimum=0.0,
    maximum=1e12,
    exclusive_minimum=True,
)
_COMPRESSED_DIM = Param(
    "compressed_dim",
    "integer",
    100,
    "d, the columns that the names of a row are projected onto (Algorithm 2); a row costs d^2, however many names. "
    "Rare classes need more columns, and class_costs.",
    minimum=1,
    maximum=10_000,
)
_PROJECTION = Param(
    "projection",
    "choice",
    "sign",
    "Entries of M: signs +-1/sqrt(d), or the paper's Gaussian, which costs some hundred times as much per name.",
    choices=("sign", "gaussian"),
)
_SPARSITY = Param(
    "sparsity",
    "integer",
    10,
    "s, how many weights RECOVER keeps per output where the request says nothing (Definition 2).",
    minimum=1,
    maximum=10_000,
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
        summary="Least squares that forgets exponentially, at a rate it finds by itself; no drift need be announced.",
        use_when=(
            "A row may take 4 us, or weights are to be read: 91.7 % on drifting streams (rls 89.3); numbers to .171 "
            "of their variance, with lags .055 (auto .054)."
        ),
        equation="min Σᵢ (1 − μ)^(t − i) (yᵢ − wᵀxᵢ)² over w, exactly, row by row",
        params=(_RATE_OR_AUTO, _VARIANCE, BIAS, UNSCALED, RANDOM_FEATURES),
    ),
    _family(
        id="gdfop",
        summary="DFOP with a discount per row: a feedback row can say how much of the past to keep.",
        use_when=(
            "A row can say how much of the past still counts; without discounts it is dfop at one fixed "
            "rate, 2 points behind where classes drift."
        ),
        equation="min Σᵢ (λᵢ₊₁ ⋯ λₜ) (yᵢ − wᵀxᵢ)² over w, exactly; λⱼ = 1 − μ where none is given",
        params=(_RATE, _VARIANCE, BIAS, UNSCALED, RANDOM_FEATURES),
        row_discounts=True,
    ),
    _family(
        id="rls",
        summary="Recursive least squares: all rows count alike; the best one where nothing drifts.",
        use_when=(
            "Nothing drifts: as good as dfop on shuffled files (75.9 and 76.4 %) in less than half the time, but 10 "
            "points behind where classes turn."
        ),
        equation="min Σᵢ (yᵢ − wᵀxᵢ)² + |w|² / p₀ over w, exactly, row by row",
        params=(_VARIANCE, BIAS, UNSCALED, RANDOM_FEATURES),
    ),
    _family(
        id="sparse_dfop",
        summary="DFOP on a random projection: rows of any number of named features, of which most are absent.",
        use_when=(
            "Rows have named features of which most are absent, such as words: no other algorithm takes "
            "them. The rarer a class, the more compressed_dim it needs."
        ),
        paper=f"{_PAPER}, Algorithm 2",
        equation="dfop on ψ = M x, M (d × D) hashed from the names; weights: min |x|₁ where M x = v, the s largest",
        params=(_RATE_OR_AUTO, _VARIANCE, BIAS, _COMPRESSED_DIM, _PROJECTION, _SPARSITY),
    ),
)
