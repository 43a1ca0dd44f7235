"""The catalogue: every algorithm by its name in the API, in the order in which it is listed.

Each family declares its own algorithms; this file only collects them.
"""

from core.learners.algorithm import Algorithm
from core.learners.auto.algorithms import ALGORITHMS as AUTO
from core.learners.families import SINGLE
from core.learners.observer import OBSERVING
from core.problems import Invalid, suggestion

ALGORITHMS: dict[str, Algorithm] = {algorithm.id: algorithm for algorithm in (*AUTO, *SINGLE.values())}
"""Those that learn."""
EVERY: dict[str, Algorithm] = ALGORITHMS | {OBSERVING.id: OBSERVING}
"""With ``observer``, which does not."""
DEFAULT = "auto"
"""The default algorithm."""


def find(algorithm: str) -> Algorithm:
    """The algorithm with an id.

    Raises:
        Invalid: the id is unknown; ``allowed`` lists the ids.
    """
    if algorithm not in EVERY:
        raise Invalid.of("algorithm", f"is not known{suggestion(algorithm, [*EVERY])}", list(EVERY))
    return EVERY[algorithm]
