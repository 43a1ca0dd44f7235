"""Feature types: how their values are read, and which columns a learner gets."""

import json
import math
import re
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.features import Feature, parse_features, propose
from core.features.columns import OTHER
from core.features.encoder import Encoder, first_day, year_of
from core.problems import Invalid
from tests.core.features.schemas import FINITE, NAN, schema
from tests.core.refusals import fields, problems

DAY = {"name": "day", "categories": ["mon", "tue", 1, False]}
PLAN = {"name": "plan", "type": "categorical"}
VIP = {"name": "vip", "type": "boolean"}
SENT = {"name": "sent", "type": "time"}
LOAD = {"name": "load", "min": 0, "max": 10, "outside": "clip"}
LIMIT = {"name": "limit", "min": -1, "outside": "refuse"}
ALL = [DAY, PLAN, VIP, SENT, LOAD, LIMIT, "x"]


def bucket(text, buckets=32):
    """The bucket of a text by definition: it must never change, since the log contains it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "little") % buckets


def one(feature, value, **how):
    """The raw number of one JSON value."""
    space = schema([feature]).reading(**how)
    return space.row({space.names[0]: value}, True)[0, 0]


def of_text(feature, text):
    """The raw number of one CSV text."""
    space = schema([feature])
    return space.block([space.names[0]], [[text]], True, texts=True)[0, 0]


# -- declarations


def test_a_declaration_of_every_kind_survives_json():
    """Defaults are filled in; numeric and categorical features from before the other types keep their JSON."""
    features = parse_features(ALL)
    assert features == parse_features(json.loads(json.dumps([feature.to_json() for feature in features])))
    assert {"name": "day", "type": "categorical", "categories": ["mon", "tue", 1, False]} == features[0].to_json()
    assert {"name": "plan", "type": "categorical", "buckets": 32} == features[1].to_json()
    assert {"name": "load", "type": "numeric", "min": 0.0, "max": 10.0, "outside": "clip"} == features[4].to_json()
    (plain,) = parse_features([{"name": "a", "min": 0, "outside": "accept"}])
    assert Feature("a", minimum=0.0) == plain
    assert (Feature("a", "numeric", (), None, None),) == parse_features(["a"])


def test_encoded_columns_have_names_and_ranges():
    """As shown in weights, explanations and drift events; the columns of a time are never tested for drift."""
    mixed = schema([{"name": "p", "buckets": 2}, VIP, SENT, "x"])
    times = ["hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "days"]
    assert ("p#0", "p#1", "vip", *(f"sent.{name}" for name in times), "x") == mixed.columns
    expected = [[0, 0, 0, *[-1] * 6, NAN, NAN], [1, 1, 1, *[1] * 6, NAN, NAN]]
    assert np.array_equal(expected, mixed.ranges, equal_nan=True)
    assert np.array_equal([-1e12] * 7, mixed.drift_ranges[0, 3:10])
    assert (False, False, True) == (mixed.plain, mixed.numeric, schema([VIP, "x"]).plain)


# -- categories


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gold", "gold"), ("", ""), (12, "12"), (12.0, "12"), ("12", "12"), (True, "true"), ("\u00e4", "\u00e4"),
        ("x" * 500, "x" * 500), (2**64 - 1, "18446744073709551615"), ("v1.0", "v1.0"), ("-3.0", "-3"), ("True", "true"),
        ("FALSE", "false"), ("tRue", "tRue"), (".0", ".0"), ("\u00b2.0", "\u00b2.0"),
    ],
)  # fmt: skip
def test_a_value_is_hashed_by_its_text(value, text):
    """12, 12.0, "12" and "12.0" are one value; the bucket is the same on every machine and in every version."""
    assert bucket(text) == one(PLAN, value) == one(PLAN, value)
    assert bucket(text, 7) == one({"name": "p", "buckets": 7}, value)
    if text:
        assert bucket(text) == of_text(PLAN, text) == of_text(PLAN, str(value))


def test_values_without_a_text_are_no_categories():
    """Fractions, lists and objects are refused; null is missing."""
    for value in (1.5, [], {}, 2**64, 10**400):
        with pytest.raises(Invalid):
            one(PLAN, value)
    assert math.isnan(one(PLAN, None))
    assert math.isnan(of_text(PLAN, ""))


@pytest.mark.parametrize("value", ["wed", 0, True, 1.5, "1", "false", 10**400, "y" * 300])
def test_a_category_that_is_not_declared_is_other(value):
    """All its columns are 0; a list is still refused."""
    assert OTHER == one(DAY, value)
    assert 2.0 == one(DAY, 1.0)
    assert OTHER == of_text(DAY, "wed")
    encoder = Encoder(schema([DAY]), "error")
    assert [[0, 0, 0, 0], [0, 1, 0, 0]] == encoder.encode(np.array([[OTHER], [1.0]])).tolist()
    (problem,) = problems(one, DAY, value, others=False)
    assert re.search('declare "unknown": "other".*{"name": "day", "type": "categorical"}', problem.problem)
    assert ("features.day", DAY["categories"]) == (problem.field, problem.allowed)
    assert ["data[0][0]"] == fields(schema([DAY]).reading(others=False).block, ["day"], [[value]], True)
    with pytest.raises(Invalid):
        one(DAY, [value])


@pytest.mark.parametrize("others", [(), ("True", "FALSE")])
def test_true_and_false_have_the_usual_spellings_in_csv(others):
    """As for boolean features, unless the text is another category; in JSON only true is true."""
    flag = {"name": "flag", "categories": [True, False, *others]}
    expected = [0, 2 if others else 0, 0, 1, 1, 3 if others else 1]
    assert expected == [of_text(flag, text) for text in ("true", "True", "TRUE", "false", "False", "FALSE")]
    assert [OTHER, OTHER, OTHER] == [of_text(flag, "1"), of_text(DAY, "True"), one(flag, "TRUE")]
    assert [0.0, 2.0 if others else OTHER] == [one(flag, True), one(flag, "True")]


# -- booleans


def test_booleans_are_ones_and_zeros():
    """true, false, 0 and 1; in CSV also the usual spellings."""
    assert [1, 0, 1, 0, 1, 0] == [one(VIP, value) for value in (True, False, 1, 0, 1.0, 0.0)]
    assert [1, 0, 1, 0, 1, 0] == [of_text(VIP, text) for text in ("true", "False", "1", "0", "1.0", "0.0")]
    for value, kind in (("yes", "categorical"), (2, "numeric"), (0.5, "numeric")):
        with pytest.raises(Invalid, match=f'is not true or false.*"type": "{kind}"'):
            one(VIP, value)
    with pytest.raises(Invalid):
        of_text(VIP, "2")
    with pytest.raises(Invalid):
        one(VIP, [])


# -- times


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00.25z", datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-01-31 12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.9Z", datetime(9999, 12, 31, 23, 59, 59, 900_000, tzinfo=UTC)),
        ("1990-12-31T23:59:60Z", datetime(1991, 1, 1, tzinfo=UTC)),
        ("1990-12-31T15:59:60.5-08:00", datetime(1991, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_a_time_is_seconds_since_1970(text, moment):
    """RFC 3339 or a number; UTC if there is no offset."""
    assert moment.timestamp() == one(SENT, text) == of_text(SENT, text)
    assert moment.timestamp() == one(SENT, moment.timestamp()) == of_text(SENT, repr(moment.timestamp()))


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "", "2026-13-01", "0001-01-01T00:00:00+01:00", "2026-06-30T12:59:60Z", "9999-12-31T23:59:60Z"),
        *("20260131", "20260131T120000Z", "2026-W05-6", "2026W056", "2026-W05"),
        *(1.7e12, -1e12, True, [], 10**400),
    ],
)
def test_an_invalid_time_is_refused(value):
    """Milliseconds too: as seconds, they would be beyond the year 9999."""
    found = problems(one, SENT, value)
    assert ["features.sent"] == [problem.field for problem in found]
    assert found[0].allowed


def test_digits_are_a_number_and_no_date():
    """In CSV, where every cell is a text, 20260131 is what it is in JSON: seconds; in quotes JSON has no such time."""
    assert 20_260_131.0 == one(SENT, 20_260_131) == of_text(SENT, "20260131")
    for text in ("20260131T120000Z", "2026-W05-6"):
        with pytest.raises(Invalid):
            of_text(SENT, text)


@settings(max_examples=300)
@given(st.datetimes())
def test_a_time_becomes_circles_and_elapsed_days(moment):
    """It agrees with the standard library's calendar."""
    moment = moment.replace(tzinfo=UTC)
    (columns,) = Encoder(schema([SENT]), "error").encode(np.array([[moment.timestamp()]])).tolist()
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight.replace(month=1, day=1)
    length = (first.replace(year=first.year + 1) - first).days if first.year < 9999 else 365
    passed = [(moment - midnight) / timedelta(days=1), moment.weekday() / 7, (midnight - first).days / length]
    circles = [circle(2 * math.pi * part) for part in passed for circle in (math.sin, math.cos)]
    days = (moment - datetime(2026, 1, 1, tzinfo=UTC)) / timedelta(days=1)
    np.testing.assert_allclose([*circles, days], columns, rtol=1e-9, atol=1e-7)


