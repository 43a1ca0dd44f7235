"""From what a client sent to rows that a model can learn: names checked, labels canonical, everything bounded.

Nothing here changes a model. Where a model has no schema yet, the names that come first propose one; the log's order
decides which proposal wins.
"""

import hashlib
import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats
from core.entry import Overlap, Rows
from core.features import Feature, Line, Schema, Space, SparseSchema, parse_features
from core.features.labels import Label, LabelSet, canonical, from_texts
from core.problems import Invalid, Problem, lacking
from service.errors import RequestConflict
from service.runtime.model_cache import ModelCache
from service.runtime.replica import Replica

PROBLEMS_MAX = 20
DISCOUNT_MIN = 1e-3
"""A smaller one would forget everything at one row; the kernels' own floor."""
LABEL_KINDS = "a string, an integer or a boolean"
FLOAT_MAX = sys.float_info.max


class RowValidator:
    """Checks rows against one model as it stands now.

    Args:
        models: asked whether a proposed schema would fit.
        replica: the model.
    """

    def __init__(self, models: ModelCache, replica: Replica) -> None:
        self._models, self._machine, self._name = models, replica.machine, replica.name
        self.config: Config = replica.machine.config
        self.missing_allowed = self.config.missing != "error"

    # ---------------------------------------------------------------- features

    @property
    def sparse(self) -> bool:
        """Whether the model takes named sparse rows."""
        return self.config.algorithm.sparse

    def space(self) -> Space:
        """How the model reads rows to predict; in an overlap new names are passed over.

        Raises:
            RequestConflict: it has no features yet.
        """
        space, union = self._machine.prediction_schema, self._machine.feedback_schema
        if space is None:
            raise RequestConflict(f"model {self._name} has no features yet: the first feedback row fixes them")
        if isinstance(space, Schema) and isinstance(union, Schema) and union.raw_width > space.raw_width:
            return _passing(space, union)
        return space

    def known_schema(self) -> Schema:
        """The schema that rows to predict are read by.

        Raises:
            RequestConflict: the model has none yet.
        """
        schema = self.space()
        assert isinstance(schema, Schema)
        return schema

    def teaching_schema(self) -> Schema:
        """The schema that labelled rows are read by: in an overlap the features of both spaces.

        Raises:
            RequestConflict: the model has none yet.
        """
        self.space()
        schema = self._machine.feedback_schema
        assert isinstance(schema, Schema)
        return schema

    def prediction_matrix(self, array: NDArray[Any]) -> Floats:
        """Rows to predict by position: the columns of ``space``, in an overlap also those of both spaces.

        Raises:
            RequestConflict, Invalid: as ``known_schema`` and ``Schema.matrix``.
        """
        schema, union = self.known_schema(), self.teaching_schema()
        if array.ndim == 2 and array.shape[1] == union.raw_width > schema.raw_width:
            array = array[:, : schema.raw_width]  # the old features stand first
        return schema.matrix(matrix(array, schema.raw_width), self.missing_allowed, "body")

    def sparse_schema(self) -> SparseSchema:
        """The space of a model of sparse rows."""
        schema = self.space()
        assert isinstance(schema, SparseSchema)
        return schema

    def schema(self, names: Sequence[str], field: str) -> tuple[Schema, tuple[str, ...] | None]:
        """The model's schema, or the one these names propose.

        Raises:
            Invalid: names that no schema can have, or too many for the model limit.
        """
        if self._machine.prediction_schema is not None:
            self.all_there(names, field)
            return self.teaching_schema(), None
        proposed = Schema(self._proposal(names, field))
        self._models.admit(self.config, proposed)
        return proposed, tuple(names)

    def all_there(self, names: Collection[str], field: str) -> None:
        """In an overlap every name of both spaces has to be given, whatever may be missing otherwise.

        A name that is absent comes from a client that does not know of the change; filling it would teach the mapping
        what is not so.

        Raises:
            Invalid: listing the names that are absent.
        """
        if self._machine.phase != "overlap":
            return
        given = set(names)
        _refuse_absent([name for name in self.teaching_schema().names if name not in given], field)

    def row_to_keep(self, space: Space, raw: Floats, values: Mapping[str, Any]) -> tuple[Space, Floats]:
        """A predicted row as it is kept until its label comes: space and raw row.

        In an overlap a row that holds every name of both spaces is kept in their union, so that it teaches what
        feedback of the union does; one whose new values do not fit, which a prediction passes over, in the old space.
        """
        union = self._machine.feedback_schema
        if (
            self._machine.phase != "overlap"
            or self._machine.prediction_schema != space
            or not isinstance(union, Schema)
        ):
            return space, raw
        try:
            self.all_there(values, "features")
            return union, union.row(values, self.missing_allowed)
        except Invalid:
            return space, raw

    def _read(self, space: Space, values: Mapping[str, Any]) -> Floats:
        self.all_there(values, "features")
        try:
            return space.row(values, self.missing_allowed)
        except Invalid as error:
            if len(error.problems) == PROBLEMS_MAX and not self.missing_allowed:
                _refuse_absent([name for name in space.names if name not in values], "features")
            raise

    def _proposal(self, names: Sequence[str], field: str) -> tuple[Feature, ...]:
        return parse_features(list(names), field)

    def row(self, values: Mapping[str, Any], label: Any, discount: Any, identity: str | None) -> Rows:
        """One labelled row by names.

        Raises:
            Invalid: naming the field.
            RequestConflict: the label cannot join the classes of the model.
        """
        space: Space | None = self._machine.feedback_schema
        names = None
        if space is None:
            space, names = self.schema([*values], "features")
        raw = self._read(space, values)
        labels = self.labels([label], LABEL)
        discounts = None if discount is None else self.discounts([discount], DISCOUNT)
        return Rows(space.id, names, raw, labels, discounts, None, () if identity is None else (identity,))

    def overlap_schema(self) -> Schema:
        """The schema of unlabelled rows with both sets of features.

        Raises:
            RequestConflict: no overlap is under way.
        """
        if self._machine.phase != "overlap":
            raise RequestConflict(
                f"no overlap is under way: the phase is {self._machine.phase}; begin a change of features first"
            )
        return self.teaching_schema()

    def overlap_row(self, values: Mapping[str, Any], ids: tuple[str, ...]) -> Overlap:
        """One unlabelled row with both sets of features.

        Raises:
            RequestConflict: no overlap is under way.
            Invalid: naming the field.
        """
        schema = self.overlap_schema()
        return Overlap(schema.id, self._read(schema, values), ids)

    # ---------------------------------------------------------------- labels

    def labels(self, values: Sequence[Any], path: "FieldPath") -> "list[Label] | Floats":
        """Labels as the model takes them: canonical values, or finite numbers.

        Raises:
            Invalid: a label of the wrong type, or not among the declared ones.
            RequestConflict: more classes than the algorithm learns.
        """
        found = self.bare_labels(values, path)
        return found if isinstance(found, np.ndarray) else self._classes(found, path)

    def bare_labels(self, values: Sequence[Any], path: "FieldPath") -> "list[Label] | Floats":
        """Labels by themselves, whatever classes the model has by now: what a repeated id is compared by.

        Raises:
            Invalid: a label that no model of this configuration takes.
        """
        if self.config.task == "regression":
            return _numbers_of_texts(values, path) if path.texts else _numbers(values, path)
        if path.texts:
            return from_texts(values, self.config.labels, path)
        return [canonical(value, path(at)) for at, value in enumerate(values)]

    def _classes(self, found: list[Label], path: "FieldPath") -> list[Label]:
        if all(self._machine.labels.index(label) >= 0 for label in found):
            return found
        declared = self.config.labels
        if declared is not None:
            known = LabelSet(declared)
            strange = [at for at, label in enumerate(found) if known.index(label) < 0]
            if strange:
                raise Invalid(
                    *(
                        Problem(path(at), "is not one of the declared labels", list(declared))
                        for at in strange[:PROBLEMS_MAX]
                    )
                )
            return found
        self._join(found, path)
        return found

    def _join(self, found: list[Label], path: "FieldPath") -> None:
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
                raise Invalid.of(path(at), "shows under the same JSON key as another label of the model", LABEL_KINDS)
            trial.add(found[at])
        bound = self.config.algorithm.class_bound
        if len(trial) > bound:
            raise RequestConflict(
                f"{self.config.algorithm_id} learns at most {bound} classes; the model has {len(labels)}"
            )

    # ---------------------------------------------------------------- discounts

    def discounts(self, values: Sequence[Any], path: "FieldPath") -> Floats:
        """Discounts up to 1, where the algorithm takes them.

        Raises:
            Invalid: the algorithm takes none, or a value out of range.
        """
        if not self.config.algorithm.row_discounts:
            raise Invalid.of(path.list, f"{self.config.algorithm_id} takes no discount per row; gdfop does")
        found = _numbers_of_texts(values, path) if path.texts else _numbers(values, path)
        wrong = np.flatnonzero(~((found >= DISCOUNT_MIN) & (found <= 1)))
        if len(wrong):
            allowed = f">= {DISCOUNT_MIN:g} and <= 1"
            raise Invalid(*(Problem(path(int(at)), "is out of range", allowed) for at in wrong[:PROBLEMS_MAX]))
        return found


