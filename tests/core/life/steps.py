"""The steps in the life of a model, named after the methods of tests.core.life.life.Life."""

from hypothesis import strategies as st

from tests.core.life import requests
from tests.core.life.streams import FEATURES, LABELS, WEATHER

COUNTS = st.sampled_from([30, 1, 2, 7, 70])
SPACES = st.integers(0, len(FEATURES) - 1)
CHANGES = st.integers(0, len(requests.CHANGES) - 1)
KINDS = st.sampled_from([None, "linear", "kernel"])
PLACES = st.integers(0, 50)

_REQUESTS = (
    ("rows", COUNTS), ("proposal", st.integers(0, 1)), ("some_seen", COUNTS), ("late", PLACES),
    ("begin", SPACES, KINDS), ("overlap", COUNTS), ("complete",), ("abort",), ("reset",), ("restore", PLACES),
    ("configure", CHANGES),
)  # fmt: skip
"""Requests that may be sent together with others."""
_STEPS = (
    (3, "rows", COUNTS),
    (6, "drift", st.sampled_from(["means", "labels", "both"]), st.sampled_from([40, 0]), st.sampled_from([60, 30])),
    (2, "served", COUNTS),
    (3, "whole_change", SPACES, KINDS, COUNTS, st.sampled_from([20, 0, 3])),
    (3, "begin", SPACES, KINDS),
    (1, "overlap", COUNTS, st.booleans()),
    (1, "complete"),
    (2, "abort"),
    (3, "track", st.booleans()),
    (3, "label_of_a_tracked_row", PLACES, st.booleans()),
    (1, "rows_of_another_space", COUNTS, PLACES),
    (1, "rows_with_some_seen", COUNTS),
    (
        2,
        "together",
        st.lists(st.one_of(st.tuples(st.just(one[0]), *one[1:]) for one in _REQUESTS), min_size=2, max_size=5),
    ),
    (1, "storm", st.sampled_from([one for one in WEATHER if one != "plain"]), COUNTS),
    (1, "gaps", st.booleans()),
    (1, "classes", st.sampled_from([*range(2, len(LABELS) + 1), 1])),
    (1, "reset"),
    (1, "save"),
    (1, "export", COUNTS),
    (1, "restore", PLACES, st.sampled_from(["restore", "import"])),
    (2, "configure", CHANGES),
    (2, "challenge", st.integers(0, 1)),
    (1, "swap"),
    (1, "withdraw"),
    (1, "refused", st.sampled_from(["clash", "classes", "torn", "foreign"])),
)
"""Weight, name, arguments."""
STORY = st.one_of(st.tuples(st.just(name), *arguments) for times, name, *arguments in _STEPS for _ in range(times))
"""One step of a life."""

_CONTESTED = [one for one in _STEPS if one[1] in ("rows", "served", "drift", "challenge", "label_of_a_tracked_row",
                                                  "track", "reset", "withdraw", "classes")]  # fmt: skip
CONTESTED_STORY = st.one_of(
    st.tuples(st.just(name), *arguments) for times, name, *arguments in _CONTESTED for _ in range(times)
)
"""One step of the life of a model whose challengers soon take over."""

WHOLE_LIFE = (
    ("refused", "torn"), ("rows", 1), ("rows", 30), *(("configure", which) for which in (1, 2, 4, 9)), ("gaps", True),
    ("rows", 7), ("configure", 6), ("rows_with_some_seen", 1), ("rows_with_some_seen", 30),
    ("drift", "means", 40, 40), ("drift", "labels", 40, 40), ("drift", "labels", 40, 40), ("track", False),
    ("label_of_a_tracked_row", 0, False), ("save",), ("begin", 1, "linear"), ("abort",),
    ("rows_of_another_space", 7, 1),
    # an overlap, and labels of rows predicted before and during it
    ("track", False), ("track", False), ("begin", 1, "linear"), ("configure", 4), ("rows", 30),
    ("overlap", 20, False), ("label_of_a_tracked_row", 0, False), ("classes", 3), ("drift", "means", 40, 40),
    ("track", True), ("label_of_a_tracked_row", 1, False), ("track", False), ("track", False), ("refused", "clash"),
    ("refused", "foreign"), ("complete",),
    # an ensemble
    ("configure", 6), ("rows", 70), ("gaps", False), ("label_of_a_tracked_row", 0, False), ("track", False),
    ("label_of_a_tracked_row", 2, False), ("classes", 4), ("drift", "means", 40, 40), ("drift", "labels", 40, 40),
    ("refused", "classes"), ("save",), ("begin", 2, "kernel"), ("rows", 30), ("label_of_a_tracked_row", 0, True),
    ("abort",), ("track", False), ("whole_change", 2, "linear", 30, 20), ("label_of_a_tracked_row", 0, True),
    ("begin", 3, None), ("reset",),
    # kept states: steady, then the ensemble
    ("restore", 1, "restore"), ("whole_change", 2, "kernel", 7, 20), ("restore", 2, "import"),
    ("restore", 2, "restore"), ("track", False), ("reset",), ("label_of_a_tracked_row", 0, True),
    ("restore", 1, "import"), ("reset",), ("track", False), ("restore", 0, "import"),
    ("label_of_a_tracked_row", -1, False), ("rows", 30), ("together", [("overlap", 7), ("complete",), ("rows", 7)]),
    # a mapping from unlabelled rows only; then one from too few rows
    ("restore", 1, "import"), ("begin", 1, "linear"), ("overlap", 30, False), ("complete",),
    ("drift", "means", 0, 60),
    ("together", [("begin", 2, None), ("rows", 7), ("complete",), ("rows", 7), ("abort",)]),
    ("together", [("rows", 7), ("begin", 2, "kernel"), ("rows", 30)]), ("rows", 2), ("complete",),
    ("restore", 1, "restore"), ("whole_change", 1, "linear", 2, 0), ("export", 30), ("restore", 3, "import"),
    ("storm", "wild", 30), ("storm", "huge", 7), ("rows", 30),
    # wild rows during and after an overlap
    ("begin", 2, "linear"), ("storm", "wild", 30), ("complete",), ("storm", "tiny", 30), ("begin", 3, "kernel"),
    ("storm", "wild", 30), ("complete",), ("storm", "wild", 30),
)  # fmt: skip
"""A life that meets everything."""