def test_every_day_of_six_centuries_is_in_its_year():
    """Leap years, centuries and years divisible by 400."""
    for year in range(1599, 2201):
        first = (datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
        assert first == first_day(year)
        assert [year - 1, year, year] == [year_of(day) for day in (first - 1, first, first_day(year + 1) - 1)]


# -- ranges


def test_numbers_outside_their_range_are_clipped_or_refused():
    """In a row, a table, an array and CSV; missing values are never outside."""
    both = schema([LOAD, LIMIT])
    assert [[10.0, 5.0]] == both.row({"load": 99, "limit": 5}, False).tolist()
    table = [[-1.0, -1], [3, None]]
    expected, texts = [[0.0, -1.0], [3.0, NAN]], [["-1", "-1"], ["3", ""]]
    assert np.array_equal(expected, both.block(["load", "limit"], table, True), equal_nan=True)
    assert np.array_equal(expected, both.block(["load", "limit"], texts, True, texts=True), equal_nan=True)
    X = np.array([[-1.0, -1.0], [3.0, NAN]])
    assert np.array_equal(expected, both.matrix(X, True), equal_nan=True)
    assert np.array_equal(expected, both.numbers(["load", "limit"], X, True), equal_nan=True)
    assert -1.0 == X[0, 0]
    for read, place in (
        (lambda: both.row({"load": 1, "limit": -2}, False), "features.limit"),
        (lambda: both.block(["limit", "load"], [[0, 1], [-2, 1]], False), "data[1][0]"),
        (lambda: both.block(["limit", "load"], [["0", "1"], ["-2", "1"]], False, texts=True), "row 2, column limit"),
        (lambda: both.matrix(np.array([[1.0, -2.0]]), False), "data[0][1]"),
        (lambda: both.numbers(["limit", "load"], np.array([[-2.0, 1.0]]), False), "data[0][0]"),
    ):
        found = problems(read)
        assert ([place], ">= -1") == ([problem.field for problem in found], found[0].allowed)
        assert '"outside"' in found[0].problem


# -- tables


@settings(max_examples=60)
@given(st.data())
def test_a_table_of_every_kind_is_its_rows(data):
    """Rows by name, tables and CSV agree: columns in any order, some absent, known and unknown values."""
    space = schema([DAY, PLAN, VIP, SENT, LOAD, "x"])
    text = st.text("abc", min_size=1, max_size=3)
    kinds = {
        "day": st.sampled_from(["mon", 1, False, "wed", 7]),
        "plan": text | st.integers(0, 50) | st.booleans(),
        "vip": st.sampled_from([True, False, 0, 1]),
        "sent": st.sampled_from(["2026-01-31T12:00:00Z", "2024-02-29", 0, 1.5e9]),
        "load": st.integers(-5, 20),
        "x": FINITE | st.integers(-(2**70), 2**70),
    }
    columns = data.draw(st.permutations(space.names))[: data.draw(st.integers(0, 6))]
    values = [kinds[name] | st.none() for name in columns]
    table = data.draw(st.lists(st.tuples(*values).map(list), max_size=6))
    rows = [space.row(dict(zip(columns, row, strict=True)), True) for row in table]
    expected = np.vstack([np.empty((0, 6)), *rows])
    assert np.array_equal(expected, space.block(columns, table, True), equal_nan=True)
    texts = [["" if v is None else json.dumps(v).strip('"') for v in row] for row in table]
    assert np.array_equal(expected, space.block(columns, texts, True, texts=True), equal_nan=True)


def test_an_array_holds_numbers_of_every_kind():
    """Indices, hashed integers, zeros and ones, seconds; the client's array is not modified."""
    space = schema(ALL)
    X = np.array([[3, 12, 1, 1.7e9, 11, 0, -5], [NAN, NAN, NAN, NAN, NAN, NAN, NAN]])
    before = X.copy()
    expected = [[3, bucket("12"), 1, 1.7e9, 10, 0, -5], [NAN] * 7]
    assert np.array_equal(expected, space.matrix(X, True), equal_nan=True)
    assert np.array_equal(before, X, equal_nan=True)
    wrong = np.array([[4, 1.5, 2, 1.7e12, 1, 1, math.inf], [-1, *[NAN] * 6], [0.5, *[NAN] * 6]])
    places = [f"data[0][{column}]" for column in (0, 1, 2, 3, 6)]
    assert [*places, "data[1][0]", "data[2][0]"] == fields(space.matrix, wrong, True)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64, np.longdouble])
def test_an_integer_that_float64_rounds_is_no_category(kind):
    """In an array, it would share the bucket of another one; the largest exact one is that of JSON."""
    space, end = schema(["x", PLAN]), 2**53
    signs = (1,) if kind is np.uint64 else (1, -1)
    for sign in signs:
        exact = np.array([[1, sign * (end - 1)]], dtype=kind)
        assert [[1, one(PLAN, sign * (end - 1))]] == space.matrix(exact, False).tolist()
        for value in (end, end + 1, 2**60 + 1):
            found = problems(space.matrix, np.array([[2**60 + 1, 3], [1, sign * value]], dtype=kind), False)
            assert [("data[1][1]", f"{1 - end} to {end - 1}")] == [(each.field, each.allowed) for each in found]


def test_columns_that_would_have_one_name_are_refused():
    """The columns of a feature that the first row proposes have names, too."""
    with pytest.raises(Invalid):
        propose(["plan", "plan#3"], ["gold", 1], False, (), "features", "features.{1}".format)
