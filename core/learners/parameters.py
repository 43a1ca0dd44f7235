"""Parameters that algorithms of several families have."""

from dataclasses import replace

from core.algorithm import Param
from core.features.scaling_parameter import SCALING

BIAS = Param("bias", "boolean", True, "Whether a constant column is added to the features.")
UNSCALED = replace(SCALING, default="none")
"""``scaling`` of learners that any scale suits."""
