"""Limits of the mappings between feature spaces that are known without their kernels."""

ROWS_MIN = 2
"""Rows from which there is a mapping."""
STORED_MAX = 500
"""Rows that a kernel mapping keeps at most."""
