"""The families of single learners: everything in the catalogue except mixtures of learners."""

from core.learners.algorithm import Algorithm
from core.learners.dfop.algorithms import ALGORITHMS as DFOP
from core.learners.fesl.algorithms import ALGORITHMS as FESL
from core.learners.ga2m.algorithms import ALGORITHMS as GA2M
from core.learners.odm.algorithms import ALGORITHMS as ODM
from core.learners.vigo.algorithms import ALGORITHMS as VIGO

SINGLE: dict[str, Algorithm] = {algorithm.id: algorithm for algorithm in (*DFOP, *ODM, *FESL, *VIGO, *GA2M)}
"""The algorithms of all families, by id."""
