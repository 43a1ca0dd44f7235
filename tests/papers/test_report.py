"""The verdicts of the program that repeats the papers' tables, and its exit code."""

import errno
import re
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.harness.environments import Environment
from tests.papers.__main__ import RECORDED, TABLES, run
from tests.papers.charts import Figure, Line
from tests.papers.contenders import contending, outside
from tests.papers.rows import (
    EXPLAINED,
    OUTSIDE,
    REPEATED,
    SHOWN,
    Measured,
    Quoted,
    Result,
    Row,
    Size,
    Table,
    Why,
    _whys,
    compared,
    completed,
    judge,
    quoted,
)
from tests.papers.theory import BOUNDS

ROOT = Path(__file__).parents[2]


def _row(paper: Quoted | None, why: Why | None = None) -> Row:
    return Row("set", "dfop", paper, None, why)


@pytest.mark.parametrize(
    ("expected", "ours", "paper", "points", "why"),
    [
        (REPEATED, 80.4, Quoted(80.0, 0.1), True, None),
        (OUTSIDE, 80.6, Quoted(80.0, 0.1), True, None),
        (REPEATED, 80.6, Quoted(80.0, 0.7), True, None),
        (OUTSIDE, 79.4, Quoted(80.0, 0.1), True, None),
        (REPEATED, 0.066, Quoted(0.063, 0.004), False, None),
        (OUTSIDE, 0.07, Quoted(0.063, 0.004), False, None),
        (EXPLAINED, 90.1, Quoted(80.0, 0.1), True, Why(90.0, "noise")),
        (OUTSIDE, 95.0, Quoted(80.0, 0.1), True, Why(90.0, "noise")),
        (OUTSIDE, float("nan"), Quoted(80.0, 0.1), True, Why(90.0, "noise")),
        (SHOWN, 90.0, None, True, None),
    ],
)
def test_a_row_is_repeated_within_a_deviation_or_half_a_point(
    expected: str, ours: float, paper: Quoted | None, points: bool, why: Why | None
) -> None:
    """A reason only covers a difference as long as our figure stays where it was when the reason was written."""
    assert expected == judge(_row(paper, why), Measured((ours,)), points)[0]


def test_auto_and_baselines_run_once_for_a_stream() -> None:
    """Other rows of the same stream show the values measured by the first; rows of other streams keep their own."""
    whole, bare = Measured((90.0,), 91.0, 92.0, 50.0, 60.0), Measured((70.0,), 71.0)
    rows = [Row(name, kind, None, None) for name, kind in (("a", "dfop"), ("a", "rls"), ("b", "rls"), ("a", "gone"))]
    results = [Result(row, of, SHOWN) for row, of in zip(rows, (whole, bare, bare, Measured()), strict=True)]
    found = [one.measured for one in completed(results)]
    assert [whole, bare._replace(auto=92.0, no_change=50.0, majority=60.0), bare, Measured()] == found


def test_results_of_contenders_are_kept_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run replaces earlier results of its rows and keeps the rest; wrong is 100 minus right."""
    monkeypatch.setattr(contending, "RECORDED", tmp_path / "contenders.csv")
    row = Row("SEA", "dfop", None, None)
    for tree, forest in ((80.0, 90.0), (85.123, 91.5)):
        measured = Measured((88.0,), contended=(("river HAT", tree, "0.1"), ("capymoa ARF(100)", forest, "0.2")))
        contending.record(contending.of_table("one", [Result(row, measured, SHOWN)]))
    other = Measured((50.0,), contended=(("river HAT", 70.0, "0.1"),))
    contending.record(contending.of_table("two", [Result(row, other, SHOWN)]))
    assert ["SEA: capymoa ARF(100) 91.50, river HAT 85.12"] == contending.told("one", lower=False)
    assert ["SEA: capymoa ARF(100) 8.50, river HAT 14.88"] == contending.told("one", lower=True)
    assert 3 == len(contending.recorded())


def test_an_unavailable_contender_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message goes to stderr; a stream that is too long is not started."""
    nothing = Environment("no-such-package", needs="no-such-program")
    monkeypatch.setattr(outside, "PROGRAMS", {"nothing": nothing})
    monkeypatch.setattr(outside, "KNOWN", tmp_path)
    outside.version_of.cache_clear()
    assert () == outside.contended(np.zeros((3, 1)), np.zeros(3), [("nothing", "HAT")])
    assert "NOT RUN  nothing: no-such-program is not installed" in capsys.readouterr().err
    assert () == contending.contended(np.zeros((contending.ROWS_MAX + 1, 1)), np.zeros(contending.ROWS_MAX + 1))