@lru_cache(maxsize=64)
def _passing(schema: Schema, union: Schema) -> Schema:
    return schema.passing(union.names)


def _refuse_absent(names: Sequence[str], field: str) -> None:
    if names:
        raise Invalid(lacking(field, names))


def digest_of(label: Label | float) -> str:
    """What tells a label as ``RowValidator.bare_labels`` gives it from another one; False is not 0."""
    return digest_of_bytes(json.dumps(label).encode())


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


@dataclass(frozen=True, slots=True)
class FieldPath:
    """How the items of a list are named in errors.

    Attributes:
        list: the list's name; the item's own where it is a single one.
        single: whether it is.
        column: the column, where the items are texts of a CSV table.
        lines: the lines that begin with the items, where they are texts of SVMlight.
    """

    list: str
    single: bool = False
    column: str = ""
    lines: Sequence[Line] = ()

    @property
    def texts(self) -> bool:
        """Whether the items are texts."""
        return bool(self.column or self.lines)

    def __call__(self, at: int) -> str:
        """The name of one item."""
        if self.lines:
            return self.lines[at].place(-1)
        if self.column:
            return f"row {at + 1}, column {self.column}"
        return self.list if self.single else f"{self.list}[{at}]"


LABEL, LABELS = FieldPath("label", single=True), FieldPath("labels")
DISCOUNT, DISCOUNTS = FieldPath("discount", single=True), FieldPath("discounts")


def _numbers(values: Sequence[Any], path: FieldPath) -> Floats:
    if not {*map(type, values)} <= {int, float}:
        wrong = [at for at, value in enumerate(values) if type(value) not in (int, float)]
        raise Invalid(*(Problem(path(at), "is not a number", "a finite number") for at in wrong[:PROBLEMS_MAX]))
    try:
        found = np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond every float
        found = np.array([math.inf if abs(value) > FLOAT_MAX else value for value in values], dtype=np.float64)
    return _finite(found, path)


def _numbers_of_texts(cells: Sequence[str], path: FieldPath) -> Floats:
    return _finite(np.array([_number_of_text(cell) for cell in cells], dtype=np.float64), path)


def _number_of_text(cell: str) -> float:
    """The number a cell is written as; NaN for what Python alone takes for one, and for everything else."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return math.nan


def _finite(found: Floats, path: FieldPath) -> Floats:
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        problem = "is not a finite number"
        raise Invalid(*(Problem(path(int(at)), problem, "a finite number") for at in wrong[:PROBLEMS_MAX]))
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
    with np.errstate(over="ignore"):  # a wider float may not fit; what became infinite is refused by who reads it
        return np.ascontiguousarray(body, dtype=np.float64)
