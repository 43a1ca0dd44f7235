"""Parameters shared by algorithms of several families."""

from dataclasses import replace

from core.problems import Param

SCALING = Param(
    "scaling",
    "choice",
    "robust",
    "How columns are scaled before learning: by their running mean and deviation (standard), by winsorised ones with a "
    "half-life of 2000 rows (robust), which resist outliers and follow drift, to 0 ... 1 by declared or running ends "
    "(minmax), or not at all (none).",
    choices=("none", "standard", "robust", "minmax"),
)
BIAS = Param("bias", "boolean", True, "Whether a constant column is added to the features.")
UNSCALED = replace(SCALING, default="none")  # ``scaling`` of learners that need none unless columns are small
RANDOM_FEATURES = Param(
    "random_features",
    "integer",
    0,
    "Number of random Fourier features to add to the columns, for nonlinear effects; 100 is a good start. They need "
    "columns of similar scale, so use standard or robust scaling. The model then has no weights to show.",
    ge=0,
    le=10_000,
)
FEATURE_OBJECT_BYTES = 600  # memory of the objects around random features


def variant(meaning: str, default: str = "default") -> Param:
    """The choice between our form of an algorithm, the default, and the paper's."""
    return Param("variant", "choice", default, meaning, choices=(default, "paper"))
