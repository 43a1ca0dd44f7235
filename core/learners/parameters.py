"""Parameters that algorithms of several families have."""

from dataclasses import replace

from core.features.scaling_parameter import SCALING
from core.problems import Param

BIAS = Param("bias", "boolean", True, "Whether a constant column is added to the features.")
UNSCALED = replace(SCALING, default="none")
"""``scaling`` of learners that any scale suits."""
