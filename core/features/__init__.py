"""Features: declared (``feature``, ``feature_space``), read (``schema``, ``columns``), encoded and scaled.

Sparse models declare none: rows of names and values (``sparse_schema``) are projected as they are read
(``projection``). Class labels are in ``labels``.
"""

from core.features.feature import Feature, parse_features, propose
from core.features.schema import Schema
from core.features.sparse_schema import SparseSchema

Space = Schema | SparseSchema
"""The feature space of a model, which reads its rows."""

__all__ = ["Feature", "Schema", "Space", "SparseSchema", "parse_features", "propose"]
