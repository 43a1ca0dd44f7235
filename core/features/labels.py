"""Class labels as values: which values are labels, when two are the same, and in which order they appeared.

A label is a string, an integer or a boolean. Python says ``0 == False`` and ``1 == True == 1.0``; labels do
not, so every table here is keyed by (type, value). In JSON answers a label is an object's *key*, where 0 and "0" look
the same: two labels with the same key *clash*, and a label set refuses the second.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from core.contract import Header, Ints, Label
from core.problems import PROBLEMS_MAX, Invalid, Problem, refuse

LENGTH_MAX = 200  # most characters in a string label
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_KINDS = "a string, an integer or a boolean"
_ALIKE: tuple[set[type], ...] = ({str}, {int}, {bool}, {float})
"""Types whose equal values are the same label; across these groups they are not: 1 is not True."""
_FEW = 16  # up to this many labels a lookup is faster than counting
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
_TYPES = {str: "string", int: "integer", bool: "boolean"}
T = TypeVar("T")


def clashes(other: Label, which: str) -> str:
    """The problem of a label that looks like another one of a different type; ``which``: what the other one is."""
    alike = f"looks in answers like the {_TYPES[type(other)]} {json.dumps(other)}, {which}"
    return f"{alike}: send that one, or use another name"


def canonical(value: object, field: str) -> Label:
    """The label of a JSON value; ``1.0`` is 1, ``false`` stays False.

    ``Invalid`` for anything but a string, integer or boolean; an integer beyond 64 bits; a string over 200 characters
    or with half a surrogate pair, which UTF-8 cannot encode.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > LENGTH_MAX:
            raise Invalid.of(field, "is too long for a label", f"at most {LENGTH_MAX} characters")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise Invalid.of(field, "is not valid Unicode", _KINDS)
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        if not _INT_MIN <= (number := int(value)) <= _INT_MAX:
            raise Invalid.of(field, "is too large for a label", "64-bit integers")
        return number
    raise Invalid.of(field, "is not a label", _KINDS)


def canonical_all(values: Sequence[object], place: Callable[[int], str]) -> list[Label]:
    """The labels of n JSON values; ``place`` names the first ``Invalid`` one by its number.

    Among values of one type each distinct value is checked once: there are few classes.
    """
    try:
        if {*map(type, values)} in _ALIKE:
            found = {value: canonical(value, "") for value in {*values}}
            return [*map(found.__getitem__, values)]
        return [canonical(value, "") for value in values]
    except Invalid:  # again, to name the value
        return [canonical(value, place(at)) for at, value in enumerate(values)]


def key(label: Label) -> str:
    """The text of a label as a JSON key and in CSV: False is "false", 0 is "0", "" is ""."""
    return label if isinstance(label, str) else json.dumps(label)


def same(a: Label, b: Label) -> bool:
    """Whether two labels are the same: equal and of the same type, so that 0 is not False."""
    return type(a) is type(b) and a == b


class LabelSet:
    """The classes of a model, by index, in the order in which they first appeared."""

    def __init__(self, labels: Sequence[Label] = ()) -> None:
        self.labels: list[Label] = []
        self.keys: list[str] = []  # as in JSON, all distinct
        self._indices: dict[tuple[type, Label], int] = {}
        self._by_key: dict[str, int] = {}
        for label in labels:
            self.add(label)

    def __len__(self) -> int:
        return len(self.labels)

    def index(self, label: Label) -> int:
        """The index of a label, -1 if it is unknown."""
        return self._indices.get((type(label), label), -1)

    def find(self, labels: Sequence[Label]) -> list[int]:
        """The indices of labels, -1 for unknown ones."""
        return [*map(self._indices.get, zip(map(type, labels), labels, strict=True), repeat(-1))]

    def knows(self, values: Sequence[Any]) -> bool:
        """Whether all values, for example of JSON, are labels of the set without conversion."""
        try:
            if len(values) == 1:
                return (type(values[0]), values[0]) in self._indices
            if len(values) > _FEW and {*map(type, values)} in _ALIKE:
                values = [*{*values}]
            return all(map(self._indices.__contains__, zip(map(type, values), values, strict=True)))
        except TypeError:  # a list is not hashable
            return False

    def first_rows(self, labels: Sequence[Label], seen: int) -> tuple[tuple[int, Label], ...]:
        """The classes after the first ``seen`` ones, in order, each with its first position among n labels."""
        found = self.find(labels)
        return tuple((found.index(at), self.labels[at]) for at in range(seen, len(self.labels)))

    def indices(self, labels: Sequence[Label]) -> Ints:
        """The indices of n labels, int64 (n,), -1 for unknown ones."""
        return np.array(self.find(labels), dtype=np.int64)

    def add(self, label: Label) -> int:
        """The index of a label, which is added if it is new; it must not ``clash`` with another one."""
        index = self.index(label)
        if index >= 0:
            return index
        text = key(label)
        if text in self._by_key:
            raise ValueError("two labels would have the same key")
        index = len(self.labels)
        self.labels.append(label)
        self.keys.append(text)
        self._indices[type(label), label] = self._by_key[text] = index
        return index

    def clash(self, label: Label) -> Label | None:
        """The different label of the set with the same key, or None."""
        index = self._by_key.get(key(label), -1)
        return None if index < 0 or same(self.labels[index], label) else self.labels[index]

    def to_header(self) -> Header:
        """The set as JSON-able scalars; JSON keeps the three types apart."""
        return {"labels": list(self.labels)}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> "LabelSet":
        """The set from a header of ``to_header``; raises ``ValueError`` for any other header."""
        labels = header.get("labels")
        listed = labels if isinstance(labels, list) else []
        restored = cls([canonical(label, f"labels[{i}]") for i, label in enumerate(listed)])
        if listed is not labels or len(restored) != len(listed):
            raise ValueError("labels: not a list of distinct labels")
        return restored


