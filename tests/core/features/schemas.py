"""Schemas and values that several feature tests use."""

import math

from hypothesis import strategies as st

from core.features import Schema, parse_features

MIXED = [
    "load",
    {"name": "day", "type": "categorical", "categories": ["mon", "tue", 1, False]},
    {"name": "x", "min": 0},
]
NAN = math.nan
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def schema(raw=("a", "b", "c")):
    """A schema from a declaration, by default of three numeric features."""
    return Schema(parse_features(list(raw)))
