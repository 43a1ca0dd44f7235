"""From what a client sent to rows that a model can learn: names checked, labels canonical, everything bounded.

Nothing here changes a model. Where a model has no schema yet, the names that come first propose one; the log's order
decides which proposal wins.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.entry import Label, Rows
from core.features import Feature, Schema, parse_features
from core.labels import LabelSet, canonical, from_texts
from core.model import Floats
from core.problems import Invalid, Problem
from service.errors import Clash
from service.runtime.hub import Hub
from service.runtime.replica import Replica

PROBLEMS_MAX = 20
DISCOUNT_MIN = 1e-3
"""A smaller one would forget everything at one row; the kernels' own floor."""
LABEL_KINDS = "a string, an integer or a boolean"


class Intake:
    """Checks rows against one model as it stands now.

    Args:
        hub: asked whether a proposed schema would fit.
        replica: the model.
    """

    def __init__(self, hub: Hub, replica: Replica) -> None:
        self._hub, self._machine, self._name = hub, replica.machine, replica.name
        self.config: Config = replica.machine.config
        self.missing_allowed = self.config.missing != "error"

    # ---------------------------------------------------------------- features

    def known_schema(self) -> Schema:
        """The model's schema.

        Raises:
            Clash: it has none yet.
        """
        if self._machine.schema is None:
            raise Clash(f"model {self._name} has no features yet: the first feedback row fixes them")
        return self._machine.schema

    def schema(self, names: Sequence[str], field: str) -> tuple[Schema, tuple[str, ...] | None]:
        """The model's schema, or the one these names propose.

        Raises:
            Invalid: names that no schema can have, or too many for the model limit.
        """
        if self._machine.schema is not None:
            return self._machine.schema, None
        proposed = Schema(self._proposal(names, field))
        self._hub.admit(self.config, proposed)
        return proposed, tuple(names)

    def _proposal(self, names: Sequence[str], field: str) -> tuple[Feature, ...]:
        return parse_features(list(names), field)

    def row(self, values: Mapping[str, Any], label: Any, discount: Any, identity: str | None) -> Rows:
        """One labelled row by names.

        Raises:
            Invalid: naming the field.
            Clash: the label cannot join the classes of the model.
        """
        schema, names = (self._machine.schema, None) if self._machine.schema else self.schema([*values], "features")
        assert schema is not None
        raw = schema.row(values, self.missing_allowed)
        labels = self.labels([label], "label")
        discounts = None if discount is None else self.discounts([discount], "discount")
        return Rows(schema.id, names, raw, labels, discounts, None, () if identity is None else (identity,))

    # ---------------------------------------------------------------- labels

    def labels(self, values: Sequence[Any], field: str = "labels") -> "list[Label] | Floats":
        """Labels as the model takes them: canonical values, or finite numbers.

        Args:
            values: as the client sent them.
            field: "label" for a single one, else the name of the list.

        Raises:
            Invalid: a label of the wrong type, or not among the declared ones.
            Clash: more classes than the algorithm learns.
        """
        if self.config.task == "regression":
            return _numbers(values, field)
        single = field == "label"
        found = [canonical(value, field if single else f"{field}[{at}]") for at, value in enumerate(values)]
        return self._classes(found, lambda at: field if single else f"{field}[{at}]")

    def label_texts(self, cells: Sequence[str], column: str) -> "list[Label] | Floats":
        """Labels from CSV cells."""
        if self.config.task == "regression":
            return _numbers_of_texts(cells, column)
        found = from_texts(cells, self.config.labels, column)
        return self._classes(found, lambda at: f"row {at + 1}, column {column}")

    def _classes(self, found: list[Label], place: Any) -> list[Label]:
        declared = self.config.labels
        if declared is not None:
            known = LabelSet(declared)
            strange = [at for at, label in enumerate(found) if known.index(label) < 0]
            if strange:
                raise Invalid(
                    *(
                        Problem(place(at), "is not one of the declared labels", list(declared))
                        for at in strange[:PROBLEMS_MAX]
                    )
                )
            return found
        self._join(found, place)
        return found

    def _join(self, found: list[Label], place: Any) -> None:
        """Refuse labels that could not all be classes of one model."""
        labels = self._machine.labels
        new = [at for at, label in enumerate(found) if labels.index(label) < 0]
        if not new:
            return
        trial = LabelSet.from_header(labels.to_header())
        for at in new:
            if trial.index(found[at]) >= 0:
                continue
            if trial.clash(found[at]) is not None:
                raise Invalid.of(place(at), "shows under the same JSON key as another label of the model", LABEL_KINDS)
            trial.add(found[at])
        bound = self.config.entry.class_bound
        if len(trial) > bound:
            raise Clash(f"{self.config.algorithm} learns at most {bound} classes; the model has {len(labels)}")

    # ---------------------------------------------------------------- discounts

    def discounts(self, values: Sequence[Any], field: str = "discounts") -> Floats:
        """Discounts up to 1, where the algorithm takes them.

        Raises:
            Invalid: the algorithm takes none, or a value out of range.
        """
        if not self.config.entry.row_discounts:
            raise Invalid.of(field, f"{self.config.algorithm} takes no discount per row; gdfop does")
        found = _numbers(values, field)
        wrong = np.flatnonzero(~((found >= DISCOUNT_MIN) & (found <= 1)))
        if len(wrong):
            places = [field if field == "discount" else f"{field}[{at}]" for at in wrong[:PROBLEMS_MAX]]
            raise Invalid(*(Problem(place, "is out of range", f">= {DISCOUNT_MIN:g} and <= 1") for place in places))
        return found


