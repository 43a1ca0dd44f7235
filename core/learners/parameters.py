"""Parameters that algorithms of several families have."""

from dataclasses import replace

from core.problems import Param

SCALING = Param(
    "scaling",
    "choice",
    "robust",
    "How columns are scaled before they are learned: by their running mean and deviation (standard), by winsorised "
    "ones with a half-life of 2000 rows (robust), which outliers cannot move and which follow drift, or not at all.",
    choices=("none", "standard", "robust"),
)
BIAS = Param("bias", "boolean", True, "Whether a constant column is added to the features.")
UNSCALED = replace(SCALING, default="none")
"""``scaling`` of learners that any scale suits."""
RANDOM_FEATURES = Param(
    "random_features",
    "integer",
    0,
    "How many random Fourier features are added to the columns, for what is not linear in them; 100 are a good start. "
    "They need columns of like scale: use scaling with them. There are no weights to show then.",
    minimum=0,
    maximum=10_000,
)
FEATURE_OBJECT_BYTES = 600
"""Memory of the objects around random features."""
