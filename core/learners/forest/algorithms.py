"""The entry of the forest for the experts of `auto`. It is not in the catalogue."""

from core.learners.algorithm import Algorithm
from core.problems import Param

FOREST = Algorithm(
    id="forest",
    tasks=("classification",),
    summary="Trees that are cut at random where rows are apart, each pruned by how it has predicted.",
    use_when="Only within auto.",
    paper="Mourtada, Gaiffas, Scornet: AMF: Aggregated Mondrian forests for online learning, JRSS B 83, 2021",
    equation="",
    params=(
        Param("trees", "integer", 5, "T.", minimum=1, maximum=100),
        Param("nodes", "integer", 448, "M.", minimum=1, maximum=65536),
    ),
    learner="core.learners.forest.learner:Forest",
)
