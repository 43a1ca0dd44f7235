"""What the catalogue lists of `auto`; its parameter, costs."""

from core.learners.algorithm import Algorithm
from core.learners.auto.experts import SIZES
from core.problems import Param

_SIZE = Param(
    "size",
    "choice",
    "medium",
    "How many experts learn every row: speed for accuracy; core/learners/README.md has measured figures.",
    choices=SIZES,
)

ALGORITHMS = (
    Algorithm(
        id="auto",
        tasks=("classification", "regression"),
        summary="Experts of all families side by side, mixed row by row: nothing has to be chosen.",
        use_when=(
            "Nothing speaks for another one: it is the most accurate on every kind of stream measured, at 16 us a "
            "row where dfop takes 4."
        ),
        paper="Hinton, Neural Computation 14, 2002 (pools); Herbster, Warmuth, Machine Learning 32, 1998 (fixed share)",
        equation="p = c · Πₑ pₑ^(aₑ vₑ) / Z + (1 − c) · Σₑ bₑ pₑ^aₑ; weights follow the a-priori losses",
        params=(_SIZE,),
        learner="core.learners.auto.learner:Auto",
        row_weights=True,
    ),
)
