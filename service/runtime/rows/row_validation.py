"""Validates a client's rows and converts them to rows that a model can learn or predict; changes no model.

If a model has no schema yet, the names of the first rows propose one; the log's order decides which proposal wins.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from core.contract import Floats, Label
from core.entry import Overlap, Rows
from core.features import Schema, Space, SparseSchema, propose
from core.features.labels import LabelSet, canonical_all, clashes, from_texts
from core.model import Model, cost, refuse_lag_names
from core.model.read import refuse_observer
from core.problems import FILLED, PROBLEMS_MAX, SUGGESTED_MAX, Invalid, Problem, lacking, refuse, suggestion
from service.errors import RequestConflict, no_features
from service.runtime import admission
from service.runtime.admission import Demand
from service.runtime.rows import number_tables, row_numbers, sparse_rows
from service.runtime.rows.table import FieldPath, Table, alone

Labels = list[Label] | Floats


class RowValidator:
    """Validates rows against the present state of one model; may run in a thread while the model changes.

    Methods raise Invalid, which names the first fields that are wrong; so does ``admit`` for rows that would make the
    model too large. They raise RequestConflict if the model's state does not allow such rows.

    Attributes:
        config: the model's configuration.
        known: the classes it has.
        phase: the phase of a change of features.
        space, union: the spaces of rows to predict and of rows to learn; None: the model has no features yet.
        missing_allowed: whether values may be missing.
    """

    def __init__(self, name: str, model: Model, admit: Callable[[Demand], None]) -> None:
        self.name, self.config, self.known, self.phase = name, model.config, model.labels, model.phase
        self.space, self.union = model.prediction_schema, model.feedback_schema
        self._learners, self._configs, self._admit = model.learners, model.configs, admit
        self._vanished = model.own.answers.retired
        self._retired = () if self.config.labels is None else self._vanished
        if self.config.ignore or self.config.unknown != "other":
            self.space, self.union = self._reading(self.space), self._reading(self.union)
        self.missing_allowed = self.config.missing != "error"

    def _reading(self, space: Space | None, passed_over: tuple[str, ...] = ()) -> Space | None:
        """A space with the configuration's rules for reading rows; names in ``passed_over`` are ignored as well."""
        if not isinstance(space, Schema):
            return space
        return _read_by(space, (*self.config.ignore, *passed_over), self.config.unknown == "other")

    # ---------------------------------------------------------------- rows

    def prediction(self, table: Table) -> tuple[Space, Floats]:
        """Rows to predict, as ``rows_to_score``; ``Conflict`` for an observer, whatever the rows."""
        refuse_observer(self.config)
        return self.rows_to_score(table)

    def rows_to_score(self, table: Table) -> tuple[Space, Floats]:
        """Rows to evaluate: their feature space, and their raw values (n, F).

        In an overlap the new names are ignored; an array may have the columns of both spaces.
        """
        space, union = self._existing(self.space), self.union
        if isinstance(space, Schema) and isinstance(union, Schema) and union.raw_width > space.raw_width:
            space = self._existing(self._reading(space, union.names))
        return space, self._raw(space, table)

    def feedback(self, table: Table, ids: tuple[str, ...]) -> Rows:
        """Labelled rows."""
        space, features = self.union, None
        if space is None:
            space = self._proposed(table)
            features = space.features
        elif self.phase == "overlap":
            space = self._in_overlap(table)
        raw = self._raw(space, table)
        labels = self.labels(table, space)
        (discounts, weights), outside = row_numbers.factors(table, self.config), self.outside(table)
        return Rows(space.id, features, raw, labels, discounts, None, ids, weights=weights, outside=outside)

    def _in_overlap(self, table: Table) -> Space:
        """The feature space of labelled rows in an overlap: the old one if they have none of the new names, else the
        union.

        Rows in the old one come from clients unaware of the change; the old model learns them, the mapping does not.
        """
        old, union = self._existing(self.space), self._existing(self.union)
        new = union.names[old.raw_width :]
        if isinstance(table.rows, np.ndarray):
            width = table.rows.shape[1] - (table.labels is not None)
            return old if width == old.raw_width < union.raw_width else union
        rows = table.rows if table.by_name else [table.columns or ()]
        if new and all({*names}.isdisjoint(new) for names in rows):
            return old
        _refuse_incomplete(union, table)
        return union

    def overlap(self, table: Table, ids: tuple[str, ...]) -> Overlap:
        """Unlabelled rows with both sets of features."""
        if self.phase != "overlap":
            raise RequestConflict(
                f"no overlap is under way: the phase is {self.phase}; begin a change of features first"
            )
        space = self._existing(self.union)
        _refuse_incomplete(space, table)
        return Overlap(space.id, self._raw(space, table), ids)

    def rows_to_keep(self, space: Space, raw: Floats, table: Table) -> list[tuple[Space, Floats]]:
        """Predicted rows in the form kept until their labels arrive: space and raw row (1, F) of each.

        In an overlap a row with every name of both spaces is kept in their union, so that its label teaches as much as
        feedback would. A row whose new values are invalid (predictions ignore them) is kept in the old space.
        """
        kept = [(space, raw[at : at + 1]) for at in range(len(raw))]
        if self.phase != "overlap" or self.space != space:
            return kept
        union = self._existing(self.union)
        if isinstance(table.rows, np.ndarray) and table.rows.shape[1] < union.raw_width:
            return kept
        for at in range(len(raw)):
            row = table._replace(rows=table.rows[at : at + 1])
            with suppress(Invalid):
                _refuse_incomplete(union, row)
                kept[at] = union, self._raw(union, row)
        return kept

    def _existing(self, space: Space | None) -> Space:
        if space is None:
            raise no_features(self.name)
        return space

    def _proposed(self, table: Table) -> Schema:
        """The schema that the first row proposes by its names and values."""
        (names, field), ignored = table.first_names(), self.config.ignore
        if names is None:
            raise RequestConflict(
                f"model {self.name} has no features yet, and this format names none: "
                "send the first row as JSON or CSV, or declare the features"
            )
        values, place = table.first_values()
        features = propose([*names], values, table.texts, ignored, field, place)
        proposed = Schema(features).reading(ignored) if ignored else Schema(features)
        self._admit(admission.of_columns(self._configs, proposed.width))
        refuse_lag_names(self._configs, proposed)
        return proposed

    def _raw(self, space: Space, table: Table) -> Floats:
        rows = table.rows
        if table.place is alone:
            return self._row(space, rows[0])
        if isinstance(space, SparseSchema):
            return sparse_rows.projected(space, table)
        if table.by_name:
            return self._by_name(space, table)
        if table.columns is None:
            return space.matrix(self._columns(space, table), self.missing_allowed, "body")
        return self._named(space, table.columns, rows, table.texts)

    def _row(self, space: Space, values: Mapping[str, Any]) -> Floats:
        try:
            return space.row(values, self.missing_allowed)
        except Invalid as error:
            if len(error.problems) == PROBLEMS_MAX and not self.missing_allowed:
                _refuse_absent(space.names, values, "features", FILLED)
            raise

    def _by_name(self, space: Schema, table: Table) -> Floats:
        """Rows by name as a table of the model's features; errors name fields as for a single row."""
        try:
            return self._named(space, space.names, _cells(space, table.rows), texts=False)
        except Invalid:
            problems = list[Problem]()
            for at, values in enumerate(table.rows):
                try:
                    self._row(space, values)
                except Invalid as error:
                    problems += [one._replace(field=table.place(at, one.field)) for one in error.problems]
                if len(problems) >= PROBLEMS_MAX:
                    break
        raise Invalid(*problems[:PROBLEMS_MAX])

    def _named(self, space: Schema, columns: Sequence[str], rows: Sequence[Sequence[Any]], texts: bool) -> Floats:
        """Rows with named columns: read as one array if they are plain numbers, else cell by cell."""
        numbers = None
        if space.numeric:
            read = number_tables.from_texts if texts else number_tables.from_values
            numbers = read(rows, len(columns))
        if numbers is not None:
            return space.numbers(columns, numbers, self.missing_allowed, texts)
        return space.block(columns, rows, self.missing_allowed, texts)

    def _columns(self, space: Schema, table: Table) -> Floats:
        """The feature columns of an array; in an overlap, the old features come first."""
        labelled = int(table.labels is not None)
        wider = self._existing(self.union)
        if table.rows.shape[1] - labelled not in (space.raw_width, wider.raw_width):
            shape = "x".join(map(str, table.rows.shape))
            raise Invalid.of("body", f"is an array of shape {shape}", f"n x {space.raw_width + labelled}, float64")
        columns: Floats = table.rows[:, : space.raw_width]
        return columns

    # ---------------------------------------------------------------- labels

    def labels(self, table: Table, proposed: Space | None = None, *, tracked: bool = False) -> Labels:
        """Labels as the model takes them: canonical values, of no more classes than its state has room for, or finite
        numbers (n,).

        ``proposed`` is the space of the rows, used if the model has none yet; ``tracked``: the rows were tracked,
        perhaps before their labels were retired.
        """
        values = table.labels
        if not self._retired and isinstance(values, list) and values and not table.texts and self.known.knows(values):
            return values  # most rows: every label is known and in its canonical form
        found = self.bare_labels(table)
        if self._retired and isinstance(found, list) and not tracked:
            gone = LabelSet(self._retired).find(found)
            retired = "is retired: PATCH add_labels brings it back"
            refuse([Problem(table.path("label")(at), retired) for at, one in enumerate(gone) if one >= 0])
        if isinstance(found, list) and not self.known.knows(found):
            self._check_classes(found, table.path("label"), self.space or proposed)
        return found

    def bare_labels(self, table: Table) -> Labels:
        """Labels, also those that are no classes yet, used to compare repeated ids."""
        values, path = table.labels or (), table.path("label")
        if self.config.task == "regression":
            return row_numbers.numbers(values, path, table.texts)
        if table.texts:
            return from_texts(values, self.config.labels, path, self.known.labels)
        return canonical_all(values, path)

    def labels_to_score(self, table: Table) -> Labels:
        """Labels to compare predictions with, among the declared ones if there are any; they add no classes."""
        found = self.bare_labels(table)
        if isinstance(found, list) and self.config.labels is not None:
            self._check_classes(found, table.path("label"), None)
        return found

    def outside(self, table: Table) -> "list[Label | None] | Floats | None":
        """The prediction of a model outside for each row, None or NaN where it has none; None if none were sent."""
        values, path = table.served, table.path("served")
        if values is None:
            return None
        kept = [at for at, value in enumerate(values) if value not in (None, "")]
        given, place = [values[at] for at in kept], lambda at: path(kept[at])
        if self.config.task == "regression":
            numbers = np.full(len(values), np.nan)
            numbers[kept] = row_numbers.numbers(given, place, table.texts) if kept else []
            return numbers
        labels = canonical_all([self._label_in(text) for text in given] if table.texts else given, place)
        said = dict(zip(kept, labels, strict=True))
        return [said.get(at) for at in range(len(values))]

    def _label_in(self, text: str) -> object:
        """The label that a text stands for: a declared one, else a number if it looks like one."""
        for declared in (self.config.labels, None):
            with suppress(Invalid):
                return from_texts([text], declared, str, self.known.labels)[0]
        return text

    def _check_classes(self, found: list[Label], path: FieldPath, space: Space | None) -> None:
        """Refuse undeclared labels, and labels that cannot all be classes of one model."""
        declared = self.config.labels
        if declared is None:
            self._check_new_classes(found, path, space)
            return
        known = LabelSet(declared)
        if known.knows(found):
            return
        strange = [at for at, label in enumerate(found) if known.index(label) < 0][:PROBLEMS_MAX]
        names = [one for one in declared if isinstance(one, str)]
        near = {at: suggestion(found[at], names) for at in strange[:SUGGESTED_MAX]}
        said = "is not one of the declared labels"
        raise Invalid(*(Problem(path(at), said + near.get(at, ""), list(declared)) for at in strange))

    def _check_new_classes(self, found: list[Label], path: FieldPath, space: Space | None) -> None:
        trial = LabelSet(self.known.labels)  # a copy: the model may move on meanwhile
        new: list[int] = []
        for at, label in enumerate(found):
            if (other := trial.clash(label)) is not None:
                raise Invalid.of(path(at), clashes(other, "another label of the model"), [other])
            if trial.index(label) < 0:
                new.append(at)
                trial.add(label)
        bound = self.config.algorithm.class_bound
        if len(trial) > bound:
            has, gone = f"the model has {len(self.known)}", len(self._vanished)
            way_out = f" ({gone} of them retired: a reset forgets them)" if gone else ""
            raise RequestConflict(f"{self.config.algorithm_id} learns at most {bound} classes; {has}{way_out}")
        if new and space is not None:
            need = cost.bytes_with(self._learners, self._configs, space.width, len(trial))
            self._admit(admission.of_classes(self._configs, need, space.width, len(trial), path(new[0])))


