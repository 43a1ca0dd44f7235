"""The catalogue: every algorithm by its name in the API, in the order in which it is listed.

An entry lives beside its learner, which knows its own parameters and costs; this file only collects them.
"""

from core.contract import Algorithm
from core.learners.dfop import algorithms as dfop_entries
from core.learners.fesl import algorithms as fesl_entries
from core.learners.odm import algorithms as dynamic_odm_entries
from core.learners.vigo import algorithms as vigo_entries
from core.problems import Invalid

FAMILIES = (dfop_entries, dynamic_odm_entries, fesl_entries, vigo_entries)
ALGORITHMS: dict[str, Algorithm] = {entry.id: entry for family in FAMILIES for entry in family.ENTRIES}


def find(algorithm: str) -> Algorithm:
    """The entry of that id.

    Raises:
        Invalid: there is none; ``allowed`` lists the ids.
    """
    if algorithm not in ALGORITHMS:
        raise Invalid.of("algorithm", "is not known", list(ALGORITHMS))
    return ALGORITHMS[algorithm]
