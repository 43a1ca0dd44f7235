"""A model's configuration (``config``), its changes (``changes``), and a challenger's (``challengers``)."""

from core.config.challengers import ChallengerBody, Promote, challenging, own_fields, own_text, promote_of
from core.config.changes import (
    CATEGORIES,
    CHANGEABLE,
    LABELS,
    ModelChanges,
    changed,
    differences,
    fields_changed,
    interchangeable,
)
from core.config.config import SEED_MAX, Config, parse_ignored

__all__ = [
    "CATEGORIES",
    "CHANGEABLE",
    "LABELS",
    "SEED_MAX",
    "ChallengerBody",
    "Config",
    "ModelChanges",
    "Promote",
    "challenging",
    "changed",
    "differences",
    "fields_changed",
    "interchangeable",
    "own_fields",
    "own_text",
    "parse_ignored",
    "promote_of",
]