@lru_cache(maxsize=64)
def _read_by(schema: Schema, ignored: tuple[str, ...], others: bool) -> Schema:
    return schema.reading(ignored, others)


def _cells(space: Schema, rows: Sequence[dict[str, Any]]) -> list[Sequence[Any]]:
    """Rows by name as cells of the features, None for an absent one; ``Invalid`` for a name that is not a feature."""
    names = space.names
    if len(names) > 1 and {len(names)} == {*map(len, rows)}:
        pick = itemgetter(*names)
        with suppress(KeyError):
            return [pick(row) for row in rows]  # a map would hold the interpreter for all rows
    if not all(map(space.known.issuperset, rows)):
        raise Invalid
    return [[*map(row.get, names)] for row in rows]


def _refuse_incomplete(union: Space, table: Table) -> None:
    """In an overlap every name of both spaces is required, even if values may be missing otherwise.

    A row that lacks one of them comes from a client that does not know of the change; filling the value in would teach
    the mapping something false.
    """
    if table.by_name:
        for at, given in enumerate(table.rows):
            _refuse_absent(union.names, given, table.place(at, "features"))
    elif table.columns is not None:
        _refuse_absent(union.names, {*table.columns}, table.first_names()[1])


def _refuse_absent(names: Sequence[str], given: Collection[str], field: str, way_out: str = "") -> None:
    absent = [name for name in names if name not in given]
    if absent:
        raise Invalid(lacking(field, absent, way_out))
