"""What is known of the mappings between feature spaces without their kernels."""

ROWS_MIN = 2
"""Rows from which there is a mapping."""
STORED_MAX = 500
"""Rows that a kernel mapping keeps at most."""
RIDGE = 0.03
"""What a mapping is solved with where nothing speaks against it; see ``ridge.py``."""
CHOICE_ROWS_MAX = 128
"""Rows up to which a mapping chooses its ridge; a linear one keeps so many at least."""


def linear_rows_max(sources: int) -> int:
    """Rows that a linear mapping from so many columns keeps at most, before sums of their products replace them."""
    return max(sources, CHOICE_ROWS_MAX)