def parse_declared(raw: object, field: str = "labels", bound: int = 100) -> tuple[Label, ...]:
    """The label set that a client declares: 2 to ``bound`` labels, by ``distinct``; raises ``Invalid``."""
    if isinstance(raw, list | tuple) and not 2 <= len(raw) <= bound:
        raise Invalid.of(field, "has too few or too many labels", f"2 to {bound} labels")
    return distinct(raw, field, allowed=f"2 to {bound} labels")


def distinct(raw: object, field: str, of: str = "labels", allowed: object = None) -> tuple[Label, ...]:
    """The labels of a list, in order; raises ``Invalid`` for values that are no labels, occur twice or clash.

    ``of``, ``allowed``: what it is a list of, and what is allowed, for the error if it is not a list.
    """
    if not isinstance(raw, list | tuple):
        raise Invalid.of(field, f"is not a list of {of}", allowed)
    found = LabelSet()

    def join(item: object, where: str) -> None:
        label = canonical(item, where)
        if found.index(label) >= 0:
            raise Invalid.of(where, "occurs twice")
        if (other := found.clash(label)) is not None:
            raise Invalid.of(where, clashes(other, "another one before it"))
        found.add(label)

    refuse(_problems(raw, join, lambda i: f"{field}[{i}]"))
    return tuple(found.labels)


def from_texts(
    cells: Sequence[str], declared: tuple[Label, ...] | None, place: Callable[[int], str], learned: Sequence[Label] = ()
) -> list[Label]:
    """The labels of a column of texts; ``place`` names a cell by its number.

    A declared label is matched by its text, or by its value if it is a number ("1.0" is 1) or a boolean ("True" and
    "TRUE" are true, unless they are labels themselves). Without declared labels, a cell that looks like a number is
    one, or like a boolean if a ``learned`` label is one; an empty cell is missing (declare "" to use it as a label).
    ``Invalid`` lists the first cells that match no declared label, or are numbers but not integers.
    """
    booleans = [label for label in declared or () if isinstance(label, bool)]
    if declared is None and any(isinstance(label, bool) for label in learned):
        booleans = [False, True]
    forms = [(form, label) for label in booleans for form in (key(label), str(label), str(label).upper())]
    known: dict[str, Label] = {form: label for form, label in forms if form not in learned}
    known |= {key(label): label for label in declared or ()}

    def read(cell: str, field: str) -> Label:
        if cell in known:
            return known[cell]
        if declared is None and cell == "":
            raise Invalid.of(field, 'is missing; a label "" must be declared to be read from an empty cell')
        if declared is None:
            return number_or_text(cell, field)
        with suppress(Invalid):
            label = number_or_text(cell, field)
            if isinstance(label, int) and any(same(label, one) for one in declared):
                return label
        raise Invalid.of(field, "is not one of the declared labels", list(declared))

    try:
        found = {cell: read(cell, "") for cell in {*cells}}
    except Invalid:  # again, to name the cells
        raise Invalid(*_problems(cells, read, place)) from None
    return [*map(found.__getitem__, cells)]


def _problems(values: Sequence[T], read: Callable[[T, str], object], place: Callable[[int], str]) -> list[Problem]:
    """The problems of the first values that ``read`` refuses."""
    problems: list[Problem] = []
    for at, value in enumerate(values):
        try:
            read(value, place(at))
        except Invalid as refused:
            problems += refused.problems
            if len(problems) >= PROBLEMS_MAX:
                break
    return problems


def number_or_text(cell: str, field: str) -> Label:
    """The integer that a text denotes ("12", " 1.0", "1e3"), else the text itself; other numbers are ``Invalid``."""
    text = canonical(cell, field)
    if _INTEGER.fullmatch(cell):
        return canonical(int(cell), field)
    return canonical(float(cell), field) if _NUMBER.fullmatch(cell) else text