def digest_of(label: Any) -> str:
    """What tells a label sent under an id from another one; 0, 0.0 and False as the model tells them apart."""
    number = float(label) if isinstance(label, int | float) and not isinstance(label, bool) else label
    return digest_of_bytes(json.dumps(number).encode())


def digest_of_bytes(body: bytes) -> str:
    """What tells a body sent under an Idempotency-Key from another one."""
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def same_count(values: Sequence[Any], rows: int, field: str) -> None:
    """Refuse a list that is not one per row.

    Raises:
        Invalid: naming the list and the number of rows.
    """
    if len(values) != rows:
        raise Invalid.of(field, f"has {len(values)} items for {rows} rows", f"{rows} items")


def _numbers(values: Sequence[Any], field: str) -> Floats:
    if not {*map(type, values)} <= {int, float}:
        wrong = [at for at, value in enumerate(values) if type(value) not in (int, float)]
        places = [field if field in ("label", "discount") else f"{field}[{at}]" for at in wrong[:PROBLEMS_MAX]]
        raise Invalid(*(Problem(place, "is not a number", "a finite number") for place in places))
    try:
        found = np.array(values, dtype=np.float64)
    except OverflowError:
        raise Invalid.of(field, "is too large for a floating-point number", "a finite number") from None
    return _finite(found, lambda at: field if field in ("label", "discount") else f"{field}[{at}]")


def _numbers_of_texts(cells: Sequence[str], column: str) -> Floats:
    found = np.empty(len(cells))
    problems: list[Problem] = []
    for at, cell in enumerate(cells):
        try:
            found[at] = float(cell) if "_" not in cell else float("nan")
        except ValueError:
            found[at] = np.nan
        if not np.isfinite(found[at]):
            problems.append(Problem(f"row {at + 1}, column {column}", "is not a number", "a finite number"))
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
    return found


def _finite(found: Floats, place: Any) -> Floats:
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise Invalid(*(Problem(place(int(at)), "is not finite", "a finite number") for at in wrong[:PROBLEMS_MAX]))
    return found


def matrix(body: NDArray[Any], columns: int, field: str = "body") -> Floats:
    """An .npy array as a two-dimensional float64 table with a given number of columns.

    Raises:
        Invalid: another shape or type.
    """
    if body.ndim != 2 or body.shape[1] != columns:
        shape = "x".join(map(str, body.shape))
        raise Invalid.of(field, f"is an array of shape {shape}", f"n x {columns}, float64")
    if body.dtype.kind not in "fiu":
        raise Invalid.of(field, f"has type {body.dtype}", "float64")
    return np.ascontiguousarray(body, dtype=np.float64)
