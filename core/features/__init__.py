"""Features: declared by clients (``declaration``), read (``schema``, ``cells``), encoded (``encoder``).

Or not declared at all: named sparse rows (``sparse_schema``), as lists or SVMlight text (``svmlight``), projected while
they are read (``projection``). Other packages import from here.
"""

from core.features.encoder import Encoder, Missing
from core.features.feature import CATEGORIES_MAX, COLUMNS_MAX, NAME_MAX, Feature, parse_features
from core.features.schema import Schema
from core.features.sparse_schema import SparseSchema, check_names
from core.features.svmlight import Line, read_lines

Space = Schema | SparseSchema
"""How a model reads its rows."""

__all__ = [
    "CATEGORIES_MAX",
    "COLUMNS_MAX",
    "NAME_MAX",
    "Encoder",
    "Feature",
    "Line",
    "Missing",
    "Schema",
    "Space",
    "SparseSchema",
    "check_names",
    "parse_features",
    "read_lines",
]
