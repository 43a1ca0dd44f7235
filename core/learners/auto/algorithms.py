"""The catalogue entry of `auto`, with its parameter."""

from core.learners.algorithm import Algorithm
from core.learners.auto.experts import SIZES
from core.problems import Param

_SIZE = Param(
    "size",
    "choice",
    "medium",
    "How many experts learn every row: trades speed for accuracy; core/learners/README.md has measured figures.",
    choices=SIZES,
)

ALGORITHMS = (
    Algorithm(
        id="auto",
        tasks=("classification", "regression"),
        summary="A mixture of experts of all families, weighted row by row: no algorithm to choose.",
        use_when=("The default. Most accurate on every kind of stream we measured; takes 25 us per row, dfop 4."),
        paper="Hinton, Neural Computation 14, 2002 (pools); Herbster, Warmuth, Machine Learning 32, 1998 (fixed share)",
        equation="p = c · Πₑ pₑ^(aₑ vₑ) / Z + (1 − c) · Σₑ bₑ pₑ^aₑ; weights follow the a-priori losses",
        params=(_SIZE,),
        learner="core.learners.auto.learner:Auto",
        row_weights=True,
        row_pasts=True,
        slow_calibration=True,
    ),
)
