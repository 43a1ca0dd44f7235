"""The features proposed from a first row."""

import pytest

from core.features import Feature, propose
from core.problems import Invalid
from tests.core.refusals import problems


def proposed(row, texts=False, ignored=()):
    place = "row 1, column {1}" if texts else "features.{1}"
    return propose([*row], [*row.values()], texts, ignored, "features", place.format)


def test_kinds_follow_from_the_values():
    """Numbers, booleans and strings become numeric, boolean and categorical features."""
    plan, city = (Feature(name, "categorical", buckets=32) for name in ("plan", "city"))
    found = proposed({"age": 41, "fee": 1.5, "vip": False, "plan": "gold", "city": ""})
    assert (Feature("age"), Feature("fee"), Feature("vip", "boolean"), plan, city) == found


def test_a_csv_cell_that_is_no_number_is_a_string():
    """Even if it looks like a boolean, an infinity or a date."""
    row = {"a": "1e3", "b": "true", "c": "inf", "d": "2026-01-31"}
    found = proposed(row, texts=True)
    assert ["numeric", "categorical", "categorical", "categorical"] == [feature.type for feature in found]


@pytest.mark.parametrize(("value", "texts"), [(None, False), ("", True), ("NA", True), ([1], False), ({}, False)])
def test_a_value_without_a_kind_has_to_be_declared(value, texts):
    """The refusal names all such values at once and suggests a declaration."""
    found = problems(proposed, {"a": value, "b": "1", "c": value}, texts)
    places = ["row 1, column a", "row 1, column c"] if texts else ["features.a", "features.c"]
    assert places == [problem.field for problem in found]
    if value in (None, "", "NA"):
        assert '{"name": "a", "type": "numeric"}' in found[0].problem


def test_ignored_names_are_no_features():
    """Whatever their values are; a row of ignored names only has no features and is refused."""
    assert (Feature("a"),) == proposed({"note": None, "a": 1}, ignored=("note",))
    with pytest.raises(Invalid):
        proposed({"note": None}, ignored=("note",))


def test_columns_that_would_have_one_name_are_refused():
    """The columns of a hashed feature have names, too."""
    with pytest.raises(Invalid):
        proposed({"plan": "gold", "plan#3": 1})
