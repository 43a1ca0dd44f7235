"""Features: declared (``feature``, ``feature_space``), read (``schema``, ``columns``), encoded and scaled.

What this package exports reads rows, and imports no compiled kernel: a process that only reads rows stays small.

Sparse models declare none: rows of names and values (``sparse_schema``) are projected when they are read
(``projection``). Class labels are in ``labels``.
"""

from core.features.declaration import parse_features, propose
from core.features.feature import CATEGORIES_MAX, COLUMNS_MAX, NAME_MAX, Feature
from core.features.schema import Schema
from core.features.sparse_schema import Line, SparseSchema, check_names, read_lines

Space = Schema | SparseSchema
"""The feature space of a model, which reads its rows."""

__all__ = [
    "CATEGORIES_MAX",
    "COLUMNS_MAX",
    "NAME_MAX",
    "Feature",
    "Line",
    "Schema",
    "Space",
    "SparseSchema",
    "check_names",
    "parse_features",
    "propose",
    "read_lines",
]
