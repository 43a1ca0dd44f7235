"""The entry of the boosted trees for the experts of `auto`. It is not in the catalogue."""

from core.learners.algorithm import Algorithm
from core.problems import Param

BOOSTING = Algorithm(
    id="boosting",
    tasks=("classification", "regression"),
    summary="A ring of trees; each is fitted to what the others leave of the last rows, and replaces the oldest.",
    use_when="Only within auto.",
    paper="Friedman: Greedy function approximation: a gradient boosting machine, Annals of Statistics 29, 2001",
    equation="",
    params=(
        Param("trees", "integer", 50, "T.", ge=1, le=1000),
        Param("rows", "integer", 2000, "W.", ge=64, le=100_000),
        Param("period", "integer", 32, "B, the rows from tree to tree.", ge=1, le=64),
        Param("class_rate", "number", 0.1, "r of classes.", ge=0.0, le=1.0),
    ),
    learner="core.learners.boosting.learner:Boosting",
)
