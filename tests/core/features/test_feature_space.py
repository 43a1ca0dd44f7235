"""The space that is to follow the one in force: what is refused, and how both are sent together."""

import pytest
from numpy.testing import assert_array_equal

from core.features import Schema, parse_features
from core.features.feature_space import fits, parse_next, places, union
from core.problems import Invalid

DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}
NOW = Schema(parse_features(["a", DAY, {"name": "b", "min": 0, "max": 1}]))

REFUSED = [
    ([], "features"),
    (None, "features"),
    ("a", "features"),
    (["x", "x"], "features[1]"),
    (["x", 3], "features[1]"),
    (["x", ""], "features[1]"),
    (["a", DAY, "b"], "features"),
    (["b", "a", DAY], "features"),
    (["x", "day"], "features[1]"),
    (["x", {**DAY, "categories": ["tue", "mon"]}], "features[1]"),
    ([{"name": "a", "type": "categorical", "categories": ["p", "q"]}], "features[0]"),
    (["x", "day=mon"], "features"),
]


@pytest.mark.parametrize(("raw", "field"), REFUSED)
def test_what_cannot_follow_is_refused_by_field(raw, field):
    """No names, names twice, the same names, kept names declared otherwise, columns of one name in both."""
    with pytest.raises(Invalid) as refused:
        parse_next(raw, NOW)
    assert field == refused.value.problems[0].field


def test_the_declaration_in_force_is_told():
    """A kept name declared otherwise is answered with how it is declared now."""
    with pytest.raises(Invalid) as refused:
        parse_next(["x", "day"], NOW)
    assert DAY == refused.value.problems[0].allowed


@pytest.mark.parametrize("raw", [["x"], ["a"], ["x", "a", DAY], ["a", "b", DAY, "x"], [{"name": "b", "max": 9}, "x"]])
def test_what_can_follow_is_taken(raw):
    """New names, fewer names, more names, another range of a kept one."""
    features = parse_next(raw, NOW)
    assert parse_features(raw) == features
    assert fits(features, NOW)


def test_features_of_another_moment_do_not_fit():
    """What was checked against other features may not follow these."""
    assert not fits(parse_features(["a", DAY, "b"]), NOW)


def test_both_spaces_together_are_the_old_features_then_the_new_names():
    """And each space finds its columns in such a row."""
    new = Schema(parse_features(["y", {"name": "b", "max": 9}, "x"]))
    both = union(NOW, new.features)
    assert ("a", "day", "b", "y", "x") == both.names
    assert_array_equal([0, 1, 2], places(NOW, both))
    assert_array_equal([3, 2, 4], places(new, both))