def test_a_quick_run_judges_nothing() -> None:
    """Two repetitions are too few."""
    assert SHOWN == judge(_row(Quoted(80.0)), Measured((60.0,)), True, judged=False)[0]


def _absent(_: Size) -> Measured:
    raise FileNotFoundError(errno.ENOENT, "has not been fetched", "drift/absent")


def _ninety(_: Size) -> Measured:
    return Measured((90.0, 90.2), 91.0, 92.0, 50.0, 60.0)


def _table(*rows: Row) -> Table:
    return Table("one", "One table", "% right", True, rows, contenders={"found": "SVM 70"})


MISSED = (Row("absent", "dfop", Quoted(80.0), _absent), Row("nowhere", "dfop", Quoted(80.0), None))


@pytest.mark.parametrize(("code", "paper", "why"), [
    (0, 90.0, None), (1, 80.0, None), (0, 80.0, Why(90.0, "Other noise.")), (1, 80.0, Why(70.0, "Other noise.")),
])  # fmt: skip
def test_a_report_names_missing_sets_and_exits_by_its_rows(
    code: int, paper: float, why: Why | None, tmp_path: Path
) -> None:
    """Missing data are not a failure; a row outside without a valid reason is."""
    table = _table(Row("found", "dfop", Quoted(paper, 0.1), _ninety, why), *MISSED)
    assert code == run([table], {}, Size(), tmp_path)
    for page in ("report.md", "report.html"):
        text = (tmp_path / page).read_text()
        assert "Missing: absent, nowhere." in text
        assert "SVM 70" in text
        assert ("Other noise." in text) == (why is not None)


def test_a_bound_that_fails_fails_the_run(tmp_path: Path) -> None:
    """The drawing is written either way."""
    for code, holds in ((0, True), (1, False)):
        figure = Figure(
            "bound", "A bound", [Line("measured", [0, 1], [1, 2])], "rows", "loss", "None fails.", holds=holds
        )
        assert code == run([], {"bound": lambda figure=figure: figure}, Size(), tmp_path)
        assert ">measured<" in (tmp_path / "bound.svg").read_text()


def test_tests_between_algorithms_mark_the_better_one() -> None:
    """By the paired t-test and by Wilcoxon's; lower errors are better."""
    runs = {"a": (1.0, 1.1, 0.9, 1.05, 0.95, 1.02), "b": (2.0, 2.2, 1.9, 2.0, 2.1, 2.15)}
    results = [Result(Row("set", name, None, None), Measured(ours), SHOWN) for name, ours in runs.items()]
    for test in ("t", "wilcoxon"):
        assert {"set": "+"} == compared(results, "a", "b", test, lower=True)
        assert {"set": "-"} == compared(results, "a", "b", test, lower=False)
        assert {"set": "="} == compared(results, "a", "a", test, lower=True)


def test_every_reason_belongs_to_a_row_of_a_table() -> None:
    """A renamed row takes its reason along."""
    rows = {(key, row.name, row.algorithm) for key, make in TABLES.items() for row in make().rows}
    assert set() == {*_whys()} - rows
    assert 15 < len(quoted("dfop1")) < len(rows)


@pytest.mark.slow_but("dfop*", "fesl*")
@pytest.mark.parametrize("key", sorted(BOUNDS))
def test_every_bound_holds_where_its_assumptions_do(key: str) -> None:
    """The bound and the measured loss come from the same generated stream."""
    assert BOUNDS[key]().holds


def test_readme_and_guide_quote_the_last_whole_run() -> None:
    """Rows repeated, explained and missing, as recorded."""
    found = {verdict: int(count) for count, verdict in re.findall(r"(\d+) (\w+)", RECORDED.read_text())}
    repeated, explained, missing = found["repeated"], found["explained"], found["missing"]
    assert 0 == found["outside"]
    told = f"`make papers` repeats {repeated} of {repeated + explained} table rows, explains {explained} |"
    assert told in (ROOT / "README.md").read_text()
    guide = " ".join((ROOT / "service/pages/guide/papers.md").read_text().split())
    assert f"Of {sum(found.values())} rows, {repeated + explained} have a figure of the paper" in guide
    assert f": {repeated} are within" in guide
    assert f"{explained} are not, and each says why" in guide
    assert f"{missing} lack data" in guide
