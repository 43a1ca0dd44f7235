"""The parameter ``scaling`` of algorithms, and what a scaler's state takes: all that is known without its kernels."""

from typing import Literal

from core.problems import Param
from core.state.layout import NOT_NEGATIVE, Array, Layout

Kind = Literal["none", "standard", "robust"]

SCALING = Param(
    "scaling",
    "choice",
    "robust",
    "How columns are scaled before they are learned: by their running mean and deviation (standard), by winsorised "
    "ones with a half-life of 2000 rows (robust), which outliers cannot move and which follow drift, or not at all.",
    choices=("none", "standard", "robust"),
)

START_ROWS = 20
"""Rows that the robust start takes its medians of."""
VALUE_MAX = 1e307

_STATE_MAX = 4.0 * VALUE_MAX
_ROBUST = Layout(
    {
        "moments": Array(2, "D", within=_STATE_MAX, places={1: NOT_NEGATIVE}, axis=0),
        "buffer": Array("held", "D", within=_STATE_MAX, at="_buffered"),
    }
)
LAYOUTS = {"none": Layout({}), "standard": _ROBUST.without("buffer"), "robust": _ROBUST}


def scaler_bytes(kind: Kind, dimension: int) -> int:
    """Bytes a scaler's state takes at most."""
    return LAYOUTS[kind].bytes(D=dimension, held=START_ROWS - 1)
