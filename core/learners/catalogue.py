"""The catalogue: every algorithm by its name in the API, in the order in which it is listed.

Each family declares its own algorithms; this file only collects them.
"""

from core.algorithm import Algorithm
from core.learners.dfop.algorithms import ALGORITHMS as DFOP
from core.learners.fesl.algorithms import ALGORITHMS as FESL
from core.learners.odm.algorithms import ALGORITHMS as ODM
from core.learners.vigo.algorithms import ALGORITHMS as VIGO
from core.problems import Invalid

FAMILIES = (
    DFOP,
    ODM,
    FESL,
    VIGO,
)
ALGORITHMS: dict[str, Algorithm] = {algorithm.id: algorithm for family in FAMILIES for algorithm in family}


def find(algorithm: str) -> Algorithm:
    """The algorithm of that id.

    Raises:
        Invalid: there is none; ``allowed`` lists the ids.
    """
    if algorithm not in ALGORITHMS:
        raise Invalid.of("algorithm", "is not known", list(ALGORITHMS))
    return ALGORITHMS[algorithm]
