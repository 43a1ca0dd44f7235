"""The catalogue: every algorithm by its name in the API, in the order in which it is listed.

Each family declares its own algorithms; this file only collects them.
"""

from core.learners.algorithm import Algorithm
from core.learners.auto.algorithms import ALGORITHMS as AUTO
from core.learners.families import SINGLE
from core.learners.observer import OBSERVING
from core.problems import Invalid, suggestion

ALGORITHMS: dict[str, Algorithm] = {algorithm.id: algorithm for algorithm in (*AUTO, *SINGLE.values())}
"""The algorithms that learn."""
DEFAULT = "auto"  # the default algorithm


def every() -> dict[str, Algorithm]:
    """All algorithms that a model may have, by id: those that learn, and ``observer``."""
    return ALGORITHMS | {OBSERVING.id: OBSERVING}


def find(algorithm: str) -> Algorithm:
    """The algorithm with this id; ``Invalid`` for an unknown id, with ``allowed`` listing all ids."""
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    if algorithm == OBSERVING.id:
        return OBSERVING
    raise Invalid.of("algorithm", f"is not known{suggestion(algorithm, [*every()])}", [*every()])
