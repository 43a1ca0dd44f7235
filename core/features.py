"""Features: declared by clients (``declaration``), read (``schema``, ``cells``), encoded (``encoder``).

This is the one door to those four: other parts import from here.
"""

from core.declaration import CATEGORIES_MAX, COLUMNS_MAX, NAME_MAX, Feature, parse_features
from core.encoder import Encoder, Missing
from core.schema import Schema

__all__ = ["CATEGORIES_MAX", "COLUMNS_MAX", "NAME_MAX", "Encoder", "Feature", "Missing", "Schema", "parse_features"]
