"""Labels: which values are labels, when two are the same, and the order of first appearance."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.features.labels import LabelSet, canonical, canonical_all, distinct, from_texts, key, parse_declared, same
from core.problems import Invalid
from tests.core.refusals import fields, problems

LABELS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(-3, 3), st.booleans())


def typed(labels):
    """Pairs of type and label, because 1 == True."""
    return [(type(label), label) for label in labels]


@pytest.mark.parametrize(
    ("label", "value"),
    [
        *((label, label) for label in ("", "UP", "a" * 200, 0, False, True, 2**63 - 1, -(2**63))),
        *((1, 1.0), (0, -0.0), (-(2**63), -float(2**63)), (2**53, float(2**53))),
    ],
)
def test_a_value_becomes_its_label(label, value):
    """0, False and "" are ordinary labels; a float with an integer value is that integer."""
    assert typed([label]) == typed([canonical(value, "label")])


@given(st.lists(LABELS | st.sampled_from([1.0, 2.0, -0.0]), max_size=40))
def test_a_list_of_values_becomes_their_labels(values):
    """Converting many at once equals converting each one, whether they have one type or several."""
    expected = [canonical(value, "label") for value in values]
    assert typed(expected) == typed(canonical_all(values, str))
    known = LabelSet()
    for at in range(0, len(expected), 2):
        if known.clash(expected[at]) is None:
            known.add(expected[at])
    assert all(known.index(label) >= 0 for label in expected) == known.knows(expected)


def test_values_are_known_only_where_they_are_labels_as_they_stand():
    """A different type, another spelling of a label or a value that is no label takes the slow path."""
    known = LabelSet([1, "a", True])
    assert known.knows([1, "a", True])
    for value in (1.0, "1", False, None, [], {}):
        assert not known.knows([1, value])


@pytest.mark.parametrize(
    "wrong",
    [None, 1.5, 1e300, float("nan"), float("inf"), 2**63, -(2**63) - 1, [], {}, ["a"], "a" * 201, "\ud800", b"a", 1j],
)
def test_the_first_invalid_label_is_named(wrong):
    """Nulls, fractions, lists, huge numbers and broken Unicode are refused, whatever the other values are."""
    for values in ([wrong, wrong], [1, 2, wrong], ["a", "b", wrong, wrong], [True, 1, wrong]):
        assert [f"labels[{values.index(wrong)}]"] == fields(canonical_all, values, "labels[{}]".format)


def test_a_refusal_says_what_is_allowed():
    """The message states the three kinds of label and does not echo the value."""
    with pytest.raises(Invalid) as refused:
        canonical(1.5, "label")
    assert "a string, an integer or a boolean" == refused.value.problems[0].allowed
    assert "1.5" not in str(refused.value)


@given(LABELS)
def test_the_key_is_the_key_json_would_write(label):
    """A label has the key that Python's own JSON would write."""
    assert [key(label)] == list(json.loads(json.dumps({label: None})))


@given(st.lists(LABELS))
def test_a_set_keeps_the_order_of_first_appearance(labels):
    """Indices, keys and clashes agree with a plain search through a list."""
    found, plain = LabelSet(), []
    for label in labels:
        clashing = [old for old in plain if key(old) == key(label) and not same(old, label)]
        assert typed(clashing[:1] or [None]) == typed([found.clash(label)])
        if clashing:
            with pytest.raises(ValueError, match="same key"):
                found.add(label)
            continue
        if not any(same(label, old) for old in plain):
            plain.append(label)
        expected = next(i for i, old in enumerate(plain) if same(label, old))
        assert (expected, expected) == (found.add(label), found.index(label))
    assert typed(plain) == typed(found.labels)
    assert [key(label) for label in plain] == found.keys
    assert len(plain) == len(found)
    indices = found.indices(labels)
    assert np.int64 == indices.dtype
    assert [found.index(label) for label in labels] == indices.tolist()


