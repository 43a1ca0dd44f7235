"""The next feature space: what is refused, and how rows carry both spaces during the overlap."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.features import Schema, parse_features
from core.features.columns import OTHER
from core.features.feature_space import RowPart, parse_next, union

DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}
NOW = Schema(parse_features(["a", DAY, {"name": "b", "min": 0, "max": 1}]))


@pytest.mark.parametrize("raw", [["x"], ["a"], ["x", "a", DAY], ["a", "b", DAY, "x"], [{"name": "b", "max": 9}, "x"],
                                 ["a", {**DAY, "categories": ["tue", "wed"]}, "b"], ["a", DAY, {"name": "b", "max": 9}],
                                 ["a", DAY, "b"]])  # fmt: skip
def test_a_valid_next_space_is_accepted(raw):
    """New names, fewer names, more names; a kept name may change its range or its categories."""
    features = parse_next(raw, NOW)
    assert parse_features(raw) == features
    assert features == parse_next([feature.to_json() for feature in features], NOW)


def test_the_union_of_two_spaces_has_the_old_features_then_the_new_names():
    """Each space finds its own columns in such a row."""
    new = Schema(parse_features(["y", {"name": "b", "max": 9}, "x"]))
    both = union(NOW, new.features)
    assert ("a", "day", "b", "y", "x") == both.names
    row = np.arange(5.0)[None]
    assert_array_equal([[0.0, 1.0, 2.0]], RowPart(NOW, both).of(row))
    assert_array_equal([[3.0, 2.0, 4.0]], RowPart(new, both).of(row))


def test_the_union_of_two_spaces_accepts_the_values_of_both():
    """Old categories followed by new ones; no limit unless both spaces refuse numbers outside their ranges."""
    new = parse_features([{**DAY, "categories": ["wed", "mon"]}, {"name": "b", "min": 0, "max": 9, "outside": "clip"}])
    both = union(NOW, new)
    assert ("mon", "tue", "wed") == both.features[1].categories
    assert "b" == both.features[2].to_json()
    assert NOW.features[1] == union(NOW, parse_features([{**DAY, "categories": ["tue", "mon"]}])).features[1]


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ({"min": 0, "max": 1}, {"min": -1, "max": 0.5}, {"min": -1, "max": 1, "outside": "refuse"}),
        ({"min": 0, "max": 1}, {"max": 9}, {"max": 9, "outside": "refuse"}),
        ({"min": 0}, {"max": 9}, {}),
        ({"min": 0}, {"min": 1, "outside": "clip"}, {}),
        ({"min": 0}, {"outside": "accept"}, {}),
    ],
)
def test_the_union_refuses_what_both_spaces_refuse(old, new, both):
    """A number within one of the ranges is accepted; without a common end, any number on that side is."""
    read = [parse_features([{"name": "b", "outside": "refuse", **ends}]) for ends in (old, new)]
    (joined,) = parse_features([{"name": "b", **both}])
    assert (joined,) == union(Schema(read[0]), read[1]).features == union(Schema(read[1]), read[0]).features
    parse_next(["c", *(feature.to_json() for feature in read[1])], Schema(read[0]))


def test_each_space_reads_a_row_of_the_union_its_own_way():
    """It numbers categories its own way, maps unknown ones to "other" and clips numbers to its own limits."""
    new = Schema(parse_features([{**DAY, "categories": ["wed", "mon"]}, {"name": "b", "max": 1, "outside": "clip"}]))
    both = union(NOW, new.features)
    raw = np.array([[5.0, code, 7.0] for code in (0.0, 1.0, 2.0, OTHER, np.nan)])
    kept = raw.copy()
    old_part, new_part = RowPart(NOW, both).of(raw), RowPart(new, both).of(raw)
    assert_array_equal([0.0, 1.0, OTHER, OTHER, np.nan], old_part[:, 1])
    assert_array_equal(raw[:, [0, 2]], old_part[:, [0, 2]])
    assert_array_equal([1.0, OTHER, 0.0, OTHER, np.nan], new_part[:, 0])
    assert_array_equal(np.ones(5), new_part[:, 1])
    assert_array_equal(kept, raw)
