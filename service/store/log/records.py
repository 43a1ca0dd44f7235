"""The records of segments: MessagePack arrays with a version number.

    rows     ["rows", 1, space, features as declared | nil, n, X float64 (n, F), labels [...] | float64, discounts,
              served | nil, ids]                            served: a ``core.entry.ServedPrediction``
             [... the same ..., weights]                    rows that count more or less than once
    reset    ["reset", 1, ids]
    state    ["state", 1, digest, size, source, ids]    a restore or import; states.py has the bytes
    switch   ["switch", 1, action, features as declared | nil, mapping | nil, ids]
    overlap  ["overlap", 1, space, n, X float64 (n, F), ids]
    config   ["config", 1, {field: new value}, ids]     a change of the configuration
    challenge ["challenge", 1, name, {field: value}, most, ids]     a challenger beside the model
    withdraw ["withdraw", 1, name, ids]
    promote  ["promote", 1, name, ids, force]

Arrays are little-endian float64 in C order.
"""

from typing import Any, Literal

import msgspec

from core.entry import ServedPrediction

FORMAT = 1
"""Version of the records."""


class RowsRecord(msgspec.Struct, array_like=True, tag="rows", frozen=True, gc=False, forbid_unknown_fields=True):
    """Rows as bytes; see the layout above. More fields are refused: without them the log would give another state."""

    format: int
    space: str
    features: list[str | dict[str, Any]] | None
    count: int
    x: bytes
    labels: list[str | int | bool] | bytes
    discounts: bytes | None
    served: ServedPrediction | None
    ids: tuple[str, ...]
    weights: bytes | None = None


class ResetRecord(msgspec.Struct, array_like=True, tag="reset", frozen=True):
    """``reset`` as bytes; see the layout above."""

    format: int
    ids: tuple[str, ...]


class StateRecord(msgspec.Struct, array_like=True, tag="state", frozen=True):
    """``state`` as bytes; see the layout above."""

    format: int
    digest: str
    size: int
    source: str
    ids: tuple[str, ...]


class SwitchRecord(msgspec.Struct, array_like=True, tag="switch", frozen=True):
    """``switch`` as bytes; see the layout above."""

    format: int
    action: Literal["begin", "complete", "abort"]
    features: list[str | dict[str, Any]] | None
    mapping: Literal["linear", "kernel"] | None
    ids: tuple[str, ...]


class OverlapRecord(msgspec.Struct, array_like=True, tag="overlap", frozen=True):
    """``overlap`` as bytes; see the layout above."""

    format: int
    space: str
    count: int
    x: bytes
    ids: tuple[str, ...]


class ConfigureRecord(msgspec.Struct, array_like=True, tag="config", frozen=True):
    """``config`` as bytes; see the layout above."""

    format: int
    changes: dict[str, Any]
    ids: tuple[str, ...]


class ChallengeRecord(msgspec.Struct, array_like=True, tag="challenge", frozen=True):
    """``challenge`` as bytes; see the layout above."""

    format: int
    name: str
    config: dict[str, Any]
    most: int
    ids: tuple[str, ...]


class WithdrawRecord(msgspec.Struct, array_like=True, tag="withdraw", frozen=True):
    """``withdraw`` as bytes; see the layout above."""

    format: int
    name: str
    ids: tuple[str, ...]


class PromoteRecord(msgspec.Struct, array_like=True, tag="promote", frozen=True):
    """``promote`` as bytes; see the layout above."""

    format: int
    name: str
    ids: tuple[str, ...]
    force: bool


Record = (
    RowsRecord
    | ResetRecord
    | StateRecord
    | SwitchRecord
    | OverlapRecord
    | ConfigureRecord
    | ChallengeRecord
    | WithdrawRecord
    | PromoteRecord
)
"""What a segment is as bytes."""