@pytest.mark.parametrize("listed", [None, "ab", 5, ["a", "a"], [0, "0"], [1.5], [None]])
def test_a_broken_header_is_refused(listed):
    """A header that no label set wrote is a ValueError."""
    with pytest.raises(ValueError, match="label"):
        LabelSet.from_header({"labels": listed})


@pytest.mark.parametrize(
    ("named", "raw"),
    [
        (["labels"], "UP"), (["labels"], None), (["labels"], []), (["labels"], ["UP"]),
        (["labels"], ["a", "b", "c", "d"]), (["labels[1]"], ["a", "a"]), (["labels[2]"], [1, 2, 1.0]),
        (["labels[1]"], [0, "0"]), (["labels[1]"], ["false", False]), (["labels[0]", "labels[2]"], [None, 1, 1.5]),
    ],
)  # fmt: skip
def test_an_invalid_set_of_labels_is_refused(named, raw):
    """Too few, too many, duplicates, two with one key, invalid labels: each problem names its item."""
    assert named == fields(parse_declared, raw, bound=3)


def test_a_long_list_of_problems_is_cut():
    """A refusal names at most 20 items."""
    assert 20 == len(problems(distinct, [None] * 100, "labels"))


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        *((number, str(number)) for number in (0, -12, 9007199254740993)),
        *((1, "1.0"), (1000, "1e3"), (9007199254740993, " 9007199254740993 "), (-2, "\t-2.0 ")),
        *((text, text) for text in ("UP", " UP", "nan", "inf", "1_000", "٣", "true", "1 2", " ", "\x1f1")),
    ],
)
def test_a_cell_is_a_number_where_it_looks_like_one(label, cell):
    """Without declared labels, integers are integers, also between spaces as in features; everything else is text."""
    assert typed([label]) == typed(from_texts([cell], None, str))


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        *((False, "false"), (False, "False"), (True, "TRUE"), ("True", "True"), (1, "1"), (1, " 1.0")),
        *(("2", "2"), ("0.5", "0.5"), ("", "")),
    ],
)
def test_a_cell_matches_the_declared_label_of_its_text(label, cell):
    """A declared label matches its text or its numeric value, a boolean also as boolean features are written."""
    declared = (False, 1, "2", "0.5", "", True, "True")
    assert typed([label]) == typed(from_texts([cell], declared, str))


@pytest.mark.parametrize("learned", [[True], ["a", 1, False], ["TRUE", True]])
def test_a_cell_is_a_boolean_where_one_was_learned(learned):
    """However boolean features are written, unless it is a learned label itself; without a boolean it is a text."""
    cells = ["true", "True", "FALSE", "1", "b", "TRUE"]
    true = "TRUE" if "TRUE" in learned else True
    assert typed([True, True, False, 1, "b", true]) == typed(from_texts(cells, None, str, learned))
    assert typed(["true", "True", "FALSE", 1, "b", "TRUE"]) == typed(from_texts(cells, None, str, ["a", 0]))


@pytest.mark.parametrize("cell", ["fALSE", "2.0", "3", "0.50", "UP"])
def test_a_cell_of_no_declared_label_is_refused(cell):
    """The refusal lists the declared labels."""
    assert [False, 1, "2", "0.5", ""] == problems(from_texts, [cell], (False, 1, "2", "0.5", ""), str)[0].allowed


def test_a_column_is_read_like_its_cells():
    """A whole column gives the labels of its cells, and the refusal names the wrong rows."""
    assert typed([1, "a", 1, 1]) == typed(from_texts(["1", "a", "1.0", "1"], None, str))
    assert ["row 2, column class", "row 4, column class"] == fields(
        from_texts, ["a", "x", "b", "y"], ("a", "b"), lambda at: f"row {at + 1}, column class"
    )


def test_a_clash_in_a_list_is_of_labels_or_of_categories() -> None:
    """The error calls neither the other."""
    with pytest.raises(Invalid, match=r"the integer 0, another one before it: send that one"):
        distinct([0, "0"], "categories")
